"""The hash of a key: 64 bits that are cheap to compute for whole columns, to look keys up by.

Invariants:
- equal keys have equal hashes, whatever batch or file they come from, widened columns as well;
- different keys may share one, so that a hash alone says that two keys differ, never that they are
  equal; of one column of at most 64 bits they are different;
- nothing keeps them: they may be others in another release, unlike digests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.keyed.digest import is_short, is_wide, longs, wide, words_of

Hashes = npt.NDArray[np.uint64]

TEXT_BYTES_MAX = 256
"""How many bytes count of a text, its last ones."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
WORD_BYTES = 8
"""How much of a text is hashed at a time."""


def key_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Return the hash of each row's key; its columns have no nulls."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        if is_short(column.type):
            hashes = mixed(hashes, longs(column).to_numpy().view(np.uint64))
        elif is_wide(column.type):
            for half in words_of(wide(column)):
                hashes = mixed(hashes, half.view(np.uint64))
        else:
            hashes = _mix_texts(hashes, column)
    return hashes


def mixed(hashes: Hashes, words: Hashes | np.uint64) -> Hashes:
    """Mix words in, one to one: the highest bits depend on all of a word's, as filters need, and
    the lowest on the highest, else words that come next would cancel them.
    """
    found = hashes ^ words
    found *= _SPREAD
    found ^= found >> _HALF
    return found


def _mix_texts(hashes: Hashes, column: pa.Array) -> Hashes:
    """Mix in the lengths of texts, or bytes, and the bytes in words of eight from the end on; the
    first word of a text begins where it does, and overlaps with the next.
    """
    starts, ends, data = bytes_of(column)
    lengths, words = ends - starts, words_by_end(data)
    hashes = with_ends(hashes, lengths, words[ends])
    rows, at = np.flatnonzero(lengths > WORD_BYTES), WORD_BYTES
    while len(rows) and at < TEXT_BYTES_MAX:
        here = words[np.maximum(ends[rows] - at, starts[rows] + WORD_BYTES)]
        hashes[rows] = mixed(hashes[rows], here)
        at += WORD_BYTES
        rows = rows[lengths[rows] > at]
    return hashes


def words_by_end(data: npt.NDArray[np.uint8]) -> Hashes:
    """Return the words of eight bytes of some bytes, by where they end; zeros are before them."""
    padded = np.concatenate([np.zeros(WORD_BYTES, np.uint8), data])
    return np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))


def with_ends(hashes: Hashes, lengths: npt.NDArray[np.int64], last: Hashes) -> Hashes:
    """Mix in the lengths of texts and their last words, which change: of shorter ones all bytes."""
    short = np.flatnonzero(lengths < WORD_BYTES)
    last[short] = (last[short] >> ((7 - lengths[short]) * 8).astype(np.uint64)) >> np.uint64(8)
    return mixed(mixed(hashes, lengths.view(np.uint64)), last)


def bytes_of(
    column: pa.Array,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where values begin and end, and all their bytes."""
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.int64 if is_large else np.int32
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        none = np.zeros(len(column), np.int64)
        return none, none, np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, kind)[column.offset :][: len(column) + 1].astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    bounds -= first
    return bounds[:-1], bounds[1:], np.frombuffer(data, np.uint8)[first:last]
