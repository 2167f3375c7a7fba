"""Packed batches are written into a transaction: sequences from 0, one request under way.

Invariants:
- what is sent again is the same bytes under the same sequence number, to the leader as it is listed
  then, for at most `patience_seconds`; then the sender gives up, and says why;
- a partition has one batch in a request, and its next one after that was acknowledged by all
  replicas in sync; it is read and made while the broker writes;
- a topic that was created again is not written: leaders are looked up when sending begins, with the
  ids of their topics;
- nothing is decided here: no transaction is ended, and after an odd answer nothing more is sent.

Source: KIP-98, KIP-219 (throttling), KIP-467 (refused records); docs/design/0281.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.connectors.kafka.native.brokers import Brokers, Leader
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.native.record_batch_writer import finished
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    WRITE_REFUSED,
    named,
    unconnected,
    write_refused,
)
from penstock.connectors.kafka.transactions.batch_limit import batch_bytes_max
from penstock.connectors.kafka.transactions.leaders import PAUSE_SECONDS
from penstock.connectors.kafka.transactions.produce import Place, Produced, answered, ask
from penstock.core.errors import BugError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import (
    NO_ANSWER,
    BatchTooLarge,
    NotSent,
    PackedBatch,
    RecordsRefused,
    Refused,
    Term,
)

SECONDS_MAX = 30.0
REQUEST_BYTES_MAX = 32 << 20
"""Below the `socket.request.max.bytes` that brokers have by default."""
IN_THE_LOG = frozenset({0, 46})
"""It was written, now or by the attempt before."""
MAY_PASS = frozenset({3, 5, 6, 7, 14, 15, 16, 19, 20, 51, 56, 100, 103})
"""It may be in the log: the leader moved or does not know the topic yet, replicas are missing or
slow, the coordinator that the leader asks is busy or moves, storage failed."""
DAMAGED, IMPOSSIBLE_TIME, INVALID_RECORD = 2, 32, 87
OF_RECORDS = frozenset({DAMAGED, IMPOSSIBLE_TIME, INVALID_RECORD})
TOO_LARGE = frozenset({10, 18})


class _Finished(NamedTuple):
    """A whole batch, its checksum and the number of its records."""

    batch: bytes
    checksum: int
    records: int


class _Lane:
    """What is sent to one partition: the batch whose turn it is, and the books of those before."""

    def __init__(self, at: TopicPartition, batches: Iterable[PackedBatch], term: Term) -> None:
        self.at = at
        self._batches, self._term = iter(batches), term
        self._next: _Finished | None = None
        self._made = 0
        self._first = self._last = -1
        self._sent = self._checksums = self._checksum = 0
        self.sequence = self.count = 0
        self.batch, self.until, self.is_damaged = b"", 0.0, False

    def prepare(self) -> None:
        """Make the batch behind the one whose turn it is."""
        if self._next is None and (packed := next(self._batches, None)):
            batch, checksum = finished(packed, self._term, self._made)
            self._next = _Finished(batch, checksum, packed.count)
            self._made += packed.count

    def load(self) -> bool:
        """Make the next batch the one whose turn it is; return whether there is one."""
        self.prepare()
        if self._next is None:
            return False
        self.batch, self._checksum, self.count = self._next
        self._next, self.until, self.is_damaged = None, 0.0, False
        return True

    def begin(self, patience_seconds: float) -> None:
        """Note the time when the batch is first sent."""
        self.until = self.until or time.monotonic() + patience_seconds

    def note(self, offset: int) -> None:
        """Note that the batch stands in the log, from an offset on."""
        self._first = offset if self._first < 0 else self._first
        self._last = offset + self.count - 1
        self.sequence += self.count
        self._checksums += self._checksum
        self._sent += 1

    def books(self) -> Batches:
        """Return what was sent."""
        return Batches(self._first, self._last, self.sequence, self._sent, self._checksums)


class KafkaSender:
    """Implements `ports.producers.Sender`; partitions of one leader share its requests."""

    def __init__(self, settings: KafkaSettings, *, patience_seconds: float = SECONDS_MAX) -> None:
        self._settings = settings
        self._brokers = Brokers(settings)
        self.patience_seconds = patience_seconds

    def send(
        self,
        transactional_id: str,
        term: Term,
        batches: Mapping[TopicPartition, Iterable[PackedBatch]],
    ) -> Mapping[TopicPartition, Batches] | NotSent:
        """Send all batches, and return what stands where."""
        lanes = [_Lane(at, own, term) for at, own in batches.items()]
        lanes = [each for each in lanes if each.load()]
        sending = _Sending(
            transactional_id, self._brokers, self._settings, self.patience_seconds, deque(lanes)
        )
        why = sending.run()
        return {each.at: each.books() for each in lanes} if why is None else why

    def close(self) -> None:
        """Let go of connections."""
        self._brokers.forget()


@dataclass(slots=True)
class _Sending:
    """One call of `send`: the lanes that wait, in the order in which their turn comes."""

    transactional_id: str
    brokers: Brokers
    settings: KafkaSettings
    patience_seconds: float
    waiting: deque[_Lane]

    def run(self) -> NotSent | None:
        """Send what waits until nothing does; return why the sender gives up, if it does."""
        self._look_up(self.waiting)
        why = None
        while self.waiting and why is None:
            why = self._exchange()
        return why

    def _exchange(self) -> NotSent | None:
        """Send one request; lanes with more to send, or the same again, wait behind the others."""
        first = self.waiting.popleft()
        first.begin(self.patience_seconds)
        asked = [first]
        try:
            leader = self._leader(first)
            asked += self._fellows(leader.node, len(first.batch))
            wire = self.brokers.wire(leader.node)
            batches = {self._place(each.at): each.batch for each in asked}
            request = ask(wire, self.transactional_id, batches, self.settings)
            self._prepare(asked, wire)
            produced = answered(wire, request, until=min(each.until for each in asked))
        except FallbackError as failed:
            return self._again(asked, Refused(NO_ANSWER, str(failed)), failed)
        why = self._understood(asked, produced)
        if produced.throttle_seconds:
            time.sleep(produced.throttle_seconds)
        return why

    def _prepare(self, asked: Sequence[_Lane], wire: Wire) -> None:
        """Make the next batches while the broker writes these; it is not its time that it takes."""
        begun = time.monotonic()
        try:
            for each in asked:
                each.prepare()
        except BaseException:  # an answer is still to come
            wire.close()
            raise
        for each in asked:
            each.until += time.monotonic() - begun

    def _fellows(self, node: int, size_bytes: int) -> list[_Lane]:
        """Take the lanes that have the same leader, as far as a request has room for them."""
        found, others = [], deque[_Lane]()
        for lane in self.waiting:
            size_bytes += len(lane.batch)
            if size_bytes <= REQUEST_BYTES_MAX and self._is_led_by(node, lane):
                lane.begin(self.patience_seconds)
                found.append(lane)
            else:
                others.append(lane)
        self.waiting = others
        return found

    def _is_led_by(self, node: int, lane: _Lane) -> bool:
        try:
            return self._leader(lane).node == node
        except FallbackError:  # it is told when it is the lane's turn
            return False

    def _leader(self, lane: _Lane) -> Leader:
        leader = self.brokers.leader(lane.at)
        if not leader.is_of(lane.at):
            raise FallbackError("the topic was created again")
        return leader

    def _place(self, at: TopicPartition) -> Place:
        return Place(at.topic, self.brokers.leader(at).topic_id, at.partition)

    def _understood(self, asked: Sequence[_Lane], produced: Produced) -> NotSent | None:
        """Go through the answers; the first that does not pass is why the sender gives up."""
        again, latest = [], Refused(0, "")
        for lane, part in zip(asked, produced.parts, strict=True):
            error = part.error_code
            if error in IN_THE_LOG and part.base_offset >= 0:
                lane.note(part.base_offset)
                if lane.load():
                    self.waiting.append(lane)
                continue
            if error not in MAY_PASS:
                why = self._refused(lane, part)
                if why is not None:
                    return why
            again.append(lane)
            latest = Refused(error, named(error))
        return self._again(again, latest) if again else None

    def _refused(self, lane: _Lane, part: Any) -> NotSent | None:
        """Return what an error means that does not pass; None: the same bytes once more."""
        error = part.error_code
        reason = f"{lane.at}: {part.error_message or named(error)}"
        if error in WRITE_REFUSED:
            raise write_refused(error, self.transactional_id, lane.at.topic, self.settings)
        if error in OF_RECORDS and part.record_errors:
            numbers = {lane.sequence + each.batch_index for each in part.record_errors}
            return RecordsRefused(lane.at, error, reason, tuple(sorted(numbers)))
        if error in TOO_LARGE and lane.count == 1:
            return RecordsRefused(lane.at, error, reason, (lane.sequence,))
        if error in TOO_LARGE:
            limit = batch_bytes_max(self.brokers, lane.at.topic, refused_bytes=len(lane.batch))
            return BatchTooLarge(lane.at, error, reason, limit)
        if error != DAMAGED:
            return Refused(error, reason)
        if lane.is_damaged:
            raise _damaged(lane)
        lane.is_damaged = True
        return None

    def _again(
        self, lanes: Sequence[_Lane], why: Refused, failed: FallbackError | None = None
    ) -> Refused | None:
        """Let lanes wait to send the same bytes again, unless the time of one is over."""
        for lane in lanes:
            if time.monotonic() + PAUSE_SECONDS > lane.until:
                return self._given_up(lane, why, failed)
        time.sleep(PAUSE_SECONDS)
        self.waiting.extend(lanes)
        self._look_up(lanes)
        return None

    def _given_up(self, lane: _Lane, why: Refused, failed: FallbackError | None) -> Refused:
        """Return why; what a connection fails from for good is for a person, and raised."""
        if failed is not None and failed.lasting:
            explained = unconnected(failed, f"topic {lane.at.topic}", self.settings)
            if not isinstance(explained, UnavailableError):
                raise explained
        return Refused(why.error, f"{lane.at}: {why.reason}")

    def _look_up(self, lanes: Iterable[_Lane]) -> None:
        """Look up leaders anew; those that are not found are looked up when they are needed."""
        for topic in {each.at.topic for each in lanes}:
            with contextlib.suppress(FallbackError):
                self.brokers.look_up(topic)


def _damaged(lane: _Lane) -> BugError:
    last = lane.sequence + lane.count - 1
    return BugError(
        f"{lane.at}: the broker finds records {lane.sequence} to {last} damaged, twice",
        code="P285",
        hint="report it, with what the broker's log says of that time",
    )
