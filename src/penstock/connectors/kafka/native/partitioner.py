"""The partition of each key, as Java's default partitioner computes it: murmur2, in columns.

Invariants:
- the same key goes to the same partition as from kafka-clients, and from librdkafka's
  `murmur2_random`; an empty key is a key;
- a record without a key has no partition here;
- keys longer than `COLUMN_KEY_BYTES_MAX` are hashed one by one, so that few of them cost no
  column operation for each of their words.

Source: `org.apache.kafka.common.utils.Utils.murmur2`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from kafka.partitioner.default import murmur2
from numpy.typing import NDArray

COLUMN_KEY_BYTES_MAX = 256
SEED = 0x9747B28C
FACTOR = np.uint32(0x5BD1E995)
POSITIVE = np.uint32(0x7FFFFFFF)
TAILS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
"""By the number of bytes behind a key's last whole word, which bits of the next word are theirs."""
WORD_BYTES = 4


def partitions_of(keys: pa.BinaryArray, count: int) -> pa.Int32Array:
    """Return the partition of each key among `count` of them; null where the key is null."""
    assert count > 0
    places = (_murmur2(keys) & POSITIVE) % np.uint32(count)
    return pa.array(places.astype(np.int32), mask=keys.is_null().to_numpy(zero_copy_only=False))


def _murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return the hash of each key; that of a null key means nothing."""
    _, ends, data = keys.buffers()
    if not len(keys):
        return np.empty(0, np.uint32)
    bounds = np.frombuffer(ends, np.int32, len(keys) + 1, keys.offset * WORD_BYTES).astype(np.int64)
    begins, sizes = bounds[:-1] - bounds[0], np.diff(bounds)
    held = memoryview(data)[bounds[0] : bounds[-1]] if data is not None else b""
    padded = bytes(held) + bytes(WORD_BYTES)
    words = np.ndarray((len(padded) - WORD_BYTES + 1,), "<u4", padded, strides=(1,))

    order = np.argsort(sizes, kind="stable")[::-1]  # whoever has a next word stands in front
    begins, sizes = begins[order], sizes[order]
    hashes = np.uint32(SEED) ^ sizes.astype(np.uint32)
    long = int(np.count_nonzero(sizes > COLUMN_KEY_BYTES_MAX))
    whole = sizes // WORD_BYTES
    for number in range(int(whole[long]) if long < len(sizes) else 0):
        last = int(np.searchsorted(-whole, -number))
        hashes[long:last] *= FACTOR
        hashes[long:last] ^= _mixed(words[begins[long:last] + number * WORD_BYTES])
    rest = sizes % WORD_BYTES
    tailed = np.flatnonzero(rest)
    ends_of_words = begins[tailed] + whole[tailed] * WORD_BYTES
    hashes[tailed] = (hashes[tailed] ^ (words[ends_of_words] & TAILS[rest[tailed]])) * FACTOR
    hashes ^= hashes >> np.uint32(13)
    hashes *= FACTOR
    hashes ^= hashes >> np.uint32(15)
    for row in range(long):
        begin = int(begins[row])
        hashes[row] = murmur2(padded[begin : begin + int(sizes[row])]) & 0xFFFFFFFF
    given = np.empty_like(hashes)
    given[order] = hashes
    return given


def _mixed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed = words * FACTOR
    return (mixed ^ mixed >> np.uint32(24)) * FACTOR
