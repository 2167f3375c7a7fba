"""Splits rows by the values of columns to partition by.

Invariant: rows keep their order within a partition; rows of one partition are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def split_rows(
    rows: pa.RecordBatch, columns: Sequence[pa.DictionaryArray], values: Sequence[Sequence[Any]]
) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield each partition with its rows, ordered by the columns' codes.

    The columns are encoded with nulls; `values` holds the value of each of their codes.
    """
    index = np.zeros(rows.num_rows, dtype=np.int64)
    for each in columns:
        codes = each.indices.to_numpy(zero_copy_only=False)
        _, index = np.unique(index * (len(each.dictionary) + 1) + codes, return_inverse=True)
    order = np.argsort(index, kind="stable")
    stops = np.cumsum(np.bincount(index))
    if len(stops) > 1:
        rows = rows.take(pa.array(order))
    for start, stop in zip((0, *stops[:-1]), stops, strict=True):
        row = int(order[start])
        found = zip(columns, values, strict=True)
        key = tuple(known[each.indices[row].as_py()] for each, known in found)
        yield key, rows.slice(start, stop - start) if len(stops) > 1 else rows
