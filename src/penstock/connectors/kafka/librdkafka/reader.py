"""Read ranges of partitions on a worker.

Invariants:
- a range ends by position: transaction markers, aborted records and compacted offsets move the
  position without a record;
- no position is ever reset by the client: out of range is an error, reported with the exact range;
- one consumer a reader, made when first needed, in the process that uses it, kept over tasks; it is
  in no group and stores no offsets;
- memory is bounded by the size of a batch and the client's queue, whatever the range;
- per message only its own accessors are called, each mapped over the whole list in C: this is the
  hottest loop of a worker outside the decoder;
- the client cannot return headers with names that are not UTF-8: the list is null.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from penstock.connectors.kafka import errors
from penstock.connectors.kafka.certificates import Renewed
from penstock.connectors.kafka.columns import (
    BATCH_BYTES,
    BATCH_RECORDS,
    HEADERS,
    PLAIN,
    WITH_HEADERS,
    times_of,
)
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.ports.log import Fetched

CONSUME_RECORDS = 10_000
LOOK_UP_SECONDS = 0.25
ANSWER_SECONDS_MAX = 10
NO_EPOCH = -1

CLIENT: dict[str, str | int | bool] = {
    "group.id": "penstock",  # required by the client; never joined, nothing is stored in it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    "fetch.queue.backoff.ms": 5,  # its default, one second, stalls a reader that fills its queue
    "fetch.wait.max.ms": 10,  # how long a fetch at the end keeps the next range waiting
    "fetch.error.backoff.ms": 50,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "max.partition.fetch.bytes": 4 << 20,  # a larger batch still comes, alone
    "receive.message.max.bytes": 1 << 30,
    "topic.metadata.propagation.max.ms": 5_000,
    "max.poll.interval.ms": 86_400_000,
}
# The client asks for the coordinator of the group that it is never going to join.
PASSED_OVER = {"GROUP_AUTHORIZATION_FAILED", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}


@dataclass(slots=True)
class Gathered:
    """Messages gathered for one batch, in order."""

    messages: list[Any] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, messages: Sequence[Any]) -> None:
        """Take messages that follow the ones gathered."""
        self.messages += messages
        self.size_bytes += sum(map(len, messages))

    def full(self) -> bool:
        """Return whether this is enough for one batch."""
        return len(self.messages) >= BATCH_RECORDS or self.size_bytes >= BATCH_BYTES

    def leader_epoch(self, reached: Offset) -> int | None:
        """Return the leader epoch of the message just before a position, or None.

        Between the last message and the position lies what the client does not show: markers, maybe
        of a later leader.
        """
        if not self.messages or self.messages[-1].offset() + 1 != reached:
            return None
        epoch = self.messages[-1].leader_epoch()
        return None if epoch is None or epoch < 0 else epoch

    def batch(self, *, headers: bool) -> pa.RecordBatch:
        """Return what was gathered as one batch."""
        messages = self.messages
        times = chain.from_iterable(map(Message.timestamp, messages))  # a type and a time for each
        columns = [
            pa.array(map(Message.offset, messages), pa.int64(), size=len(messages)),
            times_of(np.fromiter(times, np.int64, count=2 * len(messages))[1::2]),
            pa.array(list(map(Message.key, messages)), pa.binary()),
            pa.array(list(map(Message.value, messages)), pa.binary()),
        ]
        if headers:
            columns.append(pa.array([_headers_of(message) for message in messages], HEADERS))
        return pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS if headers else PLAIN)


class KafkaReader:
    """The RangeReader of a Kafka cluster: one range at a time, in one thread of one process."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._heard = errors.BrokerLog()
        self._consumer = Renewed(settings.client, self._made, InvalidError, Consumer.close)
        self._process = 0
        self._readings = 0

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield a range's committed records; with `leader_epoch` its log is checked (KIP-320)."""
        if not covered.count:
            yield Fetched(Gathered().batch(headers=headers), covered.stop)
            return
        consumer = self._opened()
        self._readings += 1
        mine = self._readings
        self._heard.errors.clear()
        known = NO_EPOCH if leader_epoch is None else leader_epoch
        begin = ClientPartition(at.topic, at.partition, covered.start, leader_epoch=known)
        consumer.assign([begin])
        reading = _Reading(at, covered.stop, deadline, covered.start, time.monotonic())
        try:
            while reading.goes_on():
                before, gathered = reading.position, Gathered()
                while reading.goes_on() and not gathered.full():
                    self._consume(consumer, reading, gathered)
                if reading.position > before:
                    epoch = gathered.leader_epoch(reading.position)
                    yield Fetched(gathered.batch(headers=headers), reading.position, epoch)
                    assert mine == self._readings, "a reader reads one range at a time"
        finally:
            if mine == self._readings:
                consumer.unassign()

    def close(self) -> None:
        """Let go of connections."""
        if self._process == os.getpid():
            self._consumer.close()

    def _opened(self) -> Consumer:
        if self._process not in (0, os.getpid()):
            raise errors.used_after_fork()
        self._process = os.getpid()
        return self._consumer()

    def _made(self) -> Consumer:
        try:
            return Consumer({**CLIENT, **self._settings.properties(), "error_cb": self._heard})
        except KafkaException as error:
            raise errors.refused(error.args[0], self._settings) from error

    def _consume(self, consumer: Consumer, reading: _Reading, gathered: Gathered) -> None:
        """Take the messages that have arrived; wait briefly when there are none."""
        wanted = min(CONSUME_RECORDS, reading.stop - reading.position)
        patience = max(0.0, min(LOOK_UP_SECONDS, reading.deadline - time.monotonic()))
        messages = consumer.consume(wanted, 0) or consumer.consume(1, patience)
        if not messages:
            self._bear_silence(reading)
            return
        reading.heard_at = time.monotonic()
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
        gathered.add(reading.within(messages))
        for message in failed:
            self._suffer(consumer, reading, message)

    def _suffer(self, consumer: Consumer, reading: _Reading, message: Message) -> None:
        """Move to the end of the partition, pass over harmless errors, or raise."""
        error = message.error()
        name = error.name()
        if name == "_PARTITION_EOF":
            reading.move_to(message.offset())
        elif name in errors.OUT_OF_RANGE:
            raise self._out_of_range(consumer, reading, error)
        elif name not in PASSED_OVER:
            raise self._translated(error, reading)

    def _bear_silence(self, reading: _Reading) -> None:
        """Raise when the silence has a reason that will not pass, or has lasted too long."""
        place = f"{reading.at.topic} [{reading.at.partition}]:"  # as the client names it
        reason = self._heard.first(errors.NO_TOPIC | errors.AUTHORIZATION, about=place)
        if reason is None:
            reason = self._heard.reason(time.monotonic() - reading.heard_at)
        if reason is not None:
            raise self._translated(reason, reading)

    def _out_of_range(self, consumer: Consumer, reading: _Reading, error: Any) -> PenstockError:
        """Find out why a position cannot be read: deleted before it, or truncated after it."""
        at, position = reading.at, reading.position
        place = ClientPartition(at.topic, at.partition)
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS_MAX)
        except KafkaException as failed:
            return self._translated(failed.args[0], reading)
        if low > position:
            return errors.overtaken(at, OffsetRange(position, min(Offset(low), reading.stop)))
        if high < position or "truncation" in error.str():
            return errors.truncated(at, position)
        return self._translated(error, reading)

    def _translated(self, error: Any, reading: _Reading) -> PenstockError:
        return errors.translated(error, f"topic {reading.at.topic}", self._settings, self._heard)


@dataclass(slots=True)
class _Reading:
    """The progress of one range."""

    at: TopicPartition
    stop: Offset
    deadline: float
    position: Offset
    heard_at: float

    def goes_on(self) -> bool:
        return self.position < self.stop and time.monotonic() < self.deadline

    def move_to(self, offset: int) -> None:
        self.position = max(self.position, Offset(min(offset, self.stop)))

    def within(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that belong to the range, and move after them."""
        if not messages:
            return messages
        first, last = messages[0], messages[-1]
        assert (first.topic(), first.partition()) == (self.at.topic, self.at.partition), "astray"
        assert first.offset() >= self.position, "backwards"
        self.move_to(last.offset() + 1)
        if last.offset() < self.stop:
            return messages
        return messages[: bisect_left(messages, self.stop, key=Message.offset)]


def _headers_of(message: Any) -> list[tuple[str, bytes | None]] | None:
    try:
        return message.headers() or []
    except (SystemError, UnicodeDecodeError):  # the former is how the client's C code says it
        return None
