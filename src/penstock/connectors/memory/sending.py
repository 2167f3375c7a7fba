"""The packer and the sender of a memory cluster: batches are rows as Arrow writes them.

Invariants: those of `ports/producers.py`, proven by the contract suite. Nothing is lost on its way,
so that nothing is sent again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.transactions import (
    INVALID_RECORD,
    TOO_LARGE,
    Answer,
    MemoryCoordinator,
)
from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import (
    BatchTooLarge,
    NotSent,
    PackedBatch,
    RecordsRefused,
    Refused,
    Term,
)

BATCH_BYTES_MAX = 1_000_000
NO_CODEC = 0
NO_TIMESTAMP = -1


class MemoryPacker:
    """Implements `ports.producers.Packer`."""

    def __init__(self, *, batch_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self._batch_bytes_max = batch_bytes_max

    def partitions_of(self, keys: pa.BinaryArray, count: int) -> pa.Int32Array:
        """Deal keys out by a checksum."""
        places = [None if key is None else zlib.crc32(key) % count for key in keys.to_pylist()]
        return pa.array(places, pa.int32())

    def pack(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Mapping[int, Sequence[PackedBatch]]:
        """Keep rows for their partitions."""
        places = partitions.to_pylist()
        return {
            number: [*self._packed(rows.take([n for n, at in enumerate(places) if at == number]))]
            for number in sorted(set(places))
        }

    def _packed(self, rows: pa.RecordBatch) -> Iterator[PackedBatch]:
        begin, size_bytes = 0, 0
        for number in range(rows.num_rows):
            own = rows.slice(number, 1).nbytes
            if number > begin and size_bytes + own > self._batch_bytes_max:
                yield _packed(rows.slice(begin, number - begin))
                begin, size_bytes = number, 0
            size_bytes += own
        if rows.num_rows:
            yield _packed(rows.slice(begin))


class MemorySender:
    """Implements `ports.producers.Sender`."""

    def __init__(self, coordinator: MemoryCoordinator) -> None:
        self._coordinator = coordinator

    def send(
        self,
        transactional_id: str,
        term: Term,
        batches: Mapping[TopicPartition, Iterable[PackedBatch]],
    ) -> Mapping[TopicPartition, Batches] | NotSent:
        """Send all batches, partition after partition."""
        found: dict[TopicPartition, Batches] = {}
        for at, own in batches.items():
            first, sequence, checksums = -1, 0, 0
            for count, packed in enumerate(own, start=1):
                sent, size_bytes = [*_messages(packed)], len(packed.records)
                answer = self._coordinator.produce(
                    transactional_id, term, at, sequence, sent, size_bytes=size_bytes
                )
                if answer.error:
                    return self._refused(at, packed, sequence, answer)
                first = answer.first_offset if first < 0 else first
                sequence += packed.count
                checksums += zlib.crc32(packed.records)
                last = answer.first_offset + packed.count - 1
                found[at] = Batches(first, last, sequence, count, checksums)
        return found

    def close(self) -> None:
        """Let go of nothing."""

    def _refused(
        self, at: TopicPartition, packed: PackedBatch, sequence: int, answer: Answer
    ) -> NotSent:
        error, reason = answer.error, f"{at}: error {answer.error}"
        if error == INVALID_RECORD:
            numbers = tuple(sequence + number for number in answer.refused)
            return RecordsRefused(at, error, reason, numbers)
        if error == TOO_LARGE and packed.count == 1:
            return RecordsRefused(at, error, reason, (sequence,))
        if error == TOO_LARGE:
            limit = self._coordinator.cluster.topic(at.topic).batch_bytes_max
            return BatchTooLarge(at, error, reason, limit)
        return Refused(error, reason)


def _packed(rows: pa.RecordBatch) -> PackedBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    times = rows["timestamp"].cast(pa.int64()).fill_null(NO_TIMESTAMP).to_pylist()
    return PackedBatch(
        bytes(sink.getvalue()), rows.num_rows, NO_CODEC, first_ms=times[0], last_ms=max(times)
    )


def _messages(packed: PackedBatch) -> Iterator[Message]:
    rows = pa.ipc.open_stream(packed.records).read_all()
    times = rows["timestamp"].cast(pa.int64()).to_pylist()
    for row, time_ms in zip(rows.drop_columns("timestamp").to_pylist(), times, strict=True):
        headers = tuple((each["key"], each["value"]) for each in row.get("headers") or ())
        yield Message(row["value"], row["key"], time_ms, headers)
