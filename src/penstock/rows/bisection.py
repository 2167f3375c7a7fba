"""What is unexpected: an error that is none of ours, raised by a fault of ours or of a library.

What is made of a batch of records is made again of its halves where that happens, down to the
records that raise by themselves: one such record takes nothing from the others (docs/design/0223).

Invariants:
- records are laid no blame for what the machine rejects: memory, disk, network;
- whether a record raises does not depend on the records beside it. Where all do, a pipeline's
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
"""What clients of catalogs and storages may raise: their errors derive from any. It is raised again
as one of ours; where an act may fail without harm, as housekeeping, it is as if no answer came."""
_OURS = "penstock."


@dataclass(slots=True)
class BisectResult(Generic[T]):
    """What was made of a batch in parts, in order, and by position what single records raise."""

    parts: list[T] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)


def bisect_on_error(batch: pa.RecordBatch, make: Callable[[pa.RecordBatch], T]) -> BisectResult[T]:
    """Make something of a batch: in one part, or of those records that raise nothing unforeseen.

    Raises what is foreseen of what `make` raises, and what it raises for no record at all.
    """
    made = BisectResult[T]()
    _make(batch, 0, make, made)
    return made


def _make(
    batch: pa.RecordBatch, start: int, make: Callable[[pa.RecordBatch], T], made: BisectResult[T]
) -> None:
    try:
        made.parts.append(make(batch))
    except MemoryError:
        raise
    except UNEXPECTED_ERRORS as error:
        if not len(batch):
            raise
        if len(batch) == 1:
            made.errors[start] = describe(error)
            return
    else:
        return
    middle = len(batch) // 2
    _make(batch.slice(0, middle), start, make, made)
    _make(batch.slice(middle), start + middle, make, made)


def describe(error: Exception) -> str:
    """Name an error and the lines of ours that it passed: all that a report needs, and no value."""
    places = [
        f"{name.removeprefix(_OURS)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (name := str(frame.f_globals.get("__name__", ""))).startswith(_OURS) and name != __name__
    ]
    return f"{type(error).__name__} in {', '.join(places)}"
