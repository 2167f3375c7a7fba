"""What a worker does for a publication: read stretches, and send their messages under a term.

Invariants:
- the messages of a stretch reach their partition in the order of the source;
- what is refused or not answered ends the work: the driver decides, and nothing is sent after it;
- no transaction is ended here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import (
    BatchTooLarge,
    PackedBatch,
    Packer,
    RecordsRefused,
    Refused,
    Sender,
)
from penstock.ports.runtime import Clock
from penstock.ports.sources import SourceReader
from penstock.publishing.messages import Delivered, Delivery, SendJob, SendResult


@dataclass(frozen=True, slots=True)
class SendTools:
    """What a worker works with, opened once a process, beside a reader.

    `threads` encode rows.
    """

    packer: Packer
    sender: Sender
    clock: Clock
    threads: int = 1


def send(
    job: SendJob, deliveries: Sequence[Delivery], reader: SourceReader, tools: SendTools
) -> SendResult:
    """Send the messages of each stretch into its partition.

    Raises what the reader and the sender raise, and InvalidError (P816) for a record that the
    target does not take, whoever sends it.
    """
    deadline = tools.clock.monotonic() + job.timeout_seconds
    delivered = []
    packed: dict[TopicPartition, int] = {}
    sent: dict[TopicPartition, Batches] = {}
    sent_bytes = 0
    for delivery in deliveries:
        stretch = _Stretch(delivery, deadline, reader, tools.packer)
        batches = {delivery.into: stretch.batches()}
        found = tools.sender.send(job.transactional_id, job.term, batches)
        if isinstance(found, RecordsRefused):
            raise _not_taken(delivery, found)
        if not isinstance(found, Mapping):
            limit = found.bytes_max if isinstance(found, BatchTooLarge) else None
            refused = Refused(found.error, found.reason)
            return SendResult(job.number, refused=refused, batch_bytes_max=limit)
        delivered.append(Delivered(delivery.stretch.of, stretch.reached, stretch.rows))
        packed[delivery.into] = stretch.rows
        sent |= found
        sent_bytes += stretch.bytes
    return SendResult(job.number, tuple(delivered), packed, sent, sent_bytes)


class _Stretch:
    """Reads one stretch, and remembers how far it came."""

    def __init__(
        self, delivery: Delivery, deadline: float, reader: SourceReader, packer: Packer
    ) -> None:
        self._delivery, self._deadline = delivery, deadline
        self._reader, self._packer = reader, packer
        self.reached, self.rows, self.bytes = delivery.stretch.start, 0, 0

    def batches(self) -> Iterator[PackedBatch]:
        for read in self._reader.read(self._delivery.stretch, deadline=self._deadline):
            self.reached, self.rows = read.reached, self.rows + read.messages.num_rows
            if read.messages.num_rows:
                only = pa.array(np.zeros(read.messages.num_rows, np.int32))
                for batch in self._packer.pack(read.messages, only)[0]:
                    self.bytes += len(batch.records)
                    yield batch


def _not_taken(delivery: Delivery, found: RecordsRefused) -> InvalidError:
    stretch, number = delivery.stretch, found.records[0] + 1
    return InvalidError(
        f"{found.reason}: record {number} of those from {stretch.start} on of {stretch.of}",
        code="P816",
        hint=f"see what the topic takes:  kafka-configs --describe --all --topic"
        f" '{delivery.into.topic}'",
    )
