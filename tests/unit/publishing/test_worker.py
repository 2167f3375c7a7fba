"""What a worker holds in memory of the stretches that it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from tests.story.clock import ManualClock

from penstock.connectors.memory.sending import MemoryPacker
from penstock.core.offsets import TopicPartition
from penstock.core.positions import partition_of, position_of
from penstock.core.receipts import Batches
from penstock.ports.producers import Term
from penstock.ports.sources import MESSAGES, Read, Stretch
from penstock.publishing.messages import Delivery, SendJob
from penstock.publishing.worker import BYTES_TOGETHER, SendTools, send

BATCH_ROWS, RECORD_BYTES = 8, 1 << 20
PARTITIONS, BATCHES_EACH = 4, 8


class Large:
    """Reads batches of large records, one range at a time, and counts the bytes that were read."""

    def __init__(self) -> None:
        self.bytes, self.most = 0, 0
        self._open: str | None = None

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Read]:
        """Yield the batches of a partition."""
        del deadline
        assert self._open is None, "a reader reads one range at a time"
        self._open = stretch.of
        for number in range(1, BATCHES_EACH + 1):
            values = pa.array([bytes([number]) * RECORD_BYTES] * BATCH_ROWS, pa.binary())
            nothing = [pa.nulls(BATCH_ROWS, each.type) for each in MESSAGES]
            rows = pa.RecordBatch.from_arrays([nothing[0], values, *nothing[2:]], schema=MESSAGES)
            self.bytes += rows.nbytes
            self.most = max(self.most, self.bytes)
            yield Read(rows, position_of({"offset": number * BATCH_ROWS}, "raw"))
        self._open = None


class Taking:
    """Takes what is sent, batch after batch, of each partition in turn; what it took is let go."""

    def __init__(self, reader: Large) -> None:
        self._reader = reader

    def send(
        self, transactional_id: str, term: Term, batches: Mapping[TopicPartition, object]
    ) -> Mapping[TopicPartition, Batches]:
        """Take all."""
        del transactional_id, term
        lanes = {at: iter(own) for at, own in batches.items()}
        found: dict[TopicPartition, Batches] = {}
        while lanes:
            for at in [*lanes]:
                batch = next(lanes[at], None)
                if batch is None:
                    del lanes[at]
                    continue
                sent = found[at].records if at in found else 0
                self._reader.bytes -= batch.count * RECORD_BYTES
                last = sent + batch.count - 1
                found[at] = Batches(0, last, sent + batch.count, 1, None)
        return found


def deliveries() -> tuple[Delivery, ...]:
    start, stop = (position_of({"offset": at}, "raw") for at in (0, BATCHES_EACH * BATCH_ROWS))
    return tuple(
        Delivery(
            Stretch(partition_of({"partition": n}, "raw"), start, stop, BATCHES_EACH * BATCH_ROWS),
            TopicPartition("t", n, "rows"),
        )
        for n in range(PARTITIONS)
    )


def test_of_large_records_that_are_sent_together_a_few_are_in_memory() -> None:
    reader = Large()
    job = SendJob(0, "id", Term(1, 0), {}, {}, deliveries(), 60.0)
    tools = SendTools(MemoryPacker(), Taking(reader), ManualClock())
    found = send(job, deliveries(), reader, tools)

    each = BATCHES_EACH * BATCH_ROWS
    assert [each] * PARTITIONS == [one.rows for one in found.delivered]
    assert dict.fromkeys(found.packed, each) == {at: own.records for at, own in found.sent.items()}
    assert {one.of: one.reached for one in found.delivered} == {
        own.stretch.of: own.stretch.stop for own in deliveries()
    }
    assert reader.most < BYTES_TOGETHER + 2 * BATCH_ROWS * RECORD_BYTES


@pytest.mark.parametrize("together", [1, 1 << 40])
def test_what_is_sent_does_not_depend_on_how_much_is_read_at_once(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.publishing.worker.BYTES_TOGETHER", together)
    reader = Large()
    job = SendJob(0, "id", Term(1, 0), {}, {}, deliveries(), 60.0)
    found = send(
        job, deliveries(), reader, SendTools(MemoryPacker(), Taking(reader), ManualClock())
    )

    assert PARTITIONS * BATCHES_EACH * BATCH_ROWS == sum(found.packed.values())
    assert found.sent.keys() == found.packed.keys()
