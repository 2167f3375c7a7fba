"""Bisects a batch on unexpected errors, raised by a fault of ours or of a library.

When a function raises for a batch, it is called again with its halves, down to the records that
raise by themselves: one such record takes nothing from the others (docs/design/0223).

Invariants:
- no record is rejected for a fault of the machine: memory, disk, network;
- whether a record raises does not depend on the records around it. Where all do, a pipeline's
  circuit breaker parks the table (P345): it needs no second one here.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

T = TypeVar("T")
KINDS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
UNEXPECTED_ERRORS = KINDS
FOREIGN: tuple[type[Exception], ...] = (Exception,)
"""Errors that clients of catalogs and storages may raise: they derive from any. They are raised
again as one of ours; where an act may fail without harm, as housekeeping, they are ignored."""
_OURS = "penstock."


@dataclass(slots=True)
class BisectResult(Generic[T]):
    """The results of a batch's parts, in order, and the errors of single records by position."""

    parts: list[T] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)


def bisect_on_error(
    batch: pa.RecordBatch,
    make: Callable[[pa.RecordBatch], T],
    errors: tuple[type[Exception], ...] | None = None,
) -> BisectResult[T]:
    """Make something of a batch: in one part, or of those records that raise none of some errors.

    Those are unexpected ones unless others are given. Raises what else `make` raises, and what it
    raises for no record at all.
    """
    made, caught = BisectResult[T](), UNEXPECTED_ERRORS if errors is None else errors
    waiting = [(0, batch)]
    while waiting:
        start, part = waiting.pop()
        try:
            made.parts.append(make(part))
        except MemoryError:
            raise
        except caught as error:
            if not len(part):
                raise
            middle = len(part) // 2
            if middle:
                waiting += [(start + middle, part.slice(middle)), (start, part.slice(0, middle))]
            else:
                made.errors[start] = describe(error)
    return made


def describe(error: Exception) -> str:
    """Name an error and the lines of ours that it passed: all that a report needs, and no value."""
    places = [
        f"{name.removeprefix(_OURS)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (name := str(frame.f_globals.get("__name__", ""))).startswith(_OURS) and name != __name__
    ]
    return f"{type(error).__name__} in {', '.join(places)}"
