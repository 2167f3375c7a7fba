"""The stage of the crash tests: two topics, three tables, a feeder, and what the oracle says.

Invariants:
- everything random comes from one seed, and what is fed is the same for the same seed;
- the oracles below are written from the shapes alone, with `json.loads`: nothing of penstock.
"""

from __future__ import annotations

import json
import random  # noqa: TID251  from the seed that a test names
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes.broker import Cluster
from tests.story.oracle import (
    Finding,
    Record,
    Row,
    committed_records,
    compare,
    delta_rows,
    iceberg_rows,
)

from penstock.testing.sent import Sent

PARTITIONS = {"orders": 3, "clicks": 2}
SPEC = """
name: crash
kafka: {{ brokers: "{bootstrap}", topics: [{orders}, {clicks}] }}
catalogs:
  lake:  {{ type: sql, uri: "sqlite:///./lake/catalog.db", warehouse: ./lake }}
  delta: {{ type: delta, root: ./delta }}
tables:
  - from: {orders}
    into: lake.crash.orders
    continue: true
    partition_by: [shop]
    schema: {{ create: true, hints: {order_hints} }}
  - {{ from: {orders}, into: delta.crash.orders, schema: {{ create: true, hints: {order_hints} }} }}
  - {{ from: {clicks}, into: lake.crash.clicks, schema: {{ create: true, hints: {click_hints} }} }}
commit: {{ every: 200ms, or_records: 1000 }}
quarantine: {{ into: lake.ops.quarantine }}
spark: {{ master: "${{env:STAGE_MASTER:-{master}}}" }}
"""
ORDER_HINTS = "{ id: long, shop: string, amount: double, note: string }"
INLINE = {"STAGE_MASTER": "inline"}
CLICK_HINTS = "{ id: long, page: string }"
LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline on tables of its own."""

    directory: Path
    bootstrap: str
    name: str
    master: str

    @property
    def topics(self) -> dict[str, str]:
        return {short: f"{self.name}.{short}" for short in PARTITIONS}

    @property
    def spec(self) -> Path:
        return self.directory / "penstock.yaml"

    def build(self) -> None:
        """Create the topics with records that show every column, and write the spec."""
        cluster = Cluster(self.bootstrap)
        for short, topic in self.topics.items():
            cluster.create(topic, PARTITIONS[short])
            for partition in range(PARTITIONS[short]):
                good = [_good(short, number, random.Random(number)) for number in range(20)]
                cluster.send(topic, partition, [Sent(_bytes(each)) for each in good])
        self.directory.mkdir(parents=True, exist_ok=True)
        text = SPEC.format(
            bootstrap=self.bootstrap,
            master=self.master,
            order_hints=ORDER_HINTS,
            click_hints=CLICK_HINTS,
            **self.topics,
        )
        self.spec.write_text(text)

    def pending_now(self) -> int:
        """Count the rows PENDING in the store of a living pipeline; 0 when it cannot be said."""
        try:
            address = f"file:{self.store}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=0.2)) as store:
                return _pending(store)
        except sqlite3.Error:
            return 0

    def pending(self) -> int:
        """Count the rows PENDING, in a copy, so that a killed transaction is rolled back there."""
        with tempfile.TemporaryDirectory() as scratch:
            for name in (self.store.name, f"{self.store.name}-journal"):
                if (self.store.parent / name).exists():
                    shutil.copy(self.store.parent / name, scratch)
            with closing(sqlite3.connect(Path(scratch) / self.store.name)) as store:
                try:
                    return _pending(store)
                except sqlite3.OperationalError:
                    return 0  # killed before the store had tables

    @property
    def store(self) -> Path:
        return self.directory / "state" / "crash.db"

    def differences(self) -> list[Finding]:
        """Compare all three tables and the quarantine with Kafka, row by row."""
        records = committed_records(self.bootstrap, self.topics.values())
        uri = f"sqlite:///{self.directory}/lake/catalog.db"
        rejects = iceberg_rows(uri, "ops.quarantine")
        orders = [each for each in records if each.at.topic == self.topics["orders"]]
        clicks = [each for each in records if each.at.topic == self.topics["clicks"]]
        tables = (
            ("lake.crash.orders", orders, order, iceberg_rows(uri, "crash.orders")),
            (
                "delta.crash.orders",
                orders,
                order,
                delta_rows(self.directory / "delta/crash/orders"),
            ),
            ("lake.crash.clicks", clicks, click, iceberg_rows(uri, "crash.clicks")),
        )
        return [
            finding
            for table, expected, judge, rows in tables
            for finding in compare(table, expected, judge, rows, rejects)
        ]

    @contextmanager
    def fed(self, seed: int) -> Iterator[None]:
        """Send records all the while: good and bad, in transactions and out, some aborted."""
        stop = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="feeder") as threads:
            feeding = threads.submit(_feed, self, random.Random(seed), stop)
            try:
                yield
            finally:
                stop.set()
        feeding.result()


def order(record: Record) -> Row | None:
    """Return the row of a record of orders; tombstones are quarantined."""
    shapes = {"id": _is_long, "shop": _is_text, "amount": _is_number, "note": _is_text}
    return _fitting(record, shapes)


def click(record: Record) -> Row | None:
    """Return the row of a record of clicks."""
    return _fitting(record, {"id": _is_long, "page": _is_text})


def _fitting(record: Record, shapes: Mapping[str, Any]) -> Row | None:
    try:
        data = json.loads((record.value or b"").decode("utf-8"))
    except ValueError:
        return None
    if not isinstance(data, dict) or not set(data) <= set(shapes):
        return None
    fits = all(value is None or shapes[name](value) for name, value in data.items())
    return data if fits else None


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in LONG


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _feed(stage: Stage, chance: random.Random, stop: threading.Event) -> None:
    cluster = Cluster(stage.bootstrap)
    number = chance.randrange(10**9) * 1000
    while not stop.wait(chance.uniform(0.01, 0.05)):
        short = chance.choice(["orders", "orders", "clicks"])
        partition = chance.randrange(PARTITIONS[short])
        count = chance.randrange(1, 40)
        records = [Sent(_value(short, number + n, chance), key=b"%d" % n) for n in range(count)]
        number += count
        match chance.choices(["plain", "commit", "abort"], [60, 25, 15])[0]:
            case "plain":
                cluster.send(stage.topics[short], partition, records)
            case "commit":
                cluster.begin(stage.topics[short], partition, records).commit()
            case _:
                cluster.begin(stage.topics[short], partition, records).abort()


def _value(short: str, number: int, chance: random.Random) -> bytes | None:
    if chance.random() < 0.97:
        return _bytes(_good(short, number, chance))
    bad = (
        None,
        b"",
        b'{"id": 1',
        b'{"id": "seven"}',
        b'{"id": 1, "colour": "red"}',
        b"[1, 2]",
        b"\xff\xfe\x00",
        b'{"id": 1}{"id": 2}',
        b'{"id": 73786976294838206464}',
    )
    return chance.choice(bad)


def _good(short: str, number: int, chance: random.Random) -> dict[str, Any]:
    if short == "clicks":
        return {"id": number, "page": f"/p/{chance.randrange(1000)}?ü=\u2028"}
    note = {"note": "x" * chance.randrange(1, 60)} if number % 3 == 0 else {}
    return {
        "id": number,
        "shop": chance.choice("abc"),
        "amount": chance.randrange(10**6) / 8,
        **note,
    }


def _bytes(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def _pending(store: sqlite3.Connection) -> int:
    return int(store.execute("SELECT count(*) FROM commits WHERE state = 'PENDING'").fetchone()[0])
