"""Read ranges of partitions on a worker, in columns: Kafka's answers are split, not taken apart.

What is plain is read here. Whatever is not (an older message format, an error of a broker, a log
that was cut, brokers that do not answer, settings that only librdkafka knows) is left to the
librdkafka reader from the position that was reached: it reads it, or tells what is wrong.

Invariants:
- a range ends by position, as with the other reader, and both pass the same contract suite;
- before a partition is read, and whenever its leader changed, the broker is asked whether its log
  is still the one that was read (KIP-320);
- where brokers fetch by topic id (3.1 and newer), nothing is read here of a topic that was created
  anew under the old name;
- an answer counts only for the very request that this range sent, and only behind what was read;
- memory is bounded by one answer of a broker, at most `FETCH_BYTES` or one batch of the log as it
  is compressed, and by one gathered batch.

Source: KIP-74, KIP-98, KIP-320, KIP-516; docs/design/0120.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest

from penstock.connectors.kafka.errors import replaced, used_after_fork
from penstock.connectors.kafka.librdkafka.reader import KafkaReader
from penstock.connectors.kafka.native.batch_builder import GatheredBatches
from penstock.connectors.kafka.native.brokers import NO_ID, Brokers, Leader, only, topic_id_of
from penstock.connectors.kafka.native.connection import ANSWER_SECONDS_MAX, UnfitError, Wire
from penstock.connectors.kafka.native.record_batches import RecordBatch, committed, headers_of
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.ports.log import Fetched

FETCH_VERSION_BY_ID, FETCH_VERSION_BY_NAME = 13, 12
EPOCH_VERSION = 4
FETCH_BYTES = 4 << 20
FETCH_BYTES_MIN = 64 << 10
FETCH_SPARE = 1.2
"""More than what is left of a range is asked for, so that one answer is enough for it."""
WAIT_SECONDS = 0.25
GRACE_SECONDS = 0.25
"""An answer that is due at the deadline may still come, so that the connection can be kept."""
PROPAGATION_SECONDS = 5.0
"""How long brokers may still tell of a topic's former life."""
REST_SECONDS = 60.0
"""How long librdkafka reads alone after brokers could not be reached, or refused us."""
AGAIN_SECONDS = 0.1
AGAIN_MAX = 2
READ_COMMITTED = 1
CONSUMER = -1
NONE = 0
CONNECTION_LOST = -1
MOVED = {CONNECTION_LOST, 3, 5, 6, 9, 56, 74, 75, 76, 78, 100, 103}
"""Errors after which the leader is looked up anew: a lost connection; unknown topic, partition or
id; not the leader; no replica; storage; epochs fenced or unknown; offsets not available yet."""
LEFT_MAX = 100

_log = logging.getLogger(__name__)


class ColumnarReader:
    """The RangeReader of a Kafka cluster: one range at a time, in one thread of one process.

    `left` holds the newest reasons for which ranges were left to librdkafka.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.left: deque[str] = deque(maxlen=LEFT_MAX)
        self._settings = settings
        self._brokers = Brokers(settings)
        self._other = KafkaReader(settings)
        self._sizes: dict[TopicPartition, float] = {}
        self._process: int | None = None
        self._readings = 0
        self._rest_until = 0.0

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield a range's committed records. Raises InvalidError (P205): another topic."""
        if not covered.count:
            yield from GatheredBatches().taken(covered, covered.stop, epoch=None, headers=headers)
            return
        self._check_process()
        self._readings += 1
        mine, given, epoch = self._readings, covered.start, leader_epoch
        try:
            self._check_rest()
            reading = _Reading(self._brokers, self._settings, at, covered, deadline, epoch)
            for fetched in reading.fetches(self._sizes, headers=headers):
                given = fetched.reached
                epoch = fetched.leader_epoch
                yield fetched
                assert mine == self._readings, "a reader reads one range at a time"
        except UnfitError as error:
            self._leave(at, error)
        else:
            return
        rest = OffsetRange(given, covered.stop)
        yield from self._other.read(
            at, rest, deadline=deadline, headers=headers, leader_epoch=epoch
        )

    def close(self) -> None:
        """Let go of connections."""
        if self._process == os.getpid():
            self._brokers.forget()
        self._other.close()

    def _check_process(self) -> None:
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise used_after_fork()

    def _check_rest(self) -> None:
        if time.monotonic() < self._rest_until:
            raise UnfitError("the brokers were out of reach a moment ago")

    def _leave(self, at: TopicPartition, error: UnfitError) -> None:
        """Note why the rest of a range is left to librdkafka; a reason is told once."""
        self._brokers.forget()
        if error.lasting:
            self._rest_until = time.monotonic() + REST_SECONDS
        reason = str(error)
        if reason not in self.left:
            _log.warning("%s: left to librdkafka: %s", at, reason)
        self.left.append(reason)


