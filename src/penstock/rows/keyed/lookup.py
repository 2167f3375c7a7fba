"""Which rows of a file have a key that is touched.

Invariants:
- a key is found by its digest, or by its value where it is one column that would be hashed; of
  several columns digests are computed of rows only whose values are each in a touched key;
- the keys of a commit are sorted once, so that looking a small file through costs little, however
  many keys there are;
- the filter leaves no touched key out: it spares other rows the binary search, which would be four
  fifths of a look (docs/design/0256).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.keyed.digest import is_hashed, key_columns_of, key_digests, words_of

_Places = npt.NDArray[np.int64]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_FILTER_PER_KEY = 16
_FILTER_BITS_MAX = 24
"""A filter has a byte for each place; that of a million keys is of 16 MiB."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows whose key is touched: their places among those looked at, and which key each has."""

    rows: _Places
    keys: _Places


@dataclass(slots=True)
class KeyLookup:
    """Looks for the keys that a commit touches; `digests` has each of them once, and `keys` has
    their values, column by column.
    """

    digests: pa.Array
    keys: Sequence[pa.Array]
    _words: list[_Places] = field(init=False)
    _order: _Places = field(init=False)
    _shift: np.uint64 = field(init=False)
    _filter: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        words = words_of(self.digests)
        self._order = np.argsort(words[0])
        self._words = [each[self._order] for each in words]
        bits = min((len(self._order) * _FILTER_PER_KEY).bit_length(), _FILTER_BITS_MAX)
        self._shift = np.uint64(64 - max(bits, 1))
        self._filter = np.zeros(1 << max(bits, 1), np.bool_)
        self._filter[self._in_filter(words[0])] = True

    def in_rows(self, rows: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> Matches:
        """Find the rows that have a touched key; one with a null in its key has none.

        `types` are those of the touched keys, by their columns.
        """
        columns, whole = key_columns_of(rows, types)
        if is_hashed(self.digests) and [each.type for each in columns] == [self.keys[0].type]:
            return _found_by_value(columns[0], self.keys[0])
        if is_hashed(self.digests):
            whole &= self._may_be_keys(columns)
        places = np.flatnonzero(whole)
        if len(places) < len(whole):
            columns = [column.filter(pa.array(whole)) for column in columns]
        found, keys = self._found(key_digests(columns))
        return Matches(places[found], keys)

    def _may_be_keys(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Return which rows have in each column a value that a touched key has there."""
        may_be = np.ones(len(columns[0]), np.bool_)
        for column, key in zip(columns, self.keys, strict=True):
            if column.type == key.type:
                may_be &= pc.is_in(column, value_set=key).to_numpy(zero_copy_only=False)
        return may_be

    def _found(self, digests: pa.Array) -> tuple[_Places, _Places]:
        first = self._words[0]
        if not (first[1:] > first[:-1]).all():  # keys that are equal in their first half
            found = pc.index_in(digests, value_set=self.digests)
            rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
            return rows, found.drop_null().to_numpy().astype(np.int64)
        words = words_of(digests)
        near = np.flatnonzero(self._filter[self._in_filter(words[0])])
        words = [each[near] for each in words]
        at = np.searchsorted(first, words[0])
        is_key = at < len(first)
        at[~is_key] = 0
        if len(first):
            for own, others in zip(self._words, words, strict=True):
                is_key &= own[at] == others
        return near[is_key], self._order[at[is_key]]

    def _in_filter(self, words: _Places) -> npt.NDArray[np.uint64]:
        """Return the places of digests in the filter: the highest bits of a product."""
        return (words.view(np.uint64) * _SPREAD) >> self._shift


def _found_by_value(column: pa.Array, keys: pa.Array) -> Matches:
    found = pc.index_in(column, value_set=keys, skip_nulls=True)
    rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return Matches(rows, found.drop_null().to_numpy().astype(np.int64))
