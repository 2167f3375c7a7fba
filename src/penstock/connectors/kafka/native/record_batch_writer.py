"""Rows become record batches: packed before their transaction begins, finished when it is known.

A packed batch has everything but its head. The head bears the term, the sequence number and the
checksum, so that encoding and compressing may be repeated, and sending is little work.

Invariants:
- the rows of a partition keep their order; a batch holds rows of one partition;
- records of a batch take at most `batch_bytes_max` before they are compressed, unless one record
  alone takes more;
- every batch is of a transaction, and has the time of its records (`CreateTime`).

Source: Kafka documentation, "Record Batch"; KIP-98; docs/design/0280.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from penstock.connectors.kafka.columns import NO_TIMESTAMP
from penstock.connectors.kafka.native.compression import NUMBERS, compressed
from penstock.connectors.kafka.native.partitioner import partitions_of
from penstock.connectors.kafka.native.record_batches import (
    CHECKED_FROM,
    HEADER,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL,
)
from penstock.connectors.kafka.native.record_bytes import (
    Ints,
    fields_of,
    number_bytes,
    records_of,
)
from penstock.ports.producers import PackedBatch, Term

BATCH_BYTES_MAX = 1_000_000
"""With a head, and what a codec adds to what it cannot compress, it is below the
`max.message.bytes` that brokers have by default."""
BATCH_RECORDS_MAX = 1 << 20
OFFSET_BYTES_MAX = 3
"""Of an offset's delta below BATCH_RECORDS_MAX."""
PACKED_AT_ONCE_BYTES = 1 << 30
"""Arrow's offsets have 31 bits."""
NO_LEADER_EPOCH = -1
_CHECKSUM_AT = CHECKED_FROM - 4


class KafkaPacker:
    """Implements `ports.producers.Packer`."""

    def __init__(self, *, codec: str, batch_bytes_max: int = BATCH_BYTES_MAX) -> None:
        assert codec in NUMBERS, codec
        assert batch_bytes_max > 0
        self._codec, self._batch_bytes_max = codec, batch_bytes_max

    def partitions_of(self, keys: pa.BinaryArray, count: int) -> pa.Int32Array:
        """Return where Java's clients put each key."""
        return partitions_of(keys, count)

    def pack(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Mapping[int, Sequence[PackedBatch]]:
        """Encode and compress rows, each for its partition."""
        assert len(partitions) == rows.num_rows
        assert partitions.null_count == 0
        found: dict[int, list[PackedBatch]] = {}
        for part in _pieces(rows):
            own = partitions.slice(part.start, len(part))
            for number, batch in self._packed(rows.slice(part.start, len(part)), own):
                found.setdefault(number, []).append(batch)
        return found

    def _packed(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Iterator[tuple[int, PackedBatch]]:
        """Yield partition and batch, each partition's in order.

        Records are encoded where they stand, and then moved: one column is taken, not each.
        """
        places = partitions.to_numpy()
        order = np.argsort(places, kind="stable")
        places = places[order]
        times = rows["timestamp"].cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy()[order]
        fields = fields_of(rows)
        cuts = self._cut(places, fields.sizes[order], times)
        begins, counts = cuts[:-1], np.diff(cuts)

        at: Ints = np.empty(len(order), np.int64)
        at[order] = np.arange(len(order)) - np.repeat(begins, counts)
        since: Ints = np.empty(len(order), np.int64)
        since[order] = times - np.repeat(times[begins], counts)
        records = records_of(fields, since, at)
        if (np.diff(order) != 1).any():
            records = records.take(pa.array(order))
        _, bounds, held = records.buffers()
        ends = np.frombuffer(bounds, np.int32, len(records) + 1, 4 * records.offset)
        data = memoryview(held)
        number = NUMBERS[self._codec]
        latest = np.maximum.reduceat(times, begins)
        for index, (begin, stop) in enumerate(itertools.pairwise(cuts.tolist())):
            packed = PackedBatch(
                records=compressed(data[ends[begin] : ends[stop]], self._codec),
                count=stop - begin,
                codec=number,
                first_ms=int(times[begin]),
                last_ms=int(latest[index]),
            )
            yield int(places[begin]), packed

    def _cut(self, places: Ints, sizes: Ints, times: Ints) -> Ints:
        """Return where batches begin, and the end; sizes are taken for no smaller than they are."""
        spread = min(int(times.max()) - int(times.min()), 1 << 62)
        time_bytes = int(number_bytes(np.array([spread]))[0])
        sizes = sizes + OFFSET_BYTES_MAX + time_bytes
        ends = np.cumsum(sizes + number_bytes(sizes))
        changes = np.flatnonzero(np.diff(places)) + 1
        cuts = [0]
        for stop in [*changes.tolist(), len(places)]:
            while cuts[-1] < stop:
                begin = cuts[-1]
                held = ends[begin - 1] if begin else 0
                room = int(np.searchsorted(ends, held + self._batch_bytes_max, side="right"))
                cuts.append(min(max(room, begin + 1), begin + BATCH_RECORDS_MAX, stop))
        return np.array(cuts)


def records_bytes_max(batch_bytes_max: int | None) -> int:
    """Return how many bytes of records fit into a batch, whatever a codec adds; None: the usual."""
    if batch_bytes_max is None:
        return BATCH_BYTES_MAX
    return max(min(batch_bytes_max * 15 // 16 - 2 * HEADER.size, BATCH_BYTES_MAX), 1)


def finished(packed: PackedBatch, term: Term, sequence: int) -> tuple[bytes, int]:
    """Return a whole batch of a term's transaction, and its checksum.

    `sequence` is the number of its first record among those of the term in the partition.
    """
    assert 0 <= sequence <= sequence + packed.count < 1 << 31
    head = bytearray(HEADER.size)
    HEADER.pack_into(
        head,
        0,
        0,
        HEADER.size - PREFIX_BYTES + len(packed.records),
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        packed.codec | TRANSACTIONAL,
        packed.count - 1,
        packed.first_ms,
        packed.last_ms,
        term.producer_id,
        term.epoch,
        sequence,
        packed.count,
    )
    checksum = crc32c(packed.records, crc32c(memoryview(head)[CHECKED_FROM:]))
    head[_CHECKSUM_AT:CHECKED_FROM] = checksum.to_bytes(4, "big")
    return b"".join((head, packed.records)), checksum


def _pieces(rows: pa.RecordBatch) -> Iterator[range]:
    """Yield ranges of rows that can be encoded at once: all, mostly."""
    pending = [range(rows.num_rows)]
    while pending:
        piece = pending.pop()
        if len(piece) <= 1 or rows.slice(piece.start, len(piece)).nbytes <= PACKED_AT_ONCE_BYTES:
            if piece:
                yield piece
        else:
            middle = len(piece) // 2
            pending += [piece[middle:], piece[:middle]]
