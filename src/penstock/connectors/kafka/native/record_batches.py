"""The record batches of a fetch: found by their headers, sorted by transactions, unpacked.

Invariants:
- what is given is committed, decided upon, and complete: a batch whose format is older than v2 or
  whose codec is unknown is an UnfitError, never a guess;
- nothing of a batch is believed, nor is it passed, before its checksum was found right;
- the position moves behind every batch that was passed: control batches, aborted records and
  compacted offsets give no record and move it;
- a transaction is aborted by the broker's own list, up to its marker.

Source: Kafka documentation, "Record Batch"; KIP-98 (aborted transactions of a fetch);
`org.apache.kafka.clients.consumer.internals.CompletedFetch`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from crc32c import crc32c

from penstock.connectors.kafka.native.buffer import Room
from penstock.connectors.kafka.native.connection import UnfitError
from penstock.connectors.kafka.native.record_columns import whole_records

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
"""What cannot be cut is unpacked to at most so much: a record, a batch of snappy, a marker."""
ABORT = 0


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
        """Return the records, decompressed. Raises UnfitError."""
        room = Room()
        if not self.unpack(fetched, room, UNPACKED_BYTES_MAX):
            raise UnfitError(f"a batch of more than {UNPACKED_BYTES_MAX} bytes")
        return room.whole().tobytes()

    def unpack(self, fetched: bytes, room: Room, bytes_max: int) -> bool:
        """Put the records into a room, decompressed; tell whether these were all.

        They are not when a stream unpacks to more than `bytes_max`. Raises UnfitError.
        """
        if self.count > RECORDS_MAX:
            raise UnfitError(f"the batch at {self.base} holds {self.count} records")
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
        """Yield a batch as several, each with the bytes of its records: about so many at most.

        Raises UnfitError.
        """
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
                    raise UnfitError(f"a record of more than {UNPACKED_BYTES_MAX} bytes")
                if room.size_bytes and (is_last or not left):
                    raise UnfitError("records do not fill their batch")
        if left:
            raise UnfitError("records do not fill their batch")

    def _opened(self, packed: memoryview) -> pa.NativeFile:
        codec = self.attributes & CODEC
        if codec not in CODECS:
            raise UnfitError(f"the batch at {self.base} has the unknown codec {codec}")
        return pa.CompressedInputStream(pa.BufferReader(packed), CODECS[codec])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, struct.error) as error:
            raise UnfitError(f"the batch at {self.base} cannot be unpacked") from error


def headers_of(fetched: bytes) -> Iterator[RecordBatch]:
    """Yield the batches of a fetch in order, each checked; one cut off at the end is left out."""
    at, end, behind = 0, len(fetched), 0
    view = memoryview(fetched)
    while at + HEADER.size <= end:
        base, length, epoch, magic, checksum, attributes, last, *rest = HEADER.unpack_from(
            fetched, at
        )
        if magic != MAGIC:
            raise UnfitError(f"the batch at {base} has message format v{magic}")
        stop = at + PREFIX_BYTES + length
        if length < HEADER.size - PREFIX_BYTES:
            raise UnfitError(f"the batch at {base} has no header")
        if stop > end:
            return
        if crc32c(view[at + CHECKED_FROM : stop]) != checksum:
            raise UnfitError(f"the checksum of the batch at {base} is wrong")
        if last < 0 or base < behind:
            raise UnfitError(f"the batch at {base} does not lie behind the one before")
        behind = base + last + 1
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
    gone: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1][1] <= batch.last:
            gone.add(waiting.pop()[0])
        if batch.attributes & CONTROL:
            if batch.producer in gone and _is_abort(batch, fetched):
                gone.remove(batch.producer)
        elif not (batch.attributes & TRANSACTIONAL and batch.producer in gone):
            yield batch


def _is_abort(batch: RecordBatch, fetched: bytes) -> bool:
    """Return whether a control batch holds an abort marker; compaction may have emptied it."""
    if not batch.count:
        return False
    record = batch.unpacked(fetched)
    at = 0
    for skipped in ("length", "attributes", "timestamp", "offset", "key length"):
        at = at + 1 if skipped == "attributes" else _behind(record, at)
    try:
        version, kind = struct.unpack_from(">hh", record, at)
    except struct.error as error:
        raise UnfitError(f"the marker at {batch.base} is not understood") from error
    if version < 0:
        raise UnfitError(f"the marker at {batch.base} has version {version}")
    return bool(kind == ABORT)


def _behind(record: bytes, at: int) -> int:
    """Return the position behind a varint."""
    while at < len(record) and record[at] & 0x80:
        at += 1
    return at + 1


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
            raise UnfitError("a snappy frame that is cut off")
        plain = _raw_snappy(packed[at : at + size])
        unpacked += len(plain)
        if unpacked > UNPACKED_BYTES_MAX:
            raise UnfitError(f"a batch of more than {UNPACKED_BYTES_MAX} bytes")
        yield plain
        at += size


def _raw_snappy(packed: bytes) -> bytes:
    """Unpack raw snappy: it begins with its unpacked size as a varint."""
    size, shift = 0, 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > UNPACKED_BYTES_MAX:
        raise UnfitError(f"a snappy block of {size} bytes")
    plain: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    return plain
