"""Read ranges of partitions on a worker, in columns: Kafka's answers are split, not decoded singly.

Invariants:
- whatever is not plain is left to the librdkafka reader from the position that was reached: it
  reads it, or reports what is wrong;
- a range ends by position, as with the other reader, and both pass the same contract suite;
- before a partition is read, and whenever its leader changed, the broker is asked whether its log
  is still the one that was read (KIP-320);
- where brokers fetch by topic id (3.1 and newer), nothing is read here of a topic that was created
  anew under the old name;
- an answer counts only for the very request that this range sent, and only after what was read;
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
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest

from penstock.connectors.kafka.errors import replaced, used_after_fork
from penstock.connectors.kafka.librdkafka.reader import KafkaReader
from penstock.connectors.kafka.native.batch_builder import GatheredBatches
from penstock.connectors.kafka.native.brokers import NO_ID, Brokers, Leader, only
from penstock.connectors.kafka.native.connection import ANSWER_SECONDS_MAX, FallbackError, Wire
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
"""How long brokers may still report a topic's former incarnation."""
REST_SECONDS = 60.0
"""How long librdkafka reads alone after brokers could not be reached, or refused us."""
AGAIN_SECONDS = 0.1
AGAIN_MAX = 2
READ_COMMITTED = 1
CONSUMER = -1
NONE = 0
CONNECTION_LOST = -1
MOVED = {CONNECTION_LOST, 3, 5, 6, 9, 56, 74, 75, 76, 78, 100, 103}
"""Errors after which the leader is looked up again: a lost connection; unknown topic, partition or
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
            gathered = GatheredBatches(headers=headers)
            yield from gathered.taken(covered, covered.stop, epoch=None)
            return
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise used_after_fork()
        self._readings += 1
        mine, given, epoch = self._readings, covered.start, leader_epoch
        reading = _Reading(
            self._brokers, self._settings, at, covered, deadline, self._sizes, given, epoch
        )
        try:
            self._check_rest()
            for fetched in reading.fetches(headers=headers):
                given = fetched.reached
                epoch = fetched.leader_epoch
                yield fetched
                assert mine == self._readings, "a reader reads one range at a time"
        except FallbackError as error:
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

    def _check_rest(self) -> None:
        if time.monotonic() < self._rest_until:
            raise FallbackError("the brokers were out of reach a moment ago")

    def _leave(self, at: TopicPartition, error: FallbackError) -> None:
        """Note why the rest of a range is left to librdkafka; a reason is reported once."""
        self._brokers.forget()
        if error.lasting:
            self._rest_until = time.monotonic() + REST_SECONDS
        reason = str(error)
        if reason not in self.left:
            _log.warning("%s: left to librdkafka: %s", at, reason)
        self.left.append(reason)


@dataclass(slots=True)
class _Reading:
    """One range being read; `position` and `epoch` are those after the newest answer.

    `sizes` are bytes by offset, as they were found before.
    """

    brokers: Brokers
    settings: KafkaSettings
    at: TopicPartition
    covered: OffsetRange
    deadline: float
    sizes: dict[TopicPartition, float]
    position: Offset
    epoch: int | None
    leader: Leader | None = None
    sent: Any = None

    def fetches(self, *, headers: bool) -> Iterator[Fetched]:
        """Yield the records of the range. Raises FallbackError, and InvalidError (P205)."""
        gathered, passed = GatheredBatches(headers=headers), self.epoch
        given, stop = self.position, self.covered.stop
        for fetched, batches, aborted in self._answers():
            before: list[int | None] = [passed]
            for batch in batches:
                before.append(batch.epoch if batch.epoch >= 0 else before[-1])
            passed = before.pop()
            for batch in committed(fetched, batches, aborted):
                if batch.last < given or batch.base >= stop:
                    continue
                epoch, rest = before[batches.index(batch)], OffsetRange(given, stop)
                if gathered.full_with(batch):
                    given = Offset(batch.base)
                    yield from gathered.taken(rest, given, epoch=epoch)
                    rest = OffsetRange(given, stop)
                if not gathered.add(batch, fetched):
                    for each in gathered.unrolled(batch, fetched, rest, epoch):
                        given = each.reached
                        yield each
        if self.position > given:
            rest = OffsetRange(given, stop)
            yield from gathered.taken(rest, self.position, epoch=self.epoch)

    def _answers(self) -> Iterator[tuple[bytes, list[RecordBatch], list[tuple[int, int]]]]:
        """Yield what was fetched, while the next is already on its way."""
        wire, failures, begun = self._connected(), 0, False
        while wire is not None and self._goes_on():
            error, answer = self._exchanged(wire)
            if error is None:
                return
            if error != NONE:
                failures += 1
                if error not in MOVED or failures > AGAIN_MAX:
                    raise FallbackError(f"a fetch failed (error {error})")
                time.sleep(AGAIN_SECONDS)
                wire = self._connected()
                continue
            failures = 0
            fetched = answer.records or b""
            batches = list(headers_of(fetched))
            if fetched and not batches:
                raise FallbackError("an answer without a whole batch")
            if batches:
                if begun and batches[0].base < self.position:
                    raise FallbackError("an answer that lies before what was asked for")
                begun = True
                self._move(batches, len(fetched))
                if self._goes_on():
                    self._ask(wire)
                aborted = answer.aborted_transactions or ()
                yield fetched, batches, [(e.producer_id, e.first_offset) for e in aborted]

    def _goes_on(self) -> bool:
        return self.position < self.covered.stop and time.monotonic() < self.deadline

    def _move(self, batches: list[RecordBatch], size: int) -> None:
        last = batches[-1]
        self.sizes[self.at] = size / max(1, last.last + 1 - batches[0].base)
        reached = min(last.last + 1, self.covered.stop)
        if batches[0].last < self.position or reached <= self.position:
            raise FallbackError("an answer that lies before what was asked for")
        self.position = Offset(reached)
        known = [each.epoch for each in batches if each.base < reached and each.epoch >= 0]
        self.epoch = known[-1] if known else self.epoch

    def _connected(self) -> Wire | None:
        """Connect with the leader, sure that its log is the one we read; None: there is no time."""
        if not self._goes_on():
            return None
        for left in range(AGAIN_MAX, -1, -1):
            try:
                self.leader = self._leader()
                if self.leader is None:
                    return None
                wire = self.brokers.wire(self.leader.node)
                error = self._verified(wire, self.leader)
            except FallbackError as failed:
                if not failed.lost or not left:
                    raise
                error = CONNECTION_LOST
            if error == NONE:
                return wire
            if error not in MOVED:
                break
            time.sleep(AGAIN_SECONDS)
        raise FallbackError("the leader does not report its epochs")

    def _leader(self) -> Leader | None:
        """Find the leader, under the id that was planned; None when there is no time for it."""
        known = self.leader
        until = time.monotonic() + PROPAGATION_SECONDS
        while True:
            found = self.brokers.leader(self.at, known=known)
            if found.is_of(self.at):
                return found
            now = time.monotonic()
            if now > until:
                raise replaced(self.at, self.settings)
            if now > self.deadline:  # which topic it is will be known another time
                return None
            time.sleep(AGAIN_SECONDS)

    def _verified(self, wire: Wire, leader: Leader) -> int:
        """Ask whether the log still holds what was read (KIP-320); return the broker's error."""
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
        ended = only(answer.topics, self.at, leader.topic_id)
        held = ended.leader_epoch == self.epoch and self.position <= ended.end_offset
        if ended.error_code == NONE and not held:
            raise FallbackError("the log may have been cut")
        return int(ended.error_code)

    def _exchanged(self, wire: Wire) -> tuple[int | None, Any]:
        """Ask, unless it was done before; return an error, and the partition's answer.

        No error when the time was up. A connection may have been closed since it was last used.
        """
        try:
            if wire.pending is None:
                self._ask(wire)
            self._check_sent(wire)
            now = time.monotonic()
            until = min(now + ANSWER_SECONDS_MAX, max(now, self.deadline) + GRACE_SECONDS)
            answer = wire.answer(until)
        except FallbackError as failed:
            if time.monotonic() >= self.deadline:
                return None, None
            if not failed.lost:
                raise
            return CONNECTION_LOST, None
        if answer.error_code != NONE:
            return answer.error_code, None
        assert self.leader is not None, "connected before"
        of_partition = only(answer.responses, self.at, self.leader.topic_id)
        return of_partition.error_code, of_partition

    def _check_sent(self, wire: Wire) -> None:
        if wire.pending is not self.sent:
            raise FallbackError("the connection was used for another range")

    def _ask(self, wire: Wire) -> None:
        """Send a fetch from the position on, of about what is left of the range."""
        leader = self.leader
        assert leader is not None, "connected before"
        by_offset = self.sizes.get(self.at, FETCH_BYTES)
        size = (self.covered.stop - self.position) * by_offset * FETCH_SPARE
        seconds = max(0.0, min(WAIT_SECONDS, self.deadline - time.monotonic()))
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self.at.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position,
            partition_max_bytes=int(min(max(size, FETCH_BYTES_MIN), FETCH_BYTES)),
        )
        topic = FetchRequest.FetchTopic(
            topic=self.at.topic, topic_id=leader.topic_id, partitions=[partition]
        )
        request = FetchRequest(  # of a consumer, without a session, as the defaults are
            max_wait_ms=int(seconds * 1000),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[topic],
        )
        by_name = leader.topic_id == NO_ID
        wanted = FETCH_VERSION_BY_NAME if by_name else FETCH_VERSION_BY_ID
        wire.send(request, wire.version(request, wanted))
        self.sent = request
