"""Sequences: values of columns by which changes of a key compare, whatever the order they come in.

Invariants:
- sequences compare column by column, the first one first; null is before every value;
- equal sequences have equal numbers, so that the order of the log decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import mask_of

Numbers = npt.NDArray[np.int64]
_BEFORE_ALL = np.iinfo(np.int64).min


def sequence_numbers(columns: Sequence[pa.Array]) -> Numbers:
    """Return numbers that compare as the sequences of rows do; there is at least one column."""
    first, *others = columns
    found = _numbers(first)
    for column in others:
        found, own = _dense(found), _dense(_numbers(column))
        found = found * (len(own) + 1) + own
    return found


def numbers_of_both(
    first: Sequence[pa.Array], second: Sequence[pa.Array]
) -> tuple[Numbers, Numbers]:
    """Return numbers by which rows of two tables compare.

    The columns of the first get the types of the second, which may have been widened since.
    """
    pairs = zip(first, second, strict=True)
    both = sequence_numbers([pa.concat_arrays([a.cast(b.type), b]) for a, b in pairs])
    size = len(first[0])
    return both[:size], both[size:]


def _numbers(column: pa.Array) -> Numbers:
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        plain = column.view(pa.int32() if column.type.bit_width <= 32 else pa.int64())  # noqa: PLR2004
        found: Numbers = plain.cast(pa.int64()).fill_null(_BEFORE_ALL).to_numpy()
        return found
    ranks: Numbers = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    ranks[mask_of(column.is_null())] = _BEFORE_ALL
    return ranks


def _dense(numbers: Numbers) -> Numbers:
    """Return the place of each number among the distinct ones."""
    _, places = np.unique(numbers, return_inverse=True)
    return places.astype(np.int64)
