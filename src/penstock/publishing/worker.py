"""What a worker does for a publication: read stretches, and send their messages under a term.

Invariants:
- the messages of a stretch reach their partition in the order of the source;
- what is refused or not answered ends the work: the driver decides, and nothing is sent after it;
- no transaction is ended here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

ROWS_TOGETHER = 10_000
"""Stretches of no more rows are read before the first byte is sent, and share requests."""


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
    stretches: list[_Stretch] = []
    sent: dict[TopicPartition, Batches] = {}
    for together in _groups(deliveries):
        own = [_Stretch(each, deadline, reader, tools.packer) for each in together]
        batches: Mapping[TopicPartition, Iterable[PackedBatch]]
        if len(own) > 1:
            batches = _together(own, tools.packer)
        else:
            batches = {each.into: each.batches() for each in own}
        found = tools.sender.send(job.transactional_id, job.term, batches)
        if isinstance(found, RecordsRefused):
            raise _not_taken(next(each for each in together if each.into == found.at), found)
        if not isinstance(found, Mapping):
            limit = found.bytes_max if isinstance(found, BatchTooLarge) else None
            refused = Refused(found.error, found.reason)
            return SendResult(job.number, refused=refused, batch_bytes_max=limit)
        stretches += own
        sent |= found
    return SendResult(
        job.number,
        tuple(Delivered(each.of, each.reached, each.rows) for each in stretches),
        {each.into: each.rows for each in stretches},
        sent,
        sum(each.bytes for each in stretches),
    )


def _groups(deliveries: Sequence[Delivery]) -> Iterator[list[Delivery]]:
    """Yield what is sent in one call: stretches of few rows together, any other alone."""
    together: list[Delivery] = []
    for each in deliveries:
        if sum(has.stretch.rows for has in (*together, each)) > ROWS_TOGETHER and together:
            yield together
            together = []
        together.append(each)
    if together:
        yield together


def _together(
    stretches: Sequence[_Stretch], packer: Packer
) -> dict[TopicPartition, list[PackedBatch]]:
    """Read stretches, one after the other as a reader does, and pack all of them at once."""
    packed: dict[TopicPartition, list[PackedBatch]] = {each.into: [] for each in stretches}
    read = [(number, part) for number, each in enumerate(stretches) for part in each.messages()]
    if not read:
        return packed
    whole = pa.Table.from_batches([part for _, part in read]).combine_chunks()
    places = np.repeat([number for number, _ in read], [part.num_rows for _, part in read])
    begun = 0
    for rows in whole.to_batches():  # more than one where Arrow's offsets are too small
        own = pa.array(places[begun : begun + rows.num_rows].astype(np.int32))
        begun += rows.num_rows
        for number, batches in packer.pack(rows, own).items():
            packed[stretches[number].into] += batches
            stretches[number].bytes += sum(len(each.records) for each in batches)
    return packed


class _Stretch:
    """Reads one stretch, and remembers how far it came."""

    def __init__(
        self, delivery: Delivery, deadline: float, reader: SourceReader, packer: Packer
    ) -> None:
        self._stretch, self._deadline = delivery.stretch, deadline
        self._reader, self._packer = reader, packer
        self.of, self.into = delivery.stretch.of, delivery.into
        self.reached, self.rows, self.bytes = delivery.stretch.start, 0, 0

    def messages(self) -> Iterator[pa.RecordBatch]:
        """Yield what is read."""
        for read in self._reader.read(self._stretch, deadline=self._deadline):
            self.reached, self.rows = read.reached, self.rows + read.messages.num_rows
            if read.messages.num_rows:
                yield read.messages

    def batches(self) -> Iterator[PackedBatch]:
        """Yield it packed, as it is read."""
        for messages in self.messages():
            only = pa.array(np.zeros(messages.num_rows, np.int32))
            for batch in self._packer.pack(messages, only)[0]:
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
