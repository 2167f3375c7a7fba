"""Producers of a storm: plain, transactional, aborting, slow to decide; good records and bad ones.

Invariant: what was acknowledged or not is nobody's business here: Kafka is asked what it has.
"""

from __future__ import annotations

import itertools
import json
import math
import random  # noqa: TID251  from the seed of the storm
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from tests.crash.field import BAD
from tests.processes.broker import Cluster, Transaction
from tests.storm.stage import KEY, TOPIC, Stage

from penstock.testing.sent import Sent

SHORT = {"transaction.timeout.ms": 6_000}
HANGING_SECONDS, OPEN_SECONDS_MAX = 30.0, 120.0
RECORDS_A_COLUMN, COLUMNS_MAX = 3_000, 12
SLOTS = 60
"""How many slots each partition has: what tables with keys have a row for."""
HEADERS = ((), (), (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", None)))
WAYS = {"plain": 60, "commit": 20, "abort": 12, "later": 8}


@dataclass(slots=True)
class Feeder:
    """Sends batches of one to `batch` records, with a pause of about `pause` seconds between."""

    stage: Stage
    seed: int
    pause: float
    batch: int
    sent: int = 0
    ways: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*WAYS, "failed"), 0))

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Send all the while."""
        stop = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            fed = threads.submit(self._feed, stop)
            try:
                yield
            finally:
                stop.set()
        fed.result()

    def _feed(self, stop: threading.Event) -> None:
        chance, numbers = random.Random(f"{self.seed} records"), itertools.count()
        cluster = Cluster(self.stage.direct, SHORT)
        later: list[tuple[float, Transaction]] = []
        former: list[Cluster] = []  # kept, so that no two name their transactions alike
        while not stop.wait(chance.uniform(0.5, 1.5) * self.pause):
            count = chance.randrange(1, self.batch + 1)
            partition = chance.randrange(self.stage.partitions)
            slots = [partition * SLOTS + chance.randrange(SLOTS) for _ in range(count)]
            records = [_sent(next(numbers), slot, chance) for slot in slots]
            way = chance.choices(list(WAYS), list(WAYS.values()))[0]
            try:
                self._send(cluster, partition, records, way, later)
                _decide(later, time.monotonic())
                self.ways[way] += 1
            except (KafkaException, TimeoutError):
                self.ways["failed"] += 1
                former.append(cluster)
                cluster, later = Cluster(self.stage.direct, SHORT), []
            self.sent += count
        with suppress(KafkaException, TimeoutError):
            _decide(later, math.inf)

    def _send(
        self,
        cluster: Cluster,
        partition: int,
        records: list[Sent],
        way: str,
        later: list[tuple[float, Transaction]],
    ) -> None:
        if way == "plain":
            cluster.send(TOPIC, partition, records)
            return
        begun = cluster.begin(TOPIC, partition, records)
        if way == "later":
            later.append((time.monotonic() + 2.0, begun))
        elif way == "commit":
            begun.commit()
        else:
            begun.abort()


def _sent(number: int, slot: int, chance: random.Random) -> Sent:
    return Sent(value(number, slot, chance), b"%d" % slot, headers=chance.choice(HEADERS))


def _decide(later: list[tuple[float, Transaction]], now: float) -> None:
    """End the open transactions that have waited long enough; every third is aborted."""
    for due in [each for each in later if each[0] <= now]:
        later.remove(due)
        if int(due[0] * 10) % 3:
            due[1].commit()
        else:
            due[1].abort()


def value(number: int, slot: int, chance: random.Random) -> bytes | None:
    """Write one record: mostly good, with more columns as numbers rise; some bad, some without value."""
    drawn = chance.random()
    if drawn < 0.02:
        return None
    if drawn < 0.04:
        return chance.choice(BAD)
    data = {"id": number, "text": "ü" * chance.randrange(40), "shop": chance.choice("abc")}
    data[KEY] = slot
    columns = min(number // RECORDS_A_COLUMN, COLUMNS_MAX)
    if columns and chance.random() < 0.2:
        data[f"extra_{chance.randrange(columns)}"] = f"n{number}"
    return json.dumps(data, ensure_ascii=False).encode()


def wait_for_open_transactions(stage: Stage) -> int:
    """Wait until transactions that a lost producer left open have timed out.

    One that hangs, of which the broker's coordinator knows nothing any more (KIP-890), never does: an
    operator ends it, and looks again. Return how many there were.
    """
    cluster, ended, looks = Cluster(stage.direct), 0, 0
    admin = cluster.admin
    places = [TopicPartition(TOPIC, number) for number in range(stage.partitions)]

    def ends(level: IsolationLevel) -> dict[TopicPartition, int]:
        asked = admin.list_offsets(
            dict.fromkeys(places, OffsetSpec.latest()), isolation_level=level
        )
        return {at: each.result().offset for at, each in asked.items()}

    began = time.monotonic()
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        waited = time.monotonic() - began
        assert waited < OPEN_SECONDS_MAX, "a transaction stays open"
        if waited > HANGING_SECONDS * (looks + 1):
            looks += 1
            ended += cluster.end_open_transactions(TOPIC, range(stage.partitions))
        time.sleep(0.2)
    return ended
