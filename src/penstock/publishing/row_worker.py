"""What a worker does with rows: encode them, pack them by partition, and send all under a term.

Invariants:
- all rows are read, encoded and packed before the first byte is sent: a row that does not fit, and
  has no topic to go to, stops the publication with nothing open;
- rows with one key keep their order: they are in one partition, in the order of the source;
- rows without a key go batch by batch into one partition after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import BatchTooLarge, PackedBatch, RecordsRefused, Refused
from penstock.ports.sources import RowReader, Rows, Stretch
from penstock.publishing.messages import Delivered, Encoding, SendJob, SendResult
from penstock.publishing.rejects import (
    NO_MESSAGE,
    POISON,
    RowsRead,
    misfits_of,
    no_message,
    poison,
    reject_messages,
    require_few,
)
from penstock.publishing.worker import SendTools
from penstock.rows.encode.encoder import WHERE, Misfit, encode

ABORTED = "aborted"
"""Why rows are not published that their source took back."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where messages come from, the row of each, and which partition it has."""

    read: RowsRead
    rows: npt.NDArray[np.int64]
    partitions: npt.NDArray[np.int32]


@dataclass(slots=True)
class RowWorker:
    """Does one job that encodes; used once."""

    job: SendJob
    encoding: Encoding
    reader: RowReader
    tools: SendTools
    _packed: dict[TopicPartition, list[PackedBatch]] = field(default_factory=dict)
    _counts: Counter[TopicPartition] = field(default_factory=Counter)
    _places: dict[str, list[_Place]] = field(default_factory=dict)
    _reasons: Counter[str] = field(default_factory=Counter)

    def work(self) -> SendResult:
        """Read, encode, pack and send.

        Raises DecisionNeededError for a row that is no message (P840), for too many (P860), or for
        one that its topic does not take (P841), what `encode` raises, and what the reader and the
        sender raise.
        """
        deadline = self.tools.clock.monotonic() + self.job.timeout_seconds
        delivered = [self._read(each, deadline) for each in self.encoding.stretches]
        books = Tally(
            examined=sum(each.rows for each in delivered),
            quarantined={NO_MESSAGE: sum(self._reasons.values())},
        )
        require_few(books, self._reasons, self.encoding.stop_above_share)
        batches = {at: self._packed[at] for at in sorted(self._packed)}
        found = self.tools.sender.send(self.job.transactional_id, self.job.term, batches)
        if isinstance(found, RecordsRefused):
            raise self._not_taken(found)
        if not isinstance(found, Mapping):
            limit = found.bytes_max if isinstance(found, BatchTooLarge) else None
            refused = Refused(found.error, found.reason)
            return SendResult(self.job.number, refused=refused, batch_bytes_max=limit)
        size = sum(len(each.records) for own in batches.values() for each in own)
        return SendResult(self.job.number, tuple(delivered), dict(self._counts), found, size)

    def _read(self, stretch: Stretch, deadline: float) -> Delivered:
        reached, rows = stretch.start, 0
        filtered, rejected = Counter[str](), Counter[str]()
        if stretch.is_poison:
            read = RowsRead(stretch.of, stretch.stop, 1)
            self._reject(read, POISON, [poison()], self.tools.clock.now_ms())
            return Delivered(stretch.of, stretch.stop, 1, rejected={POISON: 1})
        for each in self.reader.read(stretch, deadline=deadline):
            reached, rows = each.reached, rows + each.count
            if each.count:
                self._encode(RowsRead(stretch.of, reached, each.count), each, filtered, rejected)
        return Delivered(stretch.of, reached, rows, filtered, rejected)

    def _encode(
        self, read: RowsRead, rows: Rows, filtered: Counter[str], rejected: Counter[str]
    ) -> None:
        """Encode and pack some rows, and count those that are no messages."""
        now_ms, misfits = self.tools.clock.now_ms(), misfits_of(rows)
        if rows.aborted:
            filtered[ABORTED] += rows.aborted
        if rows.rows.num_rows:
            found = encode(rows.rows, self.encoding.rules, now_ms=now_ms)
            if found.filtered:
                filtered[WHERE] += found.filtered
            if len(found.messages):
                self._pack(read, found.messages, found.places, self.encoding.targets)
            misfits = [*found.misfits, *misfits]
        if misfits:
            if not self.encoding.rejects:
                raise no_message(read, misfits)
            rejected[NO_MESSAGE] += len(misfits)
            self._reject(read, NO_MESSAGE, misfits, now_ms)

    def _reject(self, read: RowsRead, code: str, misfits: Sequence[Misfit], now_ms: int) -> None:
        self._reasons.update(f"{each.column}: {each.reason}" for each in misfits)
        messages = reject_messages(
            read, code, misfits, transactional_id=self.job.transactional_id, now_ms=now_ms
        )
        rows = np.array([each.row for each in misfits], np.int64)
        self._pack(read, messages, rows, self.encoding.rejects)

    def _pack(
        self,
        read: RowsRead,
        messages: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
        targets: Sequence[TopicPartition],
    ) -> None:
        """Pack messages for the partitions of a topic: each for that of its key.

        Those without one have the next; the epoch of a term differs in each transaction.
        """
        numbered = {at.partition: at for at in targets}
        places = self._places.setdefault(targets[0].topic, [])
        without = (self.job.term.epoch + len(places)) % len(targets)
        keyed = self.tools.packer.partitions_of(messages.column("key"), len(targets))
        partitions = keyed.fill_null(without)
        place = _Place(read, rows, partitions.to_numpy())
        places.append(place)
        self._counts.update(numbered[number] for number in place.partitions.tolist())
        for number, batches in self.tools.packer.pack(messages, partitions).items():
            self._packed.setdefault(numbered[number], []).extend(batches)

    def _not_taken(self, refused: RecordsRefused) -> DecisionNeededError:
        place, row = self._find(refused.at, refused.records[0])
        return DecisionNeededError(
            f"the topic {refused.at.topic} does not take the message of a row:"
            f" {place.read.said_of(row)}: {refused.reason}",
            code="P841",
            hint="let the topic take it, or leave such rows out with  where;  then:"
            "  penstock publish",
        )

    def _find(self, at: TopicPartition, number: int) -> tuple[_Place, int]:
        """Return the place and the row of a partition's record, numbered from 0."""
        for place in self._places[at.topic]:
            own = np.flatnonzero(place.partitions == at.partition)
            if number < len(own):
                return place, int(place.rows[own[number]])
            number -= len(own)
        raise AssertionError("a partition's records are those that were packed for it")
