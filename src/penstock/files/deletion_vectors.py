"""Positions of rows as the bytes of a deletion vector, and back: Delta and Iceberg have the same.

A vector is a RoaringBitmapArray, portable: a little-endian magic number and count of bitmaps, then,
for each 2^32 positions that have one, its number and a 32-bit bitmap in the portable format of
Roaring. In a file, its size is before it and its checksum behind it, both big-endian: its frame.

Invariants:
- positions are ascending, each once, on either side; equal positions have equal bytes;
- bytes that are no vector, or go on after it, are a ValueError: nothing is guessed.

Sources: Delta transaction log protocol, "Deletion Vector Format", "Deletion Vector File Storage
Format"; Apache Iceberg Puffin specification, "deletion-vector-v1"; Roaring format specification.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from pyroaring import BitMap

from penstock.files.positions import NONE, Positions

_MAGIC = 1681511377
_SIZE, _CHECKSUM = struct.Struct(">i"), struct.Struct(">I")
_HEADER = struct.Struct("<iq")
_KEY = struct.Struct("<I")
_BITS = 32
_LOW = (1 << _BITS) - 1
_KEYS_MAX = 1 << 31  # positions are signed numbers of 64 bits
_COOKIE_PLAIN, _COOKIE_WITH_RUNS = 12346, 12347
_WITH_OFFSETS_FROM = 4
_ARRAY_MAX = 4096
_BITSET_BYTES = 8192

FRAME_BYTES = _SIZE.size + _CHECKSUM.size
"""How many bytes more a vector takes in a file."""

FILE_BYTES_MAX = 64 << 20
"""A file takes no further vector when it is that large."""


def encoded(rows: Positions) -> bytes:
    """Write positions, in the smallest of Roaring's containers."""
    assert not rows.size or rows[0] >= 0, "positions are from 0"
    assert bool((np.diff(rows) > 0).all()), "positions are ascending, each once"
    keys, starts = np.unique(rows >> _BITS, return_index=True)
    parts = [_HEADER.pack(_MAGIC, len(keys))]
    for key, low in zip(keys.tolist(), np.split(rows & _LOW, starts[1:]), strict=False):
        bitmap = BitMap(array("I", low.astype(np.uint32).tobytes()))  # a tenth of numpy's time
        bitmap.run_optimize()
        parts += [_KEY.pack(key), bitmap.serialize()]
    return b"".join(parts)


def decoded(data: bytes) -> Positions:
    """Read positions. Raises ValueError for bytes that are not exactly one vector."""
    try:
        magic, count = _HEADER.unpack_from(data)
    except struct.error as error:
        raise ValueError("a deletion vector ends within its header") from error
    if magic != _MAGIC:
        raise ValueError(f"a deletion vector begins with {magic}, not with {_MAGIC}")
    found = list(_bitmaps(memoryview(data)[_HEADER.size :], count))
    keys = [key for key, _ in found]
    if keys != sorted(set(keys)) or (keys and keys[-1] >= _KEYS_MAX):
        raise ValueError("the bitmaps of a deletion vector are out of order")
    return np.concatenate([NONE, *(low + (key << _BITS) for key, low in found)])


def framed(data: bytes) -> bytes:
    """Return a vector as it lies in a file."""
    return _SIZE.pack(len(data)) + data + _CHECKSUM.pack(zlib.crc32(data))


def unframed(frame: bytes, file: str) -> bytes:
    """Return the vector of a frame. Raises ValueError that names the file it was read from."""
    data = frame[_SIZE.size : -_CHECKSUM.size]
    if len(frame) < FRAME_BYTES or _SIZE.unpack_from(frame) != (len(data),):
        raise ValueError(f"{file} has no deletion vector of {len(data)} bytes where it should")
    if _CHECKSUM.unpack_from(frame, len(frame) - _CHECKSUM.size) != (zlib.crc32(data),):
        raise ValueError(f"a deletion vector in {file} does not match its checksum")
    return data


def by_file(vectors: Sequence[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """Return which vectors, by any key of theirs, are written into one file."""
    groups: list[list[tuple[str, bytes]]] = []
    size = FILE_BYTES_MAX
    for each in vectors:
        if size >= FILE_BYTES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += len(each[1])
    return groups


def _bitmaps(data: memoryview, count: int) -> Iterator[tuple[int, Positions]]:
    at = 0
    for _ in range(count):
        if len(data) - at < _KEY.size:
            raise ValueError("a deletion vector ends before its last bitmap")
        (key,) = _KEY.unpack_from(data, at)
        at += _KEY.size
        size = _size_of(data[at:])
        bitmap = BitMap.deserialize(bytes(data[at : at + size]))
        at += size
        yield key, np.asarray(bitmap.to_array(), dtype=np.int64)
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow a deletion vector")


def _size_of(data: memoryview) -> int:
    """Return how many bytes the bitmap takes that data begins with: the library does not return it.

    Source: Roaring format specification, "Cookie header", "Descriptive header", "Offset header".
    """
    at: int
    try:
        (cookie,) = _KEY.unpack_from(data)
        with_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
        if with_runs:
            containers = (cookie >> 16) + 1
            flags = np.frombuffer(data, np.uint8, (containers + 7) // 8, 4)
            runs = np.unpackbits(flags, count=containers, bitorder="little").astype(bool)
            at = 4 + len(flags)
        elif cookie == _COOKIE_PLAIN:
            (containers,) = _KEY.unpack_from(data, 4)
            runs, at = np.zeros(min(containers, 1 << 16), bool), 8
        else:
            raise ValueError(f"a bitmap begins with {cookie}, which is no cookie of Roaring")
        described = np.frombuffer(data, "<u2", 2 * containers, at)
        at += 4 * containers
        if not with_runs or containers >= _WITH_OFFSETS_FROM:
            at += 4 * containers
        for cardinality, is_run in zip(described[1::2].tolist(), runs.tolist(), strict=True):
            if is_run:
                (number,) = struct.unpack_from("<H", data, at)
                at += 2 + 4 * number
            else:
                at += 2 * (cardinality + 1) if cardinality < _ARRAY_MAX else _BITSET_BYTES
    except struct.error as error:
        raise ValueError("a bitmap ends within its header") from error
    if at > len(data):
        raise ValueError("a bitmap ends within its containers")
    return at
