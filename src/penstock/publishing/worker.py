"""What a worker does for a publication: read stretches, and send their messages under a term.

Invariants:
- the messages of a stretch reach their partition in the order of the source;
- what is refused or not answered ends the work: the driver decides, and nothing is sent after it;
- no transaction is ended here.
"""

from __future__ import annotations

import itertools
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
from penstock.ports.sources import MESSAGES, Read, SourceReader
from penstock.publishing.messages import Delivered, Delivery, SendJob, SendResult
from penstock.publishing.places import part_words, place_words

ROWS_TOGETHER = 10_000
"""Stretches of no more rows are read before the first byte is sent, and share requests."""
BYTES_TOGETHER = 64 << 20
"""So much of them is in memory at once: records may be large."""


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
    while left := deliveries[len(stretches) :]:
        own = [_Stretch(each, deadline, reader, tools.packer) for each in _few(left)]
        batches = _together(own, tools.packer) if len(own) > 1 else {own[0].into: own[0].batches()}
        found = tools.sender.send(job.transactional_id, job.term, batches)
        if isinstance(found, RecordsRefused):
            raise _not_taken(next(each for each in left if each.into == found.at), found)
        if not isinstance(found, Mapping):
            return not_sent(job, found)
        stretches += own[: len(batches)]
        sent |= found
    return SendResult(
        job.number,
        tuple(Delivered(each.of, each.reached, each.rows) for each in stretches),
        {each.into: each.rows for each in stretches},
        sent,
        sum(each.bytes for each in stretches),
    )


def not_sent(job: SendJob, why: Refused | BatchTooLarge) -> SendResult:
    """Return the result of a job whose messages were not sent."""
    limit = why.bytes_max if isinstance(why, BatchTooLarge) else None
    refused = Refused(why.error, why.reason)
    return SendResult(job.number, refused=refused, batch_bytes_max=limit)


def _few(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """Return what is sent next in one call: stretches of few rows together, any other alone."""
    rows = itertools.accumulate(each.stretch.rows for each in deliveries)
    fitting = sum(count <= ROWS_TOGETHER for count in rows)
    return deliveries[: max(fitting, 1)]


def _together(
    stretches: Sequence[_Stretch], packer: Packer
) -> dict[TopicPartition, Iterable[PackedBatch]]:
    """Read stretches, one after the other as a reader does, and pack what was read at once.

    One that makes it too much is read on as it is sent; those behind it are left out.
    """
    parts: list[pa.RecordBatch] = []
    rows: list[int] = []
    bytes_left = BYTES_TOGETHER
    for each in stretches:
        read = each.read(bytes_left)
        parts += read
        rows.append(sum(part.num_rows for part in read))
        bytes_left -= sum(part.nbytes for part in read)
        if bytes_left <= 0:
            break
    begun = stretches[: len(rows)]
    packed: list[list[PackedBatch]] = [[] for _ in begun]
    places = np.repeat(np.arange(len(begun), dtype=np.int32), rows)
    whole = pa.Table.from_batches(parts, MESSAGES).combine_chunks()
    at = 0
    for batch in whole.to_batches():  # more than one where Arrow's offsets are too small
        own = pa.array(places[at : at + batch.num_rows])
        at += batch.num_rows
        for number, batches in packer.pack(batch, own).items():
            packed[number] += batches
            begun[number].bytes += sum(len(each.records) for each in batches)
    found: dict[TopicPartition, Iterable[PackedBatch]] = {
        each.into: batches for each, batches in zip(begun, packed, strict=True)
    }
    return {**found, begun[-1].into: itertools.chain(packed[-1], begun[-1].batches())}


class _Stretch:
    """Reads one stretch, once, and remembers how far it came."""

    def __init__(
        self, delivery: Delivery, deadline: float, reader: SourceReader, packer: Packer
    ) -> None:
        self._packer = packer
        self._messages = self._read(reader.read(delivery.stretch, deadline=deadline))
        self.of, self.into = delivery.stretch.of, delivery.into
        self.reached, self.rows, self.bytes = delivery.stretch.start, 0, 0

    def read(self, bytes_max: int) -> list[pa.RecordBatch]:
        """Return the messages that are next, until they have so many bytes or more."""
        found: list[pa.RecordBatch] = []
        for messages in self._messages:
            found.append(messages)
            bytes_max -= messages.nbytes
            if bytes_max <= 0:
                break
        return found

    def batches(self) -> Iterator[PackedBatch]:
        """Yield what is left, packed as it is read."""
        for messages in self._messages:
            only = pa.array(np.zeros(messages.num_rows, np.int32))
            for batch in self._packer.pack(messages, only)[0]:
                self.bytes += len(batch.records)
                yield batch

    def _read(self, parts: Iterable[Read]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            self.reached, self.rows = part.reached, self.rows + part.messages.num_rows
            if part.messages.num_rows:
                yield part.messages


def _not_taken(delivery: Delivery, found: RecordsRefused) -> InvalidError:
    stretch, number = delivery.stretch, found.records[0] + 1
    start, part = place_words(stretch.start), part_words(stretch.of)
    return InvalidError(
        f"{found.reason}: record {number} of those from {start} on of {part}",
        code="P816",
        hint=f"see what the topic takes:  kafka-configs --describe --all --topic"
        f" '{delivery.into.topic}'",
    )
