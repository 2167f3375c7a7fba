"""Transactions of few records: how soon they are seen, how long they are open, and what they cost.

Three parts, on one mirror:

- *bursts*: `records` are sent at once, `bursts` times; a reader of committed records waits for
  them. `visible` is from the last acknowledgement of the source to the last record of the target,
  and holds the time until the publication looks again; `epoch` is from plan to end.
- *back to back*: a backlog in transactions of `records`. Meanwhile the coordinator is asked again
  and again whether a transaction is open: `open_share` is the share of answers that say so.
  Memory is that of the process at a quarter of the way and at its end.
- *kills*: SIGKILL, and a new run at once with records waiting: how long until it has published.

The target is compared with the source at the end: each record once, in its partition's order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks import meter, publish, records
from benchmarks.children import Child
from benchmarks.meter import usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.spec.secrets import ProcessSecrets

PATIENCE_SECONDS = 60.0
ASKED_EVERY_SECONDS = 0.003
WARMING = 3
ID = f"penstock-{publish.NAME}-0"


@dataclass(frozen=True, slots=True)
class Options:
    """How many records a transaction has, and how often each part is done."""

    records: int = 1000
    bursts: int = 60
    back_to_back: int = 300
    kills: int = 5
    partitions: int = 4
    master: str = "inline"

    @property
    def published(self) -> publish.Options:
        """Return what is published."""
        return publish.Options(
            records=self.records,
            transaction_records=self.records,
            partitions=self.partitions,
            master=self.master,
        )


def measure(options: Options, place: Scratch) -> Measured:
    """Do the three parts with one publication, then compare its topics."""
    place.topic(publish.SOURCE, options.partitions)
    place.topic("own", options.partitions)
    with _Stage(options, place).opened() as stage:
        bursts = stage.bursts()
        back_to_back = stage.back_to_back()
        recovery = stage.kills()
    publish.check("own", place, options.published)
    values = {
        "visible_median_ms": median(bursts["visible_ms"]),
        "visible_p99_ms": _p99(bursts["visible_ms"]),
        "burst_epoch_median_ms": median(bursts["epoch_ms"]),
        **back_to_back,
        "recovery_median_seconds": median(recovery),
        "recovery_max_seconds": max(recovery),
    }
    return Measured(values, {**bursts, "recovery": recovery})


@dataclass(slots=True)
class _Stage:
    """A publication, who sends into its source, and who reads its target."""

    options: Options
    place: Scratch
    sent: int = 0
    seen: int = 0
    producer: Any = field(init=False)
    consumer: Any = field(init=False)

    @contextmanager
    def opened(self) -> Iterator[_Stage]:
        """Connect both."""
        from confluent_kafka import Consumer, Producer, TopicPartition

        client = {"bootstrap.servers": self.place.brokers, "log_level": 0}
        self.producer = Producer({**client, "linger.ms": 0})
        reading = {"group.id": "latency", "isolation.level": "read_committed"}
        self.consumer = Consumer({**client, **reading, "fetch.wait.max.ms": 20})
        places = [TopicPartition("own", number, 0) for number in range(self.options.partitions)]
        self.consumer.assign(places)
        try:
            yield self
        finally:
            self.consumer.close()

    def send(self, count: int) -> None:
        """Send records, and wait until all are acknowledged."""
        for number, value in enumerate(records.values(self.sent, self.sent + count), self.sent):
            while True:
                try:
                    self.producer.produce(
                        publish.SOURCE, value, partition=number % self.options.partitions
                    )
                    break
                except BufferError:  # as many as the client holds wait for the broker
                    self.producer.poll(0.1)
            self.producer.poll(0)
        assert not self.producer.flush(PATIENCE_SECONDS)
        self.sent += count

    def wait(self) -> None:
        """Wait until all that was sent is seen."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self.seen < self.sent:
            assert time.monotonic() < until, f"{self.seen} of {self.sent} records are visible"
            self.seen += len(self.consumer.consume(self.sent - self.seen, 0.002))

    def started(self, *, to_the_end: bool = False) -> Child:
        """Start the publication."""
        limits = {"boundary": "poll", "or_records": self.options.records}
        folder = self.place.folder / "p"
        folder.mkdir(exist_ok=True)
        spec = publish.spec(folder, self.place, self.options.published, limits)
        return publish.started(spec, self.place, to_the_end=to_the_end)

    def bursts(self) -> dict[str, list[float]]:
        """Send bursts; return when each was visible, and how long transactions took."""
        child, visible = self.started(), list[float]()
        for _ in range(WARMING + self.options.bursts):
            self.send(self.options.records)
            acknowledged = time.monotonic()
            self.wait()
            visible.append((time.monotonic() - acknowledged) * 1000)
        child.stop()
        epochs = [line["seconds"] * 1000 for line in child.lines() if _is_done(line)]
        return {"visible_ms": visible[WARMING:], "epoch_ms": epochs[WARMING:]}

    def back_to_back(self) -> dict[str, float]:
        """Publish a backlog; return what its transactions took, and how long they were open."""
        self.send(self.options.back_to_back * self.options.records)
        settings = read_settings({"brokers": self.place.brokers}, ProcessSecrets())
        terms, answers = KafkaTerms(settings, timeout_ms=60_000), list[tuple[float, bool]]()

        def ask() -> None:
            found = terms.remembered(ID)
            answers.append((time.monotonic(), found is not None and found.is_open))

        child, done = self.started(to_the_end=True), list[tuple[float, float, float, float]]()
        with meter.sampling(ask, ASKED_EVERY_SECONDS):
            for line in child.lines(PATIENCE_SECONDS):
                if _is_done(line):
                    used = usage_of(child.root)
                    done.append(
                        (time.monotonic(), line["seconds"], used.seconds, used.resident_bytes)
                    )
        terms.close()
        child.ended()
        self.wait()
        first, last, quarter = done[WARMING], done[-1], done[len(done) // 4]
        count, epochs = len(done) - 1 - WARMING, [seconds for _, seconds, *_ in done[WARMING:]]
        is_open = [answer for at, answer in answers if first[0] <= at <= last[0]]
        return {
            "epoch_median_ms": median(epochs) * 1000,
            "epoch_p99_ms": _p99(epochs) * 1000,
            "epoch_cpu_ms": (last[2] - first[2]) / count * 1000,
            "open_share": sum(is_open) / len(is_open),
            "memory_mib": last[3] / meter.MIB,
            "memory_growth_mib": (last[3] - quarter[3]) / meter.MIB,
        }

    def kills(self) -> list[float]:
        """Kill runs; return the seconds until the next one had published."""
        child, found = self.started(), list[float]()
        for _ in range(self.options.kills):
            self.send(self.options.records)
            self.wait()
            self.send(10 * self.options.records)
            child.kill()
            killed = time.monotonic()
            child = self.started()
            next(line for line in child.lines(PATIENCE_SECONDS) if _is_done(line))
            found.append(time.monotonic() - killed)
            self.wait()
        child.stop()
        return found


def _is_done(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "RowsPublished" and line["rows"])


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
