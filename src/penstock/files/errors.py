"""Shortens the messages of foreign libraries when a storage fails; imports none of them."""

from __future__ import annotations

_PANIC = "PanicException"
_LENGTH_MAX = 200


def first_line(error: BaseException) -> str:
    """Return the first line of a foreign message, short."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_LENGTH_MAX]


def is_panic(error: BaseException) -> bool:
    """Return whether a library in Rust panicked: such an exception derives from BaseException."""
    return type(error).__name__ == _PANIC
