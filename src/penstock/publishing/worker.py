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

from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import PackedBatch, Packer, Refused, Sender
from penstock.ports.runtime import Clock
from penstock.ports.sources import SourceReader
from penstock.publishing.messages import Delivered, Delivery, SendJob, SendResult


@dataclass(frozen=True, slots=True)
class SendTools:
    """What a worker works with, opened once a process, beside a reader."""

    packer: Packer
    sender: Sender
    clock: Clock


def send(
    job: SendJob, deliveries: Sequence[Delivery], reader: SourceReader, tools: SendTools
) -> SendResult:
    """Send the messages of each stretch into its partition. Raises what the two ports raise."""
    deadline = tools.clock.monotonic() + job.timeout_seconds
    delivered = []
    packed: dict[TopicPartition, int] = {}
    sent: dict[TopicPartition, Batches] = {}
    for delivery in deliveries:
        stretch = _Stretch(delivery, deadline, reader, tools.packer)
        batches = {delivery.into: stretch.batches()}
        found = tools.sender.send(job.transactional_id, job.term, batches)
        if not isinstance(found, Mapping):
            return SendResult(job.number, refused=Refused(found.error, found.reason))
        delivered.append(Delivered(delivery.stretch.of, stretch.reached, stretch.rows))
        packed[delivery.into] = stretch.rows
        sent |= found
    return SendResult(job.number, tuple(delivered), packed, sent)


class _Stretch:
    """Reads one stretch, and remembers how far it came."""

    def __init__(
        self, delivery: Delivery, deadline: float, reader: SourceReader, packer: Packer
    ) -> None:
        self._delivery, self._deadline = delivery, deadline
        self._reader, self._packer = reader, packer
        self.reached, self.rows = delivery.stretch.start, 0

    def batches(self) -> Iterator[PackedBatch]:
        for read in self._reader.read(self._delivery.stretch, deadline=self._deadline):
            self.reached, self.rows = read.reached, self.rows + read.messages.num_rows
            if read.messages.num_rows:
                only = pa.array(np.zeros(read.messages.num_rows, np.int32))
                yield from self._packer.pack(read.messages, only)[0]
