"""What foreign libraries say when a storage fails, in short; imports none of them."""

from __future__ import annotations

_PANIC = "PanicException"
_TOLD_MAX = 200


def told(error: BaseException) -> str:
    """Return the first line of a foreign message, short."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_TOLD_MAX]


def is_panic(error: BaseException) -> bool:
    """Return whether a library in Rust panicked: such an exception derives from BaseException."""
    return type(error).__name__ == _PANIC
