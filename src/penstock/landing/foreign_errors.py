"""Unexpected errors while one table was served: errors of that table, never of the run.

A bug in Penstock or a library, in converting a table's records (P486) or in an operation on the
table itself (P487), would happen again at each restart. So it parks its table, alone, and says what
could not be done, and which records it met (docs/design/0233).

Invariants:
- what the machine refuses (memory, disk, network) is raised as before, as is what a crash point
  raises;
- the message names the error and the lines of Penstock that it passed, no word of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.crash_points import InjectedError
from penstock.core.errors import BugError, PenstockError
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.rows import bisection

FILES_FAILED = "P486"
RANGES_NAMED_MAX = 5

OPEN, CREATE, COMMIT = "it cannot be opened", "it cannot be created", "nothing can be committed"
CONVERT = "its records cannot be sorted or converted"
SURVEY = "its records cannot be surveyed for columns"
WRITE = "its files cannot be written"


@contextmanager
def converting(table: str, failing: str, where: str = "") -> Iterator[None]:
    """Raise BugError (P486) for unexpected errors; `failing` says what cannot be done then, and
    `where` names the records that it met.
    """
    try:
        yield
    except MemoryError:
        raise
    except bisection.UNEXPECTED_ERRORS as error:
        met = f"; it met {where}" if where else ""
        raise BugError(
            f"{table}: {failing}, by an unexpected error: {bisection.describe(error)}{met}",
            code=FILES_FAILED,
            hint="please report it; nothing of the epoch landed in it, the other tables continue",
        ) from error


@contextmanager
def acting_on_table(table: str, failing: str) -> Iterator[None]:
    """Raise BugError (P487) for any foreign error in an operation on a table itself;
    `failing` says what cannot be done then.
    """
    try:
        yield
    except (PenstockError, MemoryError, OSError, InjectedError):
        raise
    except bisection.FOREIGN as error:
        raise BugError(
            f"{table}: {failing}, by an unexpected error: {bisection.describe(error)}",
            code="P487",
            hint="please report it; what is prepared stays prepared, the other tables continue",
        ) from error


def range_text(at: TopicPartition, offsets: npt.NDArray[np.int64]) -> str:
    """Name the stretch from the first of some offsets to the last."""
    first, last = int(offsets[0]), int(offsets[-1])
    return f"{at} offset {first}" if first == last else f"{at} offsets {first} to {last}"


def ranges_text(ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    """Name the stretches that a file was made of: the first few, and how many more there are."""
    named = [f"{at}{covered}" for at, covered in islice(ranges.items(), RANGES_NAMED_MAX)]
    more = len(ranges) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def failing_rows(
    rows: pa.RecordBatch, attempt: Callable[[pa.RecordBatch], None]
) -> tuple[int, int]:
    """Find the first and the last of the fewest rows in sequence for which an attempt still raises.

    Halves are tried: where one row raises by itself, it is found.
    """
    first, count = 0, len(rows)
    while count > 1:
        middle = count // 2
        for start, length in ((first, middle), (first + middle, count - middle)):
            try:
                attempt(rows.slice(start, length))
            except MemoryError:
                raise
            except bisection.UNEXPECTED_ERRORS:
                first, count = start, length
                break
        else:
            break
    return first, first + count - 1
