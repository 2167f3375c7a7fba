"""The ledger of a publication: a compacted topic, in the format of Connect's offsets.

Invariants:
- it is compacted and nothing else: retention would delete positions (Connect's own rule);
- it is read up to the high watermark of all partitions, listed when the reading begins;
- a key is in one partition, by the hash that Java's producers use, as Connect writes it;
- what is written again is the same bytes under the same sequence number, to the same incarnation.

Source: KIP-618; `org.apache.kafka.connect.storage.KafkaOffsetBackingStore`; docs/design/0274.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType
from kafka.partitioner.default import murmur2
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from penstock.connectors.kafka.errors import NO_TOPIC
from penstock.connectors.kafka.log import ANSWER_SECONDS_MAX, GONE_SECONDS_MIN, KafkaLog
from penstock.connectors.kafka.native.brokers import NO_ID, Brokers, Leader, only
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.native.record_batches import RecordBatch, headers_of
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    ID_REFUSED,
    TOPIC_REFUSED,
    named,
    not_answered,
    refused,
    require_version,
    unconnected,
)
from penstock.connectors.kafka.transactions.decided import Written, decide, read
from penstock.connectors.kafka.transactions.leaders import MOVED, PAUSE_SECONDS, Asked, Leaders
from penstock.connectors.kafka.transactions.list_offsets import (
    COMMITTED,
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    offset_of,
)
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import NO_ANSWER, Entry, Look, Refused, Term

POLICY = "cleanup.policy"
COMPACT = "compact"
SEGMENT_BYTES = str(16 << 20)
"""The newest segment is never compacted, and all of it is read at each look."""
FETCH_VERSION, FETCH_VERSION_BY_NAME = 13, 12
PRODUCE_VERSION = 12
FETCH_BYTES = 4 << 20
WAIT_MS = 100
ACKNOWLEDGE_MS = 30_000
BATCH_BYTES_MAX = 900_000
"""Below the `max.message.bytes` that brokers have by default."""
ALL_REPLICAS, MAGIC, NO_CODEC = -1, 2, 0
IN_THE_LOG = frozenset({0, 46})
"""It was written, now or by the attempt before."""


class OffsetsTopic:
    """Implements `ports.producers.Ledger` over a topic of a real cluster."""

    def __init__(self, settings: KafkaSettings, topic: str, *, now_ms: Any) -> None:
        self._settings, self._topic, self._now_ms = settings, topic, now_ms
        self._brokers = Brokers(settings)
        self._leaders = Leaders(self._brokers, settings)
        self._places: list[TopicPartition] = []

    def prepare(self) -> None:
        """Create the topic if it is missing, and check its policy. Raises InvalidError (P800)."""
        log = KafkaLog(self._settings)
        new = NewTopic(self._topic, 1, config={POLICY: COMPACT, "segment.bytes": SEGMENT_BYTES})
        created = log.admin().create_topics([new], request_timeout=ANSWER_SECONDS_MAX)
        log.answer(created[self._topic], f"topic {self._topic}", accepted={"TOPIC_ALREADY_EXISTS"})
        policy = str(self._settings_of_topic(log)[POLICY].value)
        if policy != COMPACT:
            raise InvalidError(
                f"the offsets topic {self._topic} has  {POLICY}={policy}:  retention would delete"
                " positions",
                code="P800",
                hint=f"kafka-configs --alter --entity-type topics --entity-name '{self._topic}'"
                f" --add-config {POLICY}={COMPACT}",
            )

    def look(self) -> Look:
        """Read all partitions up to the high watermarks of now."""
        entries: dict[bytes, bytes] = {}
        undecided: frozenset[bytes] = frozenset()
        for at in self._partitions():
            try:
                # Before the high watermark is listed: what it says may be old.
                stable = offset_of(self._leaders, at, LATEST, COMMITTED)
                found = decide(self._read(at), stable)
            except FallbackError as error:
                raise not_answered(f"topic {self._topic}", str(error)) from error
            entries |= found.entries
            undecided |= found.undecided
        return Look(entries, undecided)

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Write entries, in batches of at most BATCH_BYTES_MAX, partition after partition."""
        partitions = self._partitions()
        try:
            self._brokers.look_up(self._topic)  # requests name the topic, of whichever incarnation
        except FallbackError as failure:
            return Refused(NO_ANSWER, str(failure))
        of_partition: dict[int, list[Entry]] = {}
        for key, value in entries:
            number = (murmur2(key) & 0x7FFFFFFF) % len(partitions)
            of_partition.setdefault(number, []).append((key, value))
        for number, own in sorted(of_partition.items()):
            for batch in _batches(own, term, self._now_ms()):
                try:
                    error = self._produced(transactional_id, partitions[number], batch)
                except UnavailableError as failed:
                    return Refused(NO_ANSWER, failed.message)
                if error == ID_REFUSED:
                    raise refused(error, f"transactional id {transactional_id}", self._settings)
                if error == TOPIC_REFUSED:
                    raise _write_refused(self._topic, self._settings)
                if error not in IN_THE_LOG:
                    return Refused(error, named(error))
        return None

    def close(self) -> None:
        """Let go of connections."""
        self._brokers.forget()

    def _settings_of_topic(self, log: KafkaLog) -> Any:
        """Return the topic's settings; brokers learn of a new topic one after the other."""
        wanted = ConfigResource(ResourceType.TOPIC, self._topic)
        until = time.monotonic() + GONE_SECONDS_MIN
        while True:
            asked = log.admin().describe_configs([wanted], request_timeout=ANSWER_SECONDS_MAX)
            accepted = NO_TOPIC if time.monotonic() < until else ()
            found = log.answer(asked[wanted], f"topic {self._topic}", accepted=accepted)
            if found is not None:
                return found
            time.sleep(PAUSE_SECONDS)

    def _partitions(self) -> list[TopicPartition]:
        if self._places:
            return self._places
        until = time.monotonic() + GONE_SECONDS_MIN
        while True:
            try:
                (found,) = self._brokers.listed([self._topic])
            except FallbackError as error:
                raise unconnected(error, f"topic {self._topic}", self._settings) from error
            if found.error_code not in MOVED or time.monotonic() > until:
                break
            time.sleep(PAUSE_SECONDS)
        if found.error_code:
            raise refused(found.error_code, f"topic {self._topic}", self._settings)
        if found.topic_id in (None, NO_ID):
            identity = f"name:{self._topic}"
        else:
            identity = base64.urlsafe_b64encode(found.topic_id.bytes).decode().rstrip("=")
        numbers = sorted(each.partition_index for each in found.partitions)
        self._places = [TopicPartition(identity, number, self._topic) for number in numbers]
        return self._places

    def _read(self, at: TopicPartition) -> Iterator[Written]:
        position = offset_of(self._leaders, at, EARLIEST, UNCOMMITTED)
        stop = offset_of(self._leaders, at, LATEST, UNCOMMITTED)
        until = time.monotonic() + self._leaders.patience_seconds
        while position < stop:
            fetched = self._fetched(at, position)
            batches: list[RecordBatch] = list(headers_of(fetched))
            if batches:
                position = batches[-1].last + 1
                until = time.monotonic() + self._leaders.patience_seconds
                yield from read([each for each in batches if each.base < stop], fetched)
            elif time.monotonic() > until:
                raise not_answered(f"topic {at.topic}", f"nothing came at offset {position}")

    def _fetched(self, at: TopicPartition, position: int) -> bytes:
        def make(leader: Leader, wire: Wire) -> Asked:
            partition = FetchRequest.FetchTopic.FetchPartition(
                partition=at.partition,
                current_leader_epoch=leader.epoch,
                fetch_offset=position,
                partition_max_bytes=FETCH_BYTES,
            )
            topic = FetchRequest.FetchTopic(
                topic=at.topic, topic_id=leader.topic_id, partitions=[partition]
            )
            request = FetchRequest(
                max_wait_ms=WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=UNCOMMITTED,
                topics=[topic],
            )
            by_name = leader.topic_id == NO_ID
            wanted = FETCH_VERSION_BY_NAME if by_name else FETCH_VERSION
            return request, wire.version(request, wanted)

        part = self._leaders.ask(
            at, make, lambda answer, leader: _part_of_fetch(answer, at, leader)
        )
        if part.error_code:
            raise refused(part.error_code, f"topic {at.topic}", self._settings)
        return bytes(part.records or b"")

    def _produced(self, transactional_id: str, at: TopicPartition, batch: bytes) -> int:
        def make(_: Leader, wire: Wire) -> Asked:
            topic = ProduceRequest.TopicProduceData
            partition = topic.PartitionProduceData(index=at.partition, records=batch)
            request = ProduceRequest(
                transactional_id=transactional_id,
                acks=ALL_REPLICAS,
                timeout_ms=ACKNOWLEDGE_MS,
                topic_data=[topic(name=at.topic, partition_data=[partition])],
            )
            return request, require_version(wire, request, PRODUCE_VERSION, self._settings)

        part = self._leaders.ask(
            at, make, lambda answer, _: answer.responses[0].partition_responses[0]
        )
        return int(part.error_code)


def _part_of_fetch(answer: Any, at: TopicPartition, leader: Leader) -> Any:
    """Return the partition's part, or the answer itself, where all of it is an error."""
    return answer if answer.error_code else only(answer.responses, at, leader.topic_id)


def _batches(entries: Sequence[Entry], term: Term, now_ms: int) -> Iterator[bytes]:
    """Yield the record batches of one partition, with sequence numbers from 0."""
    sequence = 0
    while sequence < len(entries):
        builder = MemoryRecordsBuilder(MAGIC, NO_CODEC, BATCH_BYTES_MAX)
        builder.set_producer_state(term.producer_id, term.epoch, sequence, True)
        begun = sequence
        for key, value in entries[begun:]:
            if builder.append(now_ms, key, value) is None:
                break
            sequence += 1
        assert sequence > begun, "an entry is never larger than a batch"
        builder.close()
        yield bytes(builder.buffer())


def _write_refused(topic: str, settings: KafkaSettings) -> InvalidError:
    return InvalidError(
        f"user {settings.user} may not write topic {topic}",
        code="P281",
        hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
        f" --operation Read --operation Write --operation Describe --topic '{topic}'",
    )
