"""A sum over rows, by which it is seen that other files hold the same rows, in whatever order.

Theory of operation: each row has a hash of 64 bits over all its columns, and the sum of these is
the same for the same rows. A list is hashed by its elements and their places.

Invariants:
- equal values hash equal however they lie in memory, in batches of whatever size;
- what is summed up is scattered before: hashes of values that differ in few bits may differ by the
  same amount, and their sum is the same where two rows swap them, a sign for instance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.arrow_arrays import validity_of
from penstock.rows.keyed.hashes import WORD_BYTES, bytes_of, mixed, with_ends, words_by_end

Hashes = npt.NDArray[np.uint64]

_WORDS_MAX = 64
"""Longer texts, in words of eight bytes, are hashed one by one."""
_NULL = np.uint64(0xD1B54A32D192ED03)
_STRUCT = np.uint64(0x8CB92BA72F3D8DD7)
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_BITS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(slots=True)
class RowSum:
    """How many rows there were, and the sum of their hashes."""

    rows: int = 0
    hashes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows in."""
        self.rows += batch.num_rows
        total = row_hashes(batch).sum(dtype=np.uint64)
        self.hashes = (self.hashes + int(total)) & 0xFFFFFFFFFFFFFFFF


def row_hashes(batch: pa.RecordBatch) -> Hashes:
    """Return a hash of each row over all of its columns."""
    hashes = np.zeros(batch.num_rows, np.uint64)
    for column in batch.columns:
        hashes = _with(hashes, column)
    return _scattered(hashes)


def _scattered(hashes: Hashes) -> Hashes:
    """Let each bit depend on all others, one to one; as MurmurHash3 ends."""
    found = hashes ^ (hashes >> _SHIFT)
    for factor in _FACTORS:
        found *= factor
        found ^= found >> _SHIFT
    return found


def _with(hashes: Hashes, column: pa.Array) -> Hashes:
    """Mix a column in; a null is the same of whatever type."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _with(hashes, column.storage)
    if pa.types.is_dictionary(kind):
        return _with(hashes, column.dictionary_decode())
    if not len(column):
        return hashes
    if not column.null_count:
        return _with_values(hashes, column, np.ones(len(column), np.bool_))
    # Twice, since one word more would be the hash of the value with the same bits.
    of_nulls = mixed(mixed(hashes, _NULL), _NULL)
    valid = validity_of(column)
    if not valid.any():
        return of_nulls
    return np.where(valid, _with_values(hashes, column, valid), of_nulls)


def _with_values(hashes: Hashes, column: pa.Array, valid: npt.NDArray[np.bool_]) -> Hashes:
    """Mix values in; what is found where there is none means nothing."""
    kind = column.type
    if pa.types.is_struct(kind):
        hashes = mixed(hashes, _STRUCT)  # else one whose only member is null would be null
        for member in column.flatten():
            hashes = _with(hashes, member)
        return hashes
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return mixed(hashes, _of_lists(column, valid))
    if pa.types.is_boolean(kind):
        values = column.fill_null(False).to_numpy(zero_copy_only=False)
        return mixed(hashes, values.view(np.uint8).astype(np.uint64))
    if _is_text(kind):
        return _with_texts(hashes, column)
    return _with_numbers(hashes, column)


def _of_lists(column: pa.Array, valid: npt.NDArray[np.bool_]) -> Hashes:
    """Return the hash of each list: of its length, and of its elements with their places in it."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    starts, ends = offsets[:-1], np.where(valid, offsets[1:], offsets[:-1])
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    parts = (column.keys, column.items) if pa.types.is_map(column.type) else (column.values,)
    elements = np.zeros(last - first, np.uint64)
    for part in parts:
        elements = _with(elements, part.slice(first, last - first))
    place = np.arange(last - first) - np.repeat(starts - first, offsets[1:] - starts)
    elements = _scattered(mixed(elements, place.view(np.uint64)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(elements, dtype=np.uint64)])
    return mixed(sums[ends - first] - sums[starts - first], (ends - starts).view(np.uint64))


def _with_numbers(hashes: Hashes, column: pa.Array) -> Hashes:
    """Mix in values of a fixed width, by their bits."""
    bits = column.type.bit_width
    data = column.buffers()[1]
    if bits in _BITS:
        words = np.frombuffer(data, _BITS[bits])[column.offset :][: len(column)]
        return mixed(hashes, words.astype(np.uint64))
    each = bits // 64
    words = np.frombuffer(data, np.uint64)[column.offset * each :][: len(column) * each]
    for at in range(each):
        hashes = mixed(hashes, words[at::each])
    return hashes


def _with_texts(hashes: Hashes, column: pa.Array) -> Hashes:
    """Mix in lengths, and bytes in words of eight; the last word ends where its text does, and
    overlaps with the one before.
    """
    starts, ends, data = bytes_of(column)
    lengths, words = ends - starts, words_by_end(data)
    hashes = with_ends(hashes, lengths, words[ends])
    is_long = lengths > _WORDS_MAX * WORD_BYTES
    for at in np.flatnonzero(is_long):
        digest = hashlib.blake2b(
            data[starts[at] : ends[at]].tobytes(), digest_size=WORD_BYTES
        ).digest()
        hashes[at] = mixed(hashes[at : at + 1], np.frombuffer(digest, np.uint64))[0]
    rows = np.flatnonzero((lengths > WORD_BYTES) & ~is_long)
    before = ((lengths[rows] - 1) // WORD_BYTES).astype(np.uint8)  # words before the last
    # The longest first: those that have another word are a slice, and no choice.
    order = np.argsort(before, kind="stable")[::-1]
    rows = rows[order]
    found, here = hashes[rows], starts[rows]
    left = len(rows) - np.cumsum(np.bincount(before))
    for count in [len(rows), *left[1:-1]] if len(rows) else ():
        here = here[:count]
        here += WORD_BYTES
        found[:count] = mixed(found[:count], words[here])
    hashes[rows] = found
    return hashes


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return types.is_fixed_size_binary(kind) or any(test(kind) for test in tests)
