"""A real Kafka broker for tests, and what tests do to it.

Invariants:
- the broker is tuned so that what takes minutes in production takes moments;
- every act returns when its effect can be seen by others, or raises within `WAIT_SECONDS_MAX`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kafka
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.admin import AbortTransactionSpec
from kafka.errors import TransactionCoordinatorFencedError

from penstock.dev.broker import Running, down, up
from penstock.testing.sent import Sent

PROPERTIES: Mapping[str, str] = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "100",
}
WAIT_SECONDS_MAX = 90.0
RECORD_BYTES_MAX = 32 << 20


@contextmanager
def running_broker(
    directory: Path, *, properties: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a broker on a free port; it is stopped, and its process gone, at the end.

    `properties` win over those of `penstock.dev.broker` and of this module.
    """
    wanted = {**PROPERTIES, **(properties or {})}
    try:
        yield up(directory, 0, properties=wanted)
    finally:
        down(directory)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as a condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WAIT_SECONDS_MAX} s: {what}")
        time.sleep(0.01)


class Cluster:
    """Do to a broker what operators and producers do. Not for use by several threads."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._client = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
        self.admin = AdminClient(self._client)
        self._producer: Producer | None = None
        self._idle: list[Producer] = []
        self._numbers = itertools.count()

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; in names of settings `_` means a dot."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, partitions, replication_factor=1, config=settings)
        self.admin.create_topics([new])[topic].result()
        wait_until(lambda: self.partition_count(topic) == partitions, f"{topic} is there")

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to a number."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        wait_until(lambda: self.partition_count(topic) == partitions, f"{topic} has grown")
        self._producer = None  # it would find out in its own time

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: self.partition_count(topic) == 0, f"{topic} is gone")

    def open_transactions(self, topic: str, partitions: Iterable[int]) -> int:
        """Return how many transactions are open on partitions."""
        with self._other_admin() as admin:
            return len(_open(admin, topic, partitions))

    def end_open_transactions(self, topic: str, partitions: Iterable[int]) -> int:
        """Abort what is open on partitions, as kafka-transactions.sh does; return how many."""
        with self._other_admin() as admin:
            found = _open(admin, topic, partitions)
            for each in found:
                with suppress(TransactionCoordinatorFencedError):  # its coordinator just ended it
                    admin.abort_transaction(each)
        return len(found)

    @contextmanager
    def _other_admin(self) -> Iterator[kafka.KafkaAdminClient]:
        """Give a client that knows what librdkafka's does not."""
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            yield admin
        finally:
            admin.close()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention would."""
        for asked in self.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            asked.result()

    def partition_count(self, topic: str) -> int:
        """Count a topic's partitions that have a leader; 0 when there is no such topic."""
        asked = self.admin.describe_topics(TopicCollection([topic]))[topic]
        try:
            return sum(each.leader is not None for each in asked.result().partitions)
        except KafkaException:
            return 0

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        """Send records and wait for their acknowledgement. Raises what the broker refuses."""
        if self._producer is None:
            self._producer = self._new_producer()
        _produce(self._producer, topic, partition, records)

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> Transaction:
        """Send records in a transaction and leave it open."""
        producer = self._idle.pop() if self._idle else self._new_transactional()
        producer.begin_transaction()
        _produce(producer, topic, partition, records)
        return Transaction(producer, self._idle, lambda: self._end(topic, partition))

    def _end(self, topic: str, partition: int) -> int:
        """Ask for the log's end, whatever readers may see of it."""
        at = TopicPartition(topic, partition)
        asked = self.admin.list_offsets({at: OffsetSpec.latest()})
        return int(asked[at].result().offset)

    def _new_producer(self, **settings: Any) -> Producer:
        limits = {"message.max.bytes": RECORD_BYTES_MAX, "linger.ms": 2}
        return Producer({**self._client, **limits, "enable.idempotence": True, **settings})

    def _new_transactional(self) -> Producer:
        name = f"testing-{id(self)}-{next(self._numbers)}"
        producer = self._new_producer(**{"transactional.id": name})
        producer.init_transactions(WAIT_SECONDS_MAX)
        return producer


@dataclass(frozen=True, slots=True)
class Transaction:
    """Records sent and not yet decided upon; each end writes one marker."""

    producer: Producer
    idle: list[Producer]
    end: Callable[[], int]

    def commit(self) -> None:
        """Make the records visible."""
        self._finish(self.producer.commit_transaction)

    def abort(self) -> None:
        """Make the records never to be seen."""
        self._finish(self.producer.abort_transaction)

    def _finish(self, act: Callable[[float], Any]) -> None:
        """End it; the coordinator answers before it has written the marker, so wait for that."""
        before = self.end()
        act(WAIT_SECONDS_MAX)
        wait_until(lambda: self.end() > before, "the transaction's marker is written")
        self.idle.append(self.producer)


def _open(
    admin: kafka.KafkaAdminClient, topic: str, partitions: Iterable[int]
) -> list[AbortTransactionSpec]:
    places = [kafka.TopicPartition(topic, number) for number in partitions]
    return [
        AbortTransactionSpec(at, each.producer_id, each.producer_epoch)
        for at, state in admin.describe_producers(places).items()
        for each in state.active_producers
        if each.current_transaction_start_offset >= 0
    ]


def _produce(producer: Producer, topic: str, partition: int, records: Sequence[Sent]) -> None:
    refused: list[Any] = []
    for each in records:
        producer.produce(
            topic,
            each.value,
            each.key,
            partition=partition,
            timestamp=each.timestamp_ms,
            headers=list(each.headers),
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    left = producer.flush(WAIT_SECONDS_MAX)
    if refused or left:
        raise KafkaException(refused[0] if refused else f"{left} records were not acknowledged")
