"""What nested columns are made of: the items of lists and maps, and the rows that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.reject_codes import RejectCode

Mask = npt.NDArray[np.bool_]


class Cause(NamedTuple):
    """Why something has no form: in words, and by landing's code for the same."""

    reason: str
    code: RejectCode


IS_NULL = Cause("it is null, and the schema requires a value", RejectCode.MISSING)
NOT_UTF8 = Cause("it is not UTF-8", RejectCode.NOT_UTF8)
UNKNOWN_SYMBOL = Cause("it is none of the schema's symbols", RejectCode.UNREADABLE)


def out_of_range(reason: str) -> Cause:
    """Return the cause of a value for which a format has no room."""
    return Cause(reason, RejectCode.OUT_OF_RANGE)


class Misfits(NamedTuple):
    """The values of a column that a format cannot hold: a mask over the rows, and why."""

    path: str
    rows: Mask
    cause: Cause


def misfits_by_cause(path: str, causes: Mapping[int, Cause], count: int) -> list[Misfits]:
    """Return the misfits of `count` rows, of which some have a cause."""
    found: dict[Cause, Misfits] = {}
    for row, why in causes.items():
        found.setdefault(why, Misfits(path, np.zeros(count, np.bool_), why)).rows[row] = True
    return [*found.values()]


def as_lists(values: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of keys and items."""
    entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "item"])
    begins = pa.array(values.offsets.to_numpy())  # a copy: with a mask they may be no slice
    return pa.ListArray.from_arrays(begins, entries, mask=values.is_null())


def lengths_of_lists(lists: pa.Array) -> npt.NDArray[np.int64]:
    """Return how many items each list has, 0 of a null."""
    lengths: npt.NDArray[np.int64] = pc.list_value_length(lists).fill_null(0).to_numpy()
    return lengths.astype(np.int64)


def of_lists(misfits: list[Misfits], lengths: npt.NDArray[np.int64]) -> list[Misfits]:
    """Return the misfits of items as those of the lists that hold them."""
    owners, found = np.repeat(np.arange(len(lengths)), lengths), []
    for each in misfits:
        rows = np.zeros(len(lengths), np.bool_)
        rows[owners[each.rows]] = True
        found.append(each._replace(rows=rows))
    return found
