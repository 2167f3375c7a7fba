"""Messages in columns become record batches: packed first, given to a producer later.

Invariants:
- a packed batch holds all bytes but those of a producer: who sends it again under another term
  packs nothing again;
- no loop goes over records: varints are computed in columns, and bytes are joined in one call;
- messages keep their order, and a batch is above its limit only where one message is.

Source: Kafka documentation, "Record Batch"; the LZ4 frame format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from penstock.connectors.kafka.native.record_batches import CODECS, HEADER, MAGIC, TRANSACTIONAL

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
BATCH_BYTES_MAX = 900_000
"""Below the `max.message.bytes` that brokers have by default."""
OVERHEAD_BYTES = 32
"""More than the varints of a record take, but for its headers'."""
NO_TIMESTAMP = -1
LZ4_FRAME = b"\x04\x22\x4d\x18\x60\x70\x73"
"""The head of a frame: version 1, independent blocks of at most 4 MiB, no checksums.

Arrow's own frames link their blocks, which Kafka's Java does not read.
"""
LZ4_BLOCK_BYTES = 4 << 20
LZ4_STORED = 0x80000000

_CODES = {name: code for code, name in CODECS.items()}
_ATTRIBUTES_AT = 21
_NOTHING = pa.scalar(b"", pa.binary())
_ZERO = pa.scalar(b"\x00", pa.binary())

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Records of one batch, compressed by `codec`, and what its head says of them."""

    records: bytes
    count: int
    first_ms: int
    last_ms: int
    codec: int

    def headed(self, producer_id: int, epoch: int, sequence: int) -> tuple[bytes, int]:
        """Return the batch of a transaction of a producer, and its checksum."""
        head = bytearray(HEADER.size)
        length = HEADER.size - 12 + len(self.records)
        attributes = self.codec | TRANSACTIONAL
        producer = (producer_id, epoch, sequence, self.count)
        times = (self.count - 1, self.first_ms, self.last_ms)
        HEADER.pack_into(head, 0, 0, length, -1, MAGIC, 0, attributes, *times, *producer)
        checksum = crc32c(self.records, crc32c(bytes(head[_ATTRIBUTES_AT:])))
        struct.pack_into(">I", head, _ATTRIBUTES_AT - 4, checksum)
        return bytes(head) + self.records, checksum


def pack(
    messages: pa.RecordBatch, *, codec: Codec = "none", bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[PackedBatch]:
    """Yield the batches of messages, with at most so many bytes of records before compression.

    `messages` has the columns of `ports.sources.MESSAGES`.
    """
    if not messages.num_rows:
        return
    headers = _headers(messages.column("headers"))
    sizes = OVERHEAD_BYTES + headers.sizes
    for name in ("key", "value"):
        sizes = sizes + _lengths(messages.column(name)).clip(0)
    starts = _starts(sizes, bytes_max)
    times = _times(messages.column("timestamp"))
    records, stops = _records(messages, headers, times, starts)
    edges = [*starts.tolist(), messages.num_rows]
    for begin, end in pairwise(edges):
        plain = records[stops[begin] : stops[end]]
        packed = _compressed(plain, codec)
        kept = bytes(plain) if packed is None else packed
        code = 0 if packed is None else _CODES[codec]
        first, last = int(times[begin]), int(times[begin:end].max())
        yield PackedBatch(kept, end - begin, first, last, code)


def _starts(sizes: Longs, bytes_max: int) -> Longs:
    """Return the rows that batches begin with."""
    ends = np.cumsum(sizes)
    starts, begun = [0], 0
    while True:
        before = int(ends[begun - 1]) if begun else 0
        begun = max(int(np.searchsorted(ends, before + bytes_max, "right")), begun + 1)
        if begun >= len(sizes):
            return np.array(starts, np.int64)
        starts.append(begun)


def _records(
    messages: pa.RecordBatch, headers: _Headers, times: Longs, starts: Longs
) -> tuple[memoryview, Longs]:
    """Return all records, one after the other, and where each begins; and the end."""
    first = np.repeat(starts, np.diff([*starts, messages.num_rows]))
    rows = np.arange(messages.num_rows, dtype=np.int64)
    keys, values = messages.column("key"), messages.column("value")
    places = [_varint(times - times[first]), _varint(rows - first)]
    key_sizes, value_sizes = _lengths(keys), _lengths(values)
    prefixes = [_varint(key_sizes), _varint(value_sizes), _varint(headers.counts)]
    varints = sum(_lengths(each) for each in [*places, *prefixes])
    body = 1 + varints + key_sizes.clip(0) + value_sizes.clip(0) + headers.sizes
    joined = pc.binary_join_element_wise(
        _varint(body),
        _ZERO,
        *places,
        prefixes[0],
        pc.fill_null(keys, b""),
        prefixes[1],
        pc.fill_null(values, b""),
        prefixes[2],
        headers.bytes,
        _NOTHING,
    )
    stops = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1].astype(np.int64)
    return memoryview(joined.buffers()[2]), stops


@dataclass(frozen=True, slots=True)
class _Headers:
    """The headers of each record as they are on the wire, without their count."""

    counts: Longs
    sizes: Longs
    bytes: pa.Array


def _headers(column: pa.ListArray) -> _Headers:
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    counts = counts.astype(np.int64)
    flat = column.flatten()
    if not len(flat):
        sizes = np.zeros(len(column), np.int64)
        return _Headers(counts, sizes, pa.array([b""] * len(column), pa.binary()))
    names, values = flat.field("key").cast(pa.binary()), flat.field("value").cast(pa.binary())
    joined = pc.binary_join_element_wise(
        _varint(_lengths(names)),
        names,
        _varint(_lengths(values)),
        pc.fill_null(values, b""),
        _NOTHING,
    )
    stops = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1]
    offsets = stops[np.concatenate([[0], np.cumsum(counts)])]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), joined.buffers()[2]]
    own = pa.Array.from_buffers(pa.binary(), len(column), buffers)
    return _Headers(counts, np.diff(offsets).astype(np.int64), own)


def _times(column: pa.Array) -> Longs:
    whole = pc.fill_null(column.cast(pa.int64()), NO_TIMESTAMP)
    times: Longs = whole.to_numpy(zero_copy_only=False).astype(np.int64)
    return times


def _lengths(column: pa.Array) -> Longs:
    """Return the sizes of binary values; -1 for null, as Kafka writes it."""
    sizes = pc.fill_null(pc.binary_length(column), -1)
    lengths: Longs = sizes.to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _varint(numbers: Longs) -> pa.Array:
    """Return numbers as zigzag varints."""
    left = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    columns, more = [], np.ones(len(left), bool)
    kept = []
    while more.any():
        kept.append(more)
        low, left = (left & 0x7F).astype(np.uint8), left >> np.uint64(7)
        more = left > 0
        columns.append(low | np.where(more, 0x80, 0).astype(np.uint8))
        more = more & kept[-1]
    mask = np.stack(kept, axis=1)
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    flat = np.stack(columns, axis=1)[mask]
    return pa.Array.from_buffers(
        pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(flat)]
    )


def _compressed(plain: memoryview, codec: Codec) -> bytes | None:
    """Return compressed records; None where that makes them no smaller."""
    if codec == "none":
        return None
    own = codec == "lz4"
    packed = _lz4_frame(plain) if own else pa.Codec(codec).compress(plain, asbytes=True)
    return packed if len(packed) < len(plain) else None


def _lz4_frame(plain: memoryview) -> bytes:
    raw, parts = pa.Codec("lz4_raw"), [LZ4_FRAME]
    for at in range(0, len(plain), LZ4_BLOCK_BYTES):
        block = plain[at : at + LZ4_BLOCK_BYTES]
        packed = raw.compress(block, asbytes=True)
        if len(packed) < len(block):
            parts += [struct.pack("<I", len(packed)), packed]
        else:
            parts += [struct.pack("<I", len(block) | LZ4_STORED), bytes(block)]
    return b"".join([*parts, struct.pack("<I", 0)])
