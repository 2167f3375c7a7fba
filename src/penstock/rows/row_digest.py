"""A digest of rows, by which it is seen that other files hold the same rows in the same order.

Theory of operation: the buffers of each column go through hashes of 128 bits of their own: values
without gaps, the lengths of texts and lists, and the places of nulls. Where all columns have the
same values in the same order, all rows are the same. It takes a tenth of what hashing each row does
(`row_hashes.py`), which needs no order.

Invariant: equal rows in the same order have one digest however they lie in memory, in batches of
whatever size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mmh3
import numpy as np
import pyarrow as pa

from penstock.rows.arrow_arrays import validity_of
from penstock.rows.keyed.hashes import bytes_of


class _Stream(NamedTuple):
    """What is hashed by itself: a part of the values at a place below a column."""

    place: tuple[int, ...]
    part: str


@dataclass(slots=True, eq=False)
class RowDigest:
    """How many rows there were, and the hashes of their columns."""

    rows: int = 0
    _hashes: dict[_Stream, Any] = field(default_factory=lambda: defaultdict(mmh3.mmh3_x64_128))
    _seen: Counter[tuple[int, ...]] = field(default_factory=Counter)

    @property
    def digests(self) -> Mapping[_Stream, bytes]:
        """Return the hash of each part of each column that had any."""
        return {stream: each.digest() for stream, each in self._hashes.items()}

    def agrees(self, other: RowDigest) -> bool:
        """Return whether another had the same rows in the same order, of columns of one type."""
        return self.rows == other.rows and self.digests == other.digests

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        self.rows += batch.num_rows
        for number, column in enumerate(batch.columns):
            self._take((number,), column)

    def _take(self, place: tuple[int, ...], column: pa.Array) -> None:
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType):
            return self._take(place, column.storage)
        if pa.types.is_dictionary(kind):
            return self._take(place, column.dictionary_decode())
        if column.null_count:
            self._hash(place, "nulls", np.flatnonzero(~validity_of(column)) + self._seen[place])
        self._seen[place] += len(column)
        if column.null_count < len(column):
            self._take_values(place, column.drop_null() if column.null_count else column)
        return None

    def _take_values(self, place: tuple[int, ...], values: pa.Array) -> None:
        """Take values of which none is null; there is at least one."""
        kind = values.type
        if pa.types.is_struct(kind):
            for number, member in enumerate(values.flatten()):
                self._take((*place, number), member)
        elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
            offsets = values.offsets.to_numpy()
            self._hash(place, "lengths", np.diff(offsets))
            first, last = int(offsets[0]), int(offsets[-1])
            parts = (values.keys, values.items) if pa.types.is_map(kind) else (values.values,)
            for number, part in enumerate(parts):
                self._take((*place, number), part.slice(first, last - first))
        elif pa.types.is_boolean(kind):
            self._hash(place, "values", values.to_numpy(zero_copy_only=False))
        elif _has_lengths(kind):
            starts, ends, data = bytes_of(values)
            self._hash(place, "lengths", ends - starts)
            self._hash(place, "values", data)
        else:
            width = kind.bit_width // 8
            data = np.frombuffer(values.buffers()[1], np.uint8)
            self._hash(place, "values", data[values.offset * width :][: len(values) * width])

    def _hash(self, place: tuple[int, ...], part: str, data: np.ndarray[Any, Any]) -> None:
        if len(data):
            self._hashes[_Stream(place, part)].update(data.data.cast("B"))


def _has_lengths(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)
