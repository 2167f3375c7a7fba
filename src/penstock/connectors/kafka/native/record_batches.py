"""The record batches of a fetch: found by their headers, sorted by transactions, unpacked.

Invariants:
- what is given is committed, decided upon, and complete: a batch with a format older than v2 or an
  unknown codec is a FallbackError, never a guess;
- nothing of a batch is trusted, nor is it passed, before its checksum was found right;
- the position moves after every batch that was passed: control batches, aborted records and
  compacted offsets hold no record and move it;
- a transaction is aborted by the broker's own list, up to its marker.

Source: Kafka documentation, "Record Batch"; KIP-98 (aborted transactions of a fetch);
`org.apache.kafka.clients.consumer.internals.CompletedFetch`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_columns import varint, whole_records

HEADER = struct.Struct(">qiibIhiqqqhii")
PREFIX_BYTES = 12
"""Base offset and length: they are not counted by the length."""
CHECKED_FROM = 21
"""The checksum covers all that follows it."""
MAGIC = 2
CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SNAPPY, PLAIN = 2, 0
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16
RECORDS_MAX = 5_000_000
UNPACKED_BYTES_MAX = 1 << 30
"""The limit for unpacking what cannot be cut: a record, a batch of snappy, a marker."""
ABORT = 0
ROOM_BYTES = 256 << 10
ROOM_BYTES_KEPT_MAX = 64 << 20


class Room:
    """Unpacked bytes of batches, one after the other, in a buffer that grows and is used again.

    So they are unpacked where they are read, without a copy, and without new memory for each batch.
    What `whole` returns is valid until the next bytes are put in.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._buffer: npt.NDArray[np.uint8] = np.empty(ROOM_BYTES, np.uint8)

    def clear(self) -> None:
        """Let go of the bytes; of the memory only when it is unusually much."""
        self.size_bytes = 0
        if len(self._buffer) > ROOM_BYTES_KEPT_MAX:
            self._buffer = np.empty(ROOM_BYTES, np.uint8)

    def whole(self, spare: int = 0) -> npt.NDArray[np.uint8]:
        """Return all bytes, and so many zeros after them."""
        self._grow(spare)
        end = self.size_bytes + spare
        self._buffer[self.size_bytes : end] = 0
        return self._buffer[:end]

    def put(self, data: bytes | memoryview) -> None:
        """Take bytes."""
        self._grow(len(data))
        end = self.size_bytes + len(data)
        self._buffer[self.size_bytes : end] = np.frombuffer(data, np.uint8)
        self.size_bytes = end

    def drain(self, stream: pa.NativeFile, bytes_max: int) -> bool:
        """Take a stream's bytes, one more than so many at most; return whether that was all."""
        stop = self.size_bytes + bytes_max + 1
        while self.size_bytes < stop:
            self._grow(1)
            got = stream.readinto(self._buffer[self.size_bytes : stop])
            if not got:
                return True
            self.size_bytes += got
        return False

    def drop(self, count: int) -> None:
        """Drop the first bytes; those after them move up."""
        left = self.size_bytes - count
        self._buffer[:left] = self._buffer[count : self.size_bytes]
        self.size_bytes = left

    def _grow(self, wanted: int) -> None:
        needed = self.size_bytes + wanted
        if needed > len(self._buffer):
            grown = np.empty(max(needed, 2 * len(self._buffer)), np.uint8)
            grown[: self.size_bytes] = self._buffer[: self.size_bytes]
            self._buffer = grown


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """The header of one batch, and where its records lie in the fetched bytes."""

    base: int
    last: int
    epoch: int
    attributes: int
    first_ms: int
    last_ms: int
    producer: int
    count: int
    begin: int
    stop: int

    def unpacked(self, fetched: bytes) -> bytes:
        """Return the records, decompressed. Raises FallbackError."""
        room = Room()
        if not self.unpack(fetched, room, UNPACKED_BYTES_MAX):
            raise FallbackError(f"a batch of more than {UNPACKED_BYTES_MAX} bytes")
        return room.whole().tobytes()

    def unpack(self, fetched: bytes, room: Room, bytes_max: int) -> bool:
        """Put the records into a room, decompressed; return whether these were all.

        They are not when a stream unpacks to more than `bytes_max`. Raises FallbackError.
        """
        if self.count > RECORDS_MAX:
            raise FallbackError(f"the batch at {self.base} holds {self.count} records")
        packed = memoryview(fetched)[self.begin + HEADER.size : self.stop]
        codec = self.attributes & CODEC
        if codec == PLAIN or not packed:
            room.put(packed)
            return True
        with self._translated():
            if codec == SNAPPY:
                for plain in _snappy(bytes(packed)):
                    room.put(plain)
                return True
            with self._opened(packed) as stream:
                return room.drain(stream, bytes_max)

    def pieces(self, fetched: bytes, bytes_max: int) -> Iterator[tuple[RecordBatch, bytes]]:
        """Yield it in parts, with about so many bytes of records at most. Raises FallbackError."""
        room, left = Room(), self.count
        packed = memoryview(fetched)[self.begin + HEADER.size : self.stop]
        with self._translated(), self._opened(packed) as stream:
            is_last = False
            while not is_last:
                is_last = room.drain(stream, bytes_max)
                count, stop = whole_records(room.whole().data, left)
                if count:
                    yield replace(self, count=count), room.whole()[:stop].tobytes()
                room.drop(stop)
                left -= count
                if room.size_bytes > UNPACKED_BYTES_MAX:
                    raise FallbackError(f"a record of more than {UNPACKED_BYTES_MAX} bytes")
                if room.size_bytes and (is_last or not left):
                    raise FallbackError("records do not fill their batch")
        if left:
            raise FallbackError("records do not fill their batch")

    def _opened(self, packed: memoryview) -> pa.NativeFile:
        codec = self.attributes & CODEC
        if codec not in CODECS:
            raise FallbackError(f"the batch at {self.base} has the unknown codec {codec}")
        return pa.CompressedInputStream(pa.BufferReader(packed), CODECS[codec])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, struct.error) as error:
            raise FallbackError(f"the batch at {self.base} cannot be unpacked") from error


