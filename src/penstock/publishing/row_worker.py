"""What a worker does with rows: encode them, pack them by partition, and send all under a term.

Invariants:
- all rows are read, encoded and packed before the first byte is sent: a row that does not fit, and
  has no topic to go to, stops the publication with nothing open;
- threads encode, one reads and sends: what they packed is taken in the order in which it was read,
  whoever was done first;
- of what was read, one piece more is held as rows than there are threads.

Source: docs/design/0304.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.core.accounting import Tally
from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position
from penstock.ports.producers import PackedBatch, RecordsRefused
from penstock.ports.sources import RowReader, Rows, Stretch
from penstock.publishing.messages import Delivered, Encoding, SendJob, SendResult
from penstock.publishing.rejects import NO_MESSAGE, RowsRead, require_few
from penstock.publishing.row_packing import PackedMessages, PackedRows, RowPacking
from penstock.publishing.worker import SendTools, not_sent


@dataclass(slots=True)
class _Reached:
    """How far a stretch was read, and the books of its rows."""

    position: Position
    rows: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class RowWorker:
    """Does one job that encodes; used once."""

    job: SendJob
    encoding: Encoding
    reader: RowReader
    tools: SendTools
    _packed: dict[TopicPartition, list[PackedBatch]] = field(default_factory=dict)
    _counts: Counter[TopicPartition] = field(default_factory=Counter)
    _places: dict[str, list[tuple[RowsRead, PackedMessages]]] = field(default_factory=dict)
    _reasons: Counter[str] = field(default_factory=Counter)

    def work(self) -> SendResult:
        """Read, encode, pack and send.

        Raises DecisionNeededError for a row that is no message (P840), for too many (P860), or for
        one that its topic does not take (P841), what `encode` raises, and what the reader and the
        sender raise.
        """
        reached = {each.of: _Reached(each.start) for each in self.encoding.stretches}
        for each in self._encoded():
            self._take(each, reached[each.read.of])
        delivered = tuple(
            Delivered(of, each.position, each.rows, each.filtered, each.rejected)
            for of, each in reached.items()
        )
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
            return not_sent(self.job, found)
        size = sum(len(each.records) for own in batches.values() for each in own)
        return SendResult(self.job.number, delivered, dict(self._counts), found, size)

    def _encoded(self) -> Iterator[PackedRows]:
        """Yield what was read, encoded and packed, in the order in which it was read."""
        packing = RowPacking(self.encoding, self.tools.packer, self.job.transactional_id)
        turns = itertools.count(self.job.term.epoch)  # each transaction begins with another one
        waiting: deque[Future[PackedRows]] = deque()
        with ThreadPoolExecutor(self.tools.threads) as threads:
            for stretch, rows in self._read():
                pack = partial(packing.pack_poison, stretch)
                if rows is not None:
                    pack = partial(packing.pack, stretch, rows)
                now_ms = self.tools.clock.now_ms()
                waiting.append(threads.submit(pack, turn=next(turns), now_ms=now_ms))
                if len(waiting) > self.tools.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _read(self) -> Iterator[tuple[Stretch, Rows | None]]:
        """Yield rows and their stretch; None for the row of one that is not to be read."""
        deadline = self.tools.clock.monotonic() + self.job.timeout_seconds
        for stretch in self.encoding.stretches:
            if stretch.is_poison:
                yield stretch, None
                continue
            for rows in self.reader.read(stretch, deadline=deadline):
                yield stretch, rows

    def _take(self, packed: PackedRows, into: _Reached) -> None:
        """Put what was packed behind what is there."""
        into.position, into.rows = packed.read.reached, into.rows + packed.read.rows
        into.filtered += packed.filtered
        self._reasons += packed.reasons
        if packed.rejects is not None:
            into.rejected += packed.codes
        for each in (packed.messages, packed.rejects):
            if each is not None:
                self._counts += each.counts()
                for at, batches in each.batches.items():
                    self._packed.setdefault(at, []).extend(batches)
                self._places.setdefault(each.targets[0].topic, []).append((packed.read, each))

    def _not_taken(self, refused: RecordsRefused) -> DecisionNeededError:
        read, row = self._find(refused.at, refused.records[0])
        return DecisionNeededError(
            f"the topic {refused.at.topic} does not take the message of a row:"
            f" {read.said_of(row)}: {refused.reason}",
            code="P841",
            hint="let the topic take it, or leave such rows out with  where;  then:"
            "  penstock publish",
        )

    def _find(self, at: TopicPartition, number: int) -> tuple[RowsRead, int]:
        """Return the row of a partition's record, numbered from 0, and where it was read."""
        for read, messages in self._places[at.topic]:
            own = np.flatnonzero(messages.partitions == at.partition)
            if number < len(own):
                return read, int(messages.rows[own[number]])
            number -= len(own)
        raise AssertionError("a partition's records are those that were packed for it")
