"""Topics full of records, and a producer that keeps a steady rate.

Invariants: record i goes to partition i modulo their number, in order; a topic is handed over only
when its partitions hold exactly what was sent.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

from benchmarks import records

PATIENCE_SECONDS = 60
STEP_SECONDS = 0.002
CLIENT: dict[str, Any] = {
    "acks": "all",
    "batch.size": 256 << 10,
    "compression.type": "lz4",
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    "log_level": 0,
    "queue.buffering.max.messages": 400_000,
}


def create(brokers: str, topic: str, partitions: int) -> None:
    """Create a topic."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_SECONDS)


def fill(brokers: str, topic: str, partitions: int, count: int, *, first: int = 0) -> float:
    """Send records `first` to `first + count`; give their mean size in bytes."""
    return send(brokers, topic, partitions, records.values(first, first + count), first=first)


def send(
    brokers: str, topic: str, partitions: int, values: Iterable[bytes | None], *, first: int = 0
) -> float:
    """Send values as records from `first` on; give their mean size in bytes."""
    sent = _Sending(brokers, topic, partitions, linger_ms=20)
    count = sent.send(values, first)
    sent.finish()
    held = sum(ends(brokers, topic, partitions))
    assert held >= first + count, f"{topic} holds {held} records, {first + count} were sent"
    return sent.size_bytes / max(count, 1)


def ends(brokers: str, topic: str, partitions: int) -> list[int]:
    """Return the end offset of each partition."""
    with ends_of(brokers, topic, partitions) as asked:
        return asked()


@contextmanager
def ends_of(brokers: str, topic: str, partitions: int) -> Iterator[Callable[[], list[int]]]:
    """Give what asks for the end offset of each partition, that of open transactions left out."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "ends", "log_level": 0})
    asked = [TopicPartition(topic, number) for number in range(partitions)]
    try:
        consumer.list_topics(topic, PATIENCE_SECONDS)
        yield lambda: [consumer.get_watermark_offsets(each, PATIENCE_SECONDS)[1] for each in asked]
    finally:
        consumer.close()


def committed(brokers: str, topic: str, partitions: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield partition, key and value of each committed record, in the order of its partition."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {
        "bootstrap.servers": brokers,
        "group.id": "committed",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer, left = Consumer(settings), partitions
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while left:
            assert time.monotonic() < deadline, f"{topic} was silent before its end"
            for each in consumer.consume(10_000, 0.2):  # waits for so many, or so long
                deadline = time.monotonic() + PATIENCE_SECONDS
                if (error := each.error()) is None:
                    yield each.partition(), each.key(), each.value()
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001 its name
                    left -= 1
    finally:
        consumer.close()


def abort(brokers: str, topic: str, partitions: int, times: int) -> None:
    """Send one record to each partition in a transaction and abort it, so many times."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "transactional.id": "bench", "log_level": 0})
    producer.init_transactions(PATIENCE_SECONDS)
    for _ in range(times):
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(topic, b"{}", partition=partition)
        producer.flush(PATIENCE_SECONDS)
        producer.abort_transaction(PATIENCE_SECONDS)


def steady(order: Mapping[str, Any], stop: Event) -> int:
    """Send `rate` records a second for `seconds`; they bear the time of their making.

    With `keyed_rows` they update so many keys.
    """
    brokers, topic, partitions = order["brokers"], order["topic"], order["partitions"]
    rate, seconds, rows = order["rate"], order["seconds"], order.get("keyed_rows", 0)
    sending = _Sending(brokers, topic, partitions, linger_ms=5)
    records.pool()
    began, total, sent = time.monotonic(), int(rate * seconds), 0
    first = sum(ends(brokers, topic, partitions))
    while sent < total and not stop.wait(STEP_SECONDS):
        due = min(total, int((time.monotonic() - began) * rate))
        if due > sent:
            begin, stop_at = first + sent, first + due
            made = (
                records.updates(begin, stop_at, rows, partitions)
                if rows
                else records.values(begin, stop_at)
            )
            sending.send(made, begin)
            sent = due
    sending.finish()
    return sent


class _Sending:
    def __init__(self, brokers: str, topic: str, partitions: int, *, linger_ms: int) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({**CLIENT, "bootstrap.servers": brokers, "linger.ms": linger_ms})
        self._topic, self._partitions = topic, partitions
        self._failed: list[str] = []
        self.size_bytes = 0

    def send(self, values: Iterable[bytes | None], first: int) -> int:
        """Hand over values, waiting where the client's queue is full; give their number."""
        number = first - 1
        for number, value in enumerate(values, start=first):
            self.size_bytes += len(value or b"")
            while not self._taken(value, number % self._partitions):
                self._producer.poll(0.05)
        self._producer.poll(0)
        return number + 1 - first

    def finish(self) -> None:
        """Wait until all are delivered."""
        left = self._producer.flush(PATIENCE_SECONDS)
        assert not left, f"{left} records were not delivered"
        assert not self._failed, f"records were not delivered: {self._failed[0]}"

    def _taken(self, value: bytes | None, partition: int) -> bool:
        try:
            self._producer.produce(
                self._topic, value, partition=partition, on_delivery=self._delivered
            )
        except BufferError:
            return False
        return True

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(str(error))


def main(order: dict[str, Any]) -> None:
    """Be a producer in a process of its own: `steady` as ordered, to the end or to SIGTERM."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print(json.dumps({"event": "Ready"}), flush=True)
    print(json.dumps({"event": "Sent", "records": steady(order, stop)}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
