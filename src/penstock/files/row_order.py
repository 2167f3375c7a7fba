"""In which order rows are written to a file, and where its row groups are cut.

Theory of operation: values are ranked column by column, and rows sorted by their ranks, those of
the first column before those of the others. Ranks know neither types nor nulls any more, so one
sort serves all columns.

Invariants:
- rows of equal ranks stay in the order in which they came;
- floats are in the total order of IEEE 754: -NaN, -inf, …, -0.0, 0.0, …, inf, NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Places = npt.NDArray[np.int64]

_NEAR = 0.5
"""How far a cut may move to a border, in row groups."""


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """`rows` are places of rows, in the order in which these are written; `borders` are the places
    in that order, ascending, at which rows of another group begin; 0 is not among them.
    """

    rows: Places
    borders: Places


OrderOf: TypeAlias = Callable[[pa.RecordBatch], RowOrder]
"""Finds the order of some rows."""


def ranks_of(
    values: pa.Array | pa.ChunkedArray, *, falls: bool = False, nulls_last: bool = False
) -> Places:
    """Return numbers that are ordered as values are to be: equal ones for equal values."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(flat, pa.ExtensionArray):
        flat = flat.storage
    if pa.types.is_floating(flat.type):
        flat = _in_total_order(flat)
    direction = "descending" if falls else "ascending"
    ranks: Places = pc.rank(flat, sort_keys=direction, tiebreaker="dense").to_numpy()
    ranks = ranks.astype(np.int64)
    if flat.null_count and not nulls_last:  # ranks are from 1, and those of nulls the last
        ranks[flat.is_null().to_numpy(zero_copy_only=False)] = 0
    return ranks


def order_by(count: int, groups: Sequence[Places], within: Sequence[Places] = ()) -> RowOrder:
    """Return the order of `count` rows by the ranks of their groups, then by those `within`."""
    ranks = [*groups, *within]
    rows = np.lexsort(ranks[::-1]) if ranks else np.arange(count)
    differs = np.zeros(max(count - 1, 0), dtype=bool)
    for each in groups:
        sorted_ranks = each[rows]
        differs |= sorted_ranks[1:] != sorted_ranks[:-1]
    return RowOrder(rows, np.flatnonzero(differs) + 1)


def cuts(count: int, groups: int, borders: Places) -> list[int]:
    """Return where so many row groups of `count` rows begin, and where the last one ends.

    A cut is at the nearest border, where one is less than half a row group away.
    """
    step = count / groups
    found = {0, count}
    for number in range(1, groups):
        even = round(number * step)
        nearest = _nearest(borders, even)
        found.add(nearest if abs(nearest - even) < _NEAR * step else even)
    return sorted(found)


def _nearest(borders: Places, place: int) -> int:
    """Return the border next to a place; 0 where there is none, which is none of a row group."""
    at = int(np.searchsorted(borders, place))
    return min(
        (int(each) for each in borders[max(at - 1, 0) : at + 1]),
        key=lambda border: abs(border - place),
        default=0,
    )


def _in_total_order(values: pa.Array) -> pa.Array:
    """Return integers that are ordered as IEEE 754 orders floats."""
    bits = np.dtype(f"i{values.type.bit_width // 8}")
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    numbers = np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).astype(
        values.type.to_pandas_dtype()
    )
    signed = numbers.view(bits)
    return pa.array(np.where(signed < 0, signed ^ np.iinfo(bits).max, signed), mask=nulls)
