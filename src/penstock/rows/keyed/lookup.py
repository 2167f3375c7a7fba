"""Which rows of a file have a key that is touched.

Theory of operation: most rows have none. A filter of the touched keys' hashes leaves few others, by
the key's columns alone; of those that pass it, the hash is searched for, and then the key's values
are compared (docs/design/0268).

Invariants:
- the filter leaves no touched key out;
- a row has a touched key only if it is equal in each column, whatever hashes say; where two touched
  keys share a hash, rows are found by their digests;
- the keys of a commit are sorted once, so that looking a small file through costs little, however
  many keys there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import mask_of
from penstock.rows.keyed.digest import is_short, key_columns_of, key_digests
from penstock.rows.keyed.hashes import Hashes, key_hashes

_Places = npt.NDArray[np.int64]

_FILTER_PER_KEY = 16
_FILTER_BITS_MAX = 24
"""A filter has a byte for each place; those of a million keys are of 16 MiB each."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows whose key is touched: their places among those looked at, and which key each has."""

    rows: _Places
    keys: _Places


@dataclass(slots=True)
class KeyLookup:
    """Looks for the keys that a commit touches: `keys` has a value for each, column by column, and
    each key once.
    """

    keys: Sequence[pa.Array]
    _hashes: Hashes = field(init=False)
    _order: _Places = field(init=False)
    _filters: _Filters = field(init=False)
    _digests: pa.Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        hashes = key_hashes(self.keys)
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]
        if not (self._hashes[1:] > self._hashes[:-1]).all():
            self._digests = key_digests(self.keys)
        self._filters = _Filters(hashes)

    def may_be_in(self, rows: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> _Places:
        """Return the places of all rows that have a touched key, and of a few others."""
        places, _, _ = self._near(rows, types)
        return places

    def in_rows(self, rows: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> Matches:
        """Find the rows that have a touched key; one with a null in its key has none.

        `types` are those of the touched keys, by their columns.
        """
        places, hashes, columns = self._near(rows, types)
        columns = [column.take(pa.array(places)) for column in columns]
        if self._digests is not None:
            found = pc.index_in(key_digests(columns), value_set=self._digests)
            hits = np.flatnonzero(mask_of(found.is_valid()))
            return Matches(places[hits], found.drop_null().to_numpy().astype(np.int64))
        at = np.searchsorted(self._hashes, hashes)
        hits = np.flatnonzero(self._hashes.take(at, mode="clip") == hashes) if len(at) else at
        keys = self._order[at[hits]]
        same = self._are_equal([column.take(pa.array(hits)) for column in columns], keys)
        return Matches(places[hits[same]], keys[same])

    def _near(
        self, rows: pa.RecordBatch, types: Mapping[str, pa.DataType]
    ) -> tuple[_Places, Hashes, list[pa.Array]]:
        """Return places and hashes of rows that pass the filter, and the key columns of all."""
        columns, whole = key_columns_of(rows, types)
        known = None if whole.all() else np.flatnonzero(whole)
        if known is not None:
            hashes = key_hashes([column.filter(pa.array(whole)) for column in columns])
        else:
            hashes = key_hashes(columns)
        near = self._filters.passed_by(hashes)
        return near if known is None else known[near], hashes[near], columns

    def _are_equal(self, columns: Sequence[pa.Array], keys: _Places) -> npt.NDArray[np.bool_]:
        """Compare the keys of rows with touched keys, one by one."""
        same = np.ones(len(keys), np.bool_)
        if len(columns) == 1 and is_short(columns[0].type):
            return same
        for column, values in zip(columns, self.keys, strict=True):
            same &= mask_of(pc.equal(column, values.take(pa.array(keys))))
        return same


class _Filters:
    """Two filters of hashes, by their highest bits and by their lowest: nearly all that passes both
    is there.
    """

    def __init__(self, hashes: Hashes) -> None:
        bits = max(min((len(hashes) * _FILTER_PER_KEY).bit_length(), _FILTER_BITS_MAX), 1)
        self._shift = np.uint64(64 - bits)
        self._lowest = np.uint64((1 << bits) - 1)
        self._high, self._low = np.zeros((2, 1 << bits), np.bool_)
        self._high[hashes >> self._shift] = True
        self._low[hashes & self._lowest] = True

    def passed_by(self, hashes: Hashes) -> _Places:
        """Return the places of the hashes that pass."""
        high = (hashes >> self._shift).view(np.int64)
        near = np.flatnonzero(self._high.take(high, mode="clip"))  # else it checks each
        low = (hashes[near] & self._lowest).view(np.int64)
        return near[self._low.take(low, mode="clip")]
