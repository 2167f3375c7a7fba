"""Where each row of a writer went: which of its files, and which row of it.

Theory of operation: rows are numbered as they come, in a last column. It goes with them through
partitions and buffers and is taken off before they are written; what is left of it is, for each
file, the numbers of its rows in their order there.

Invariants:
- the column has a name that none of the rows' columns has, and is never part of a file;
- each row that came has one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.ports.writers import Places

    Numbers = npt.NDArray[np.int64]


def numbered(rows: pa.RecordBatch, start: int) -> pa.RecordBatch:
    """Return rows with their numbers from `start` on as a last column."""
    name = max(rows.schema.names, key=len) + "#"
    numbers = np.arange(start, start + rows.num_rows, dtype=np.int64)
    return rows.append_column(pa.field(name, pa.int64()), pa.array(numbers))


def taken_off(pieces: Sequence[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], Numbers]:
    """Return numbered rows without their numbers, and these."""
    last = pieces[0].num_columns - 1
    numbers = np.concatenate([each.column(last).to_numpy() for each in pieces])
    return [each.remove_column(last) for each in pieces], numbers


def places_of(files: Sequence[Numbers]) -> Places:
    """Return the place of each row, by its number, from the numbers of the rows of each file."""
    count = sum(map(len, files))
    file, row = np.full(count, -1, np.int32), np.empty(count, np.int64)
    for ordinal, numbers in enumerate(files):
        file[numbers] = ordinal
        row[numbers] = np.arange(len(numbers))
    assert (file >= 0).all(), "each row that came is in one file"
    return file, row
