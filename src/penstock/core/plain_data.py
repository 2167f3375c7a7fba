"""Plain data as text, written and read: anything but the expected form is refused.

Invariants: a newer version is rejected with what it needs; every `as_` function returns its
argument or raises TypeError or ValueError, which `reading` makes an InvalidError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.core.errors import InvalidError

ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)
"""Writes equal data as equal text, compact."""
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)


@contextmanager
def reading(text: str | bytes, what: str, version_max: int) -> Iterator[dict[str, Any]]:
    """Give the object of a text whose `v` is at most `version_max`, or raise P190 or P191."""
    with refusing(what):
        data = json.loads(text)
        version = as_natural(data["v"], 1)
        if version > version_max:
            raise InvalidError(
                f"this {what} has version {version}, and this penstock reads up to {version_max}",
                code="P190",
                hint="use the newer penstock that wrote it, or upgrade this one",
            )
        yield data


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Raise InvalidError (P191) for what the code within cannot read."""
    try:
        yield
    except _UNREADABLE as error:
        raise InvalidError(
            f"this is not a {what} of Penstock: {type(error).__name__}: {error}",
            code="P191",
            hint="it was edited or damaged by others; restore it from a backup",
        ) from error


def as_rows(value: Any) -> list[list[Any]]:
    """Return a list of lists, or raise: a text would pass as a row of its letters."""
    return [as_list(each) for each in as_list(value)]


def as_list(value: Any) -> list[Any]:
    """Return a list; raise for anything else: what has no members would pass as an empty list."""
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def as_text(value: Any) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not {value!r}")
    return value


def as_whole(value: Any) -> int:
    """Return a whole number; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number was expected, not {value!r}")
    return value


def as_natural(value: Any, least: int = 0) -> int:
    """Return a whole number from `least` on."""
    number = as_whole(value)
    if number < least:
        raise ValueError(f"a number from {least} on was expected, not {number}")
    return number


def as_counts(value: Any) -> dict[str, int]:
    """Return counts by reason, none of them negative."""
    if not isinstance(value, dict):
        raise TypeError(f"counts by reason were expected, not {value!r}")
    return {reason: as_natural(count) for reason, count in value.items()}


def as_truth(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r}")
    return value
