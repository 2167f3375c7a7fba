"""The packer and the sender of the client library: batches are rows until it makes its own.

Invariants:
- messages of a partition are given to the library in their order, and it keeps that;
- one that is refused ends the sending, and its transaction;
- the library knows no message without a time: one without, or of 1970-01-01 00:00, has the time at
  which it is sent.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker
from penstock.connectors.kafka.producers.held import HeldProducer, fatal_errors, held, refusal
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import WRITE_REFUSED, write_refused
from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import (
    NO_ANSWER,
    NotSent,
    PackedBatch,
    RecordsRefused,
    Refused,
    Term,
)

NO_CODEC = 0
SECONDS_MAX = 30.0
POLL_SECONDS = 0.05
TOO_LARGE, INVALID_RECORD, UNKNOWN_TOPIC = 10, 87, 3
INVALID_TIME = 32
REFUSED_RECORDS = frozenset({TOO_LARGE, INVALID_RECORD, INVALID_TIME})
NO_TIME = 0


class MessagePacker:
    """Implements `ports.producers.Packer`: the library packs when it sends."""

    def __init__(self) -> None:
        self._keys = KafkaPacker(codec="none")

    def partitions_of(self, keys: pa.BinaryArray, count: int) -> pa.Int32Array:
        """Hash keys as Java's producers do."""
        return self._keys.partitions_of(keys, count)

    def pack(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Mapping[int, Sequence[PackedBatch]]:
        """Keep rows for their partitions, each in one piece."""
        places = np.asarray(partitions)
        return {
            int(number): [_packed(rows.take(pa.array(np.flatnonzero(places == number))))]
            for number in np.unique(places)
        }


@dataclass(slots=True)
class _Heard:
    """What the library says of the messages of one partition, in their order."""

    at: TopicPartition
    given: int = 0
    batches: int = 0
    known: int = 0
    first: int = -1
    last: int = -1
    refused: tuple[int, KafkaError] | None = None
    together: int = 0

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.refused = self.refused or (self.known, error)
            self.together += 1
        else:
            self.last = message.offset()
            self.first = self.last if self.first < 0 else self.first
        self.known += 1


@dataclass(slots=True)
class ProducerSender:
    """Implements `ports.producers.Sender`, in the process whose producer holds the id."""

    settings: KafkaSettings
    patience_seconds: float = SECONDS_MAX
    _brokers: Brokers = field(init=False)

    def __post_init__(self) -> None:
        self._brokers = Brokers(self.settings)

    def send(
        self,
        transactional_id: str,
        term: Term,
        batches: Mapping[TopicPartition, Iterable[PackedBatch]],
    ) -> Mapping[TopicPartition, Batches] | NotSent:
        """Send all batches, and return what stands where."""
        producer = held(self.settings, transactional_id, term)
        if isinstance(producer, Refused):
            return producer
        if gone := self._gone(batches):
            return gone
        heard = {at: _Heard(at) for at in batches}
        try:
            with fatal_errors():
                all_given = all(
                    self._give(producer, heard[at], packed)
                    for at, own in batches.items()
                    for packed in own
                )
                left = self._flush(producer, heard.values()) if all_given else len(heard)
        except KafkaException as error:
            failed = refusal(error.args[0])
            return self._why(heard.values(), transactional_id) or failed
        if why := self._why(heard.values(), transactional_id):
            return why
        if left:
            return Refused(NO_ANSWER, "messages were not acknowledged in time")
        return {each.at: _books(each) for each in heard.values() if each.given}

    def close(self) -> None:
        """Let go of connections; what is open stays open."""
        self._brokers.forget()

    def _give(self, producer: HeldProducer, heard: _Heard, packed: PackedBatch) -> bool:
        """Give messages to the library, as fast as it takes them; return whether it did in time."""
        producer.begin()
        produce, poll = producer.client.produce, producer.client.poll
        topic, partition = heard.at.topic, heard.at.partition
        until = time.monotonic() + self.patience_seconds
        heard.batches += 1
        for key, value, time_ms, headers in _messages(packed):
            give = partial(
                produce,
                topic,
                value,
                key,
                partition,
                on_delivery=heard,
                timestamp=time_ms,
                headers=headers,
            )
            while not _given(give):
                poll(POLL_SECONDS)
                if time.monotonic() > until:
                    return False
            heard.given += 1
        poll(0)
        return True

    def _flush(self, producer: HeldProducer, heard: Collection[_Heard]) -> int:
        """Wait for all acknowledgements, and return how many messages lack theirs.

        Once one is refused, the library holds the others back until their time is over.
        """
        until = time.monotonic() + self.patience_seconds
        left = 1
        while left:
            left = int(producer.client.flush(POLL_SECONDS))
            if time.monotonic() > until or any(each.refused for each in heard):
                break
        return left

    def _gone(self, places: Iterable[TopicPartition]) -> Refused | None:
        """Say which topic is not the one that was planned: the library writes by name."""
        try:
            for topic in {at.topic for at in places}:
                self._brokers.look_up(topic)
            others = {at.topic for at in places if not self._brokers.leader(at).is_of(at)}
        except FallbackError as error:
            return Refused(NO_ANSWER, str(error))
        if others:
            return Refused(UNKNOWN_TOPIC, f"{', '.join(sorted(others))} was created again")
        return None

    def _why(self, heard: Iterable[_Heard], transactional_id: str) -> NotSent | None:
        """Return what the first refusal means; the others follow from it."""
        for each in heard:
            if each.refused is None:
                continue
            number, error = each.refused
            code, reason = error.code(), f"{each.at}: {error.str()}, error {error.code()}"
            if code in WRITE_REFUSED:
                raise write_refused(code, transactional_id, each.at.topic, self.settings)
            if code in REFUSED_RECORDS:
                if each.together > 1:  # the library does not tell which of a batch it is
                    reason += f", for one of {each.together} records that begin with this one"
                return RecordsRefused(each.at, code, reason, (number,))
            return refusal(error)
        return None


def _given(give: Any) -> bool:
    try:
        give()
    except BufferError:
        return False
    return True


def _books(heard: _Heard) -> Batches:
    return Batches(heard.first, heard.last, heard.given, heard.batches, None)


def _packed(rows: pa.RecordBatch) -> PackedBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    times = rows["timestamp"].cast(pa.int64()).fill_null(NO_TIME).to_numpy()
    return PackedBatch(
        bytes(sink.getvalue()), rows.num_rows, NO_CODEC, int(times[0]), int(times.max())
    )


def _messages(
    packed: PackedBatch,
) -> Iterator[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]]:
    rows = pa.ipc.open_stream(packed.records).read_all()
    times = rows["timestamp"].cast(pa.int64()).fill_null(NO_TIME).to_pylist()
    keys, values = rows["key"].to_pylist(), rows["value"].to_pylist()
    if "headers" not in rows.column_names:
        yield from zip(keys, values, times, [None] * rows.num_rows, strict=True)
        return
    for key, value, time_ms, own in zip(
        keys, values, times, rows["headers"].to_pylist(), strict=True
    ):
        yield key, value, time_ms, [(each["key"], each["value"]) for each in own or ()] or None