def headers_of(fetched: bytes) -> Iterator[RecordBatch]:
    """Yield the batches of a fetch in order, each checked; one cut off at the end is left out."""
    at, end, expected = 0, len(fetched), 0
    view = memoryview(fetched)
    while at + HEADER.size <= end:
        base, length, epoch, magic, checksum, attributes, last, *rest = HEADER.unpack_from(
            fetched, at
        )
        if magic != MAGIC:
            raise FallbackError(f"the batch at {base} has message format v{magic}")
        stop = at + PREFIX_BYTES + length
        if length < HEADER.size - PREFIX_BYTES:
            raise FallbackError(f"the batch at {base} has no header")
        if stop > end:
            return
        if crc32c(view[at + CHECKED_FROM : stop]) != checksum:
            raise FallbackError(f"the checksum of the batch at {base} is wrong")
        if last < 0 or base < expected:
            raise FallbackError(f"the batch at {base} does not follow the one before")
        expected = base + last + 1
        first_ms, last_ms, producer, _, _, count = rest
        yield RecordBatch(
            base,
            base + last,
            epoch,
            attributes,
            first_ms,
            last_ms,
            producer,
            count,
            at,
            stop,
        )
        at = stop


def committed(
    fetched: bytes, batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]]
) -> Iterator[RecordBatch]:
    """Leave out control batches, and those of aborted transactions.

    `aborted` holds (producer, first offset). A producer's transaction lasts to its marker, so that
    what follows is again its own matter.
    """
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][1] <= batch.last:
            aborting.add(waiting.pop()[0])
        if batch.attributes & CONTROL:
            if batch.producer in aborting and is_abort(batch, fetched):
                aborting.remove(batch.producer)
        elif not (batch.attributes & TRANSACTIONAL and batch.producer in aborting):
            yield batch


def is_abort(batch: RecordBatch, fetched: bytes) -> bool:
    """Return whether a control batch holds an abort marker; compaction may have emptied it."""
    if not batch.count:
        return False
    record = batch.unpacked(fetched)
    try:
        at = varint(record, 0)[1] + 1  # after the length and the attributes
        for _ in ("timestamp", "offset", "key length"):
            at = varint(record, at)[1]
        version, kind = struct.unpack_from(">hh", record, at)
    except (IndexError, struct.error) as error:
        raise FallbackError(f"the marker at {batch.base} is not understood") from error
    if version < 0:
        raise FallbackError(f"the marker at {batch.base} has version {version}")
    return bool(kind == ABORT)


def _snappy(packed: bytes) -> Iterator[bytes]:
    """Unpack raw snappy, or the frames that Java's library puts around it."""
    if not packed.startswith(XERIAL):
        yield _raw_snappy(packed)
        return
    at, unpacked = XERIAL_HEADER_BYTES, 0
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        at += 4
        if not 0 <= size <= len(packed) - at:
            raise FallbackError("a snappy frame that is cut off")
        plain = _raw_snappy(packed[at : at + size])
        unpacked += len(plain)
        if unpacked > UNPACKED_BYTES_MAX:
            raise FallbackError(f"a batch of more than {UNPACKED_BYTES_MAX} bytes")
        yield plain
        at += size


def _raw_snappy(packed: bytes) -> bytes:
    size, shift = 0, 0
    for byte in packed[:5]:  # its unpacked size as a varint
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > UNPACKED_BYTES_MAX:
        raise FallbackError(f"a snappy block of {size} bytes")
    plain: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    return plain