@dataclass(slots=True)
class _Reading:
    """One range being read; `position` and `epoch` are those behind the newest answer."""

    brokers: Brokers
    settings: KafkaSettings
    at: TopicPartition
    covered: OffsetRange
    deadline: float
    epoch: int | None
    position: Offset = field(init=False)
    leader: Leader | None = None
    sent: Any = None

    def __post_init__(self) -> None:
        self.position = self.covered.start

    def fetches(self, sizes: dict[TopicPartition, float], *, headers: bool) -> Iterator[Fetched]:
        """Yield the records of the range. Raises UnfitError, and InvalidError (P205).

        `sizes` are bytes by offset, as they were found before.
        """
        gathered, given, stop = GatheredBatches(), self.position, self.covered.stop
        passed = self.epoch
        for fetched, batches, aborted in self._answers(sizes):
            before = _epochs_before(batches, passed)
            passed = before.pop()
            for batch in committed(fetched, batches, aborted):
                if batch.last < given or batch.base >= stop:
                    continue
                epoch, rest = before[batches.index(batch)], OffsetRange(given, stop)
                if gathered.full_with(batch):
                    given = Offset(batch.base)
                    yield from gathered.taken(rest, given, epoch=epoch, headers=headers)
                    rest = OffsetRange(given, stop)
                if not gathered.add(batch, fetched):
                    for each in gathered.unrolled(batch, fetched, rest, epoch, headers=headers):
                        given = each.reached
                        yield each
        if self.position > given:
            rest = OffsetRange(given, stop)
            yield from gathered.taken(rest, self.position, epoch=self.epoch, headers=headers)

    def _answers(
        self, sizes: dict[TopicPartition, float]
    ) -> Iterator[tuple[bytes, list[RecordBatch], list[tuple[int, int]]]]:
        """Yield what was fetched, while the next is already on its way."""
        wire, failures = self._connected_in_time(), 0
        begun = False
        while wire is not None and self._goes_on():
            told = self._exchanged(wire, sizes)
            if told is None:
                return
            if told.error_code != NONE:
                failures += 1
                if told.error_code not in MOVED or failures > AGAIN_MAX:
                    raise UnfitError(f"a fetch failed (error {told.error_code})")
                time.sleep(AGAIN_SECONDS)
                wire = self._connected_in_time()
                continue
            failures = 0
            fetched = told.records or b""
            batches = list(headers_of(fetched))
            if fetched and not batches:
                raise UnfitError("an answer without a whole batch")
            if batches:
                if begun and batches[0].base < self.position:
                    raise UnfitError("an answer that lies before what was asked for")
                begun = True
                self._move(batches, len(fetched), sizes)
                if self._goes_on():
                    self._ask(wire, sizes)
                aborted = told.aborted_transactions or ()
                yield fetched, batches, [(e.producer_id, e.first_offset) for e in aborted]

    def _goes_on(self) -> bool:
        """Return whether there is more of the range, and time for it."""
        return self.position < self.covered.stop and time.monotonic() < self.deadline

    def _move(
        self, batches: list[RecordBatch], size: int, sizes: dict[TopicPartition, float]
    ) -> None:
        last = batches[-1]
        sizes[self.at] = size / max(1, last.last + 1 - batches[0].base)
        behind = min(last.last + 1, self.covered.stop)
        if batches[0].last < self.position or behind <= self.position:
            raise UnfitError("an answer that lies before what was asked for")
        self.position = Offset(behind)
        known = [each.epoch for each in batches if each.base < behind and each.epoch >= 0]
        self.epoch = known[-1] if known else self.epoch

    def _connected_in_time(self) -> Wire | None:
        """Return the leader's connection, or None when there is no more to read, or no time."""
        try:
            return self._connected() if self._goes_on() else None
        except _LateError:
            return None

    def _connected(self) -> Wire:
        """Return a connection with the leader, once it is sure that its log is the one we read."""
        for left in range(AGAIN_MAX, -1, -1):
            try:
                self.leader = self._leader()
                wire = self.brokers.wire(self.leader.node)
                error = self._verified(wire, self.leader)
            except UnfitError as failed:
                if not failed.lost or not left:
                    raise
                error = CONNECTION_LOST
            else:
                if error == NONE:
                    return wire
            if error not in MOVED:
                break
            time.sleep(AGAIN_SECONDS)
        raise UnfitError("the leader does not report its epochs")

    def _leader(self) -> Leader:
        """Find the leader, under the id that was planned."""
        wanted, known = topic_id_of(self.at), self.leader
        until = time.monotonic() + PROPAGATION_SECONDS
        while True:
            found = self.brokers.leader(self.at, known=known)
            if wanted is None or found.topic_id in (wanted, NO_ID):
                return found
            now = time.monotonic()
            if now > until:
                raise replaced(self.at, self.settings)
            if now > self.deadline:  # which topic it is will be known another time
                raise _LateError
            time.sleep(AGAIN_SECONDS)

    def _verified(self, wire: Wire, leader: Leader) -> int:
        """Ask whether the log still holds what was read (KIP-320); give the broker's error."""
        if self.epoch is None:
            return NONE
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partition = topic.OffsetForLeaderPartition(
            partition=self.at.partition,
            current_leader_epoch=leader.epoch,
            leader_epoch=self.epoch,
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER, topics=[topic(topic=self.at.topic, partitions=[partition])]
        )
        answer = wire.ask(request, wire.version(request, EPOCH_VERSION))
        told = only(answer.topics, self.at, leader.topic_id)
        held = told.leader_epoch == self.epoch and self.position <= told.end_offset
        if told.error_code == NONE and not held:
            raise UnfitError("the log may have been cut")
        return int(told.error_code)

    def _exchanged(self, wire: Wire, sizes: dict[TopicPartition, float]) -> Any | None:
        """Ask, unless it was done before, and give what the broker tells of the partition.

        None when the time was up. A connection may have been closed since it was last used.
        """
        try:
            if wire.pending is None:
                self._ask(wire, sizes)
            self._check_sent(wire)
            now = time.monotonic()
            until = min(now + ANSWER_SECONDS_MAX, max(now, self.deadline) + GRACE_SECONDS)
            answer = wire.answer(until)
        except UnfitError as failed:
            if time.monotonic() >= self.deadline:
                return None
            if not failed.lost:
                raise
            return _Lost()
        if answer.error_code != NONE:
            return answer
        assert self.leader is not None, "connected before"
        return only(answer.responses, self.at, self.leader.topic_id)

    def _check_sent(self, wire: Wire) -> None:
        if wire.pending is not self.sent:
            raise UnfitError("the connection was used for another range")

    def _ask(self, wire: Wire, sizes: dict[TopicPartition, float]) -> None:
        """Send a fetch from the position on, of about what is left of the range."""
        leader = self.leader
        assert leader is not None, "connected before"
        size = (self.covered.stop - self.position) * sizes.get(self.at, FETCH_BYTES) * FETCH_SPARE
        seconds = max(0.0, min(WAIT_SECONDS, self.deadline - time.monotonic()))
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self.at.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=int(min(max(size, FETCH_BYTES_MIN), FETCH_BYTES)),
        )
        topic = FetchRequest.FetchTopic(
            topic=self.at.topic, topic_id=leader.topic_id, partitions=[partition]
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=int(seconds * 1000),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[topic],
            forgotten_topics_data=[],
            rack_id="",
        )
        by_name = leader.topic_id == NO_ID
        wanted = FETCH_VERSION_BY_NAME if by_name else FETCH_VERSION_BY_ID
        wire.send(request, wire.version(request, wanted))
        self.sent = request


def _epochs_before(batches: list[RecordBatch], passed: int | None) -> list[int | None]:
    """Return the epoch of the log before each batch, and behind the last; -1 is unknown."""
    known = [passed]
    for batch in batches:
        known.append(batch.epoch if batch.epoch >= 0 else known[-1])
    return known


class _LateError(Exception):
    """The time was up before it was known whether the topic is the one that was planned."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """Stands for the answer of a connection that was lost."""

    error_code: int = CONNECTION_LOST
