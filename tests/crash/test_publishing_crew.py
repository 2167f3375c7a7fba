"""Two publishers that stand by for each other, under random blows: each record once, and in order.

Signals, hand-overs and topics that are given partitions, those of offsets too, in an order that a
seed draws. Three publications go on beside each other: mirrors by both clients, and a table.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from tests.integration.cli.test_publish import Mirror
from tests.processes.broker import Cluster
from tests.processes.process import Driver
from tests.processes.sigstop import let_locks_go
from tests.servers.postgresql import PostgresqlServer
from tests.servers.warm import WarmProcess, warm_penstock

from penstock.dev.broker import Running
from penstock.testing.sent import Sent

BLOWS = 12
HELD_SECONDS = 6.5
SECONDS_MAX = 60
ENDED_WELL = {0, 3, 75, -signal.SIGKILL}
NAMES = ("own", "library", "table")
TABLE_PARTITIONS = 2


class Crew:
    """Two processes with three publications; one that has ended is started again."""

    def __init__(self, cluster: Cluster, directory: Path, store: str, stack: ExitStack) -> None:
        self.cluster, self.directory, self._stack = cluster, directory, stack
        self.partitions = dict.fromkeys(("own", "library"), 2)
        self.offsets = dict.fromkeys(NAMES, 1)
        self.sent: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self.reader = Mirror(cluster, directory)
        self.prefix = f"crew{self.reader.number}"
        for name in self.partitions:
            for side in ("from", "into"):
                cluster.create(self.topic(name, side), 2)
        cluster.create(self.topic("table", "into"), TABLE_PARTITIONS)
        self.path = directory / "crew.yaml"
        self.path.write_text(yaml.safe_dump(self._spec(store)))
        for name in NAMES:
            self.send(name)
        self.drivers = [self._started(), self._started()]

    def topic(self, name: str, side: str) -> str:
        """Return the name of a publication's topic."""
        return f"{self.prefix}.{name}.{side}"

    def send(self, name: str) -> None:
        """Let a publication have more to publish."""
        if name == "table":
            ids = range(self.sent[name], self.sent[name] + 50)
            place = self.directory / "delta/shop/rows"
            place.parent.mkdir(parents=True, exist_ok=True)
            rows = pa.table({"id": pa.array(ids, pa.int64()), "k": [str(n % 7) for n in ids]})
            write_deltalake(place, rows, mode="append")
            self.sent[name] += len(ids)
            return
        for number in range(self.partitions[name]):
            at = self.sent[name]
            records = [Sent(b"%d" % n, key=b"k%d" % (n % 5)) for n in range(at, at + 50)]
            self.cluster.send(self.topic(name, "from"), number, records)
        self.sent[name] += 50

    def blow(self, draw: np.random.Generator) -> str:
        """Strike once; return what it was."""
        acts: dict[str, Callable[[np.random.Generator], None]] = {
            "SIGKILL": self._kill,
            "SIGSTOP": self._hold,
            "SIGTERM": self._stop,
            "hand-over": self._hand_over,
            "grow": self._grow,
            "grow offsets": self._grow_offsets,
        }
        name = str(draw.choice(sorted(acts)))
        acts[name](draw)
        return name

    def until_published(self) -> None:
        """Wait until each publication publishes what comes from now on."""
        before = self._published()
        deadline = time.monotonic() + SECONDS_MAX
        for name in NAMES:
            self.send(name)
        while any(self._published()[name] <= before[name] for name in NAMES):
            assert time.monotonic() < deadline, [each.log for each in self.drivers]
            self.revive()
            time.sleep(0.05)

    def revive(self) -> None:
        """Start again what has ended."""
        for number, driver in enumerate(self.drivers):
            if not driver.running:
                code = driver.end().code
                assert code in ENDED_WELL, driver.log
                self._ended.update(self._counts(driver))
                self.drivers[number] = self._started()

    def require_exact(self) -> None:
        """Compare what an independent reader finds with what was sent."""
        for name, count in self.partitions.items():
            found = self.reader.read(self.topic(name, "into"), partitions=count)
            wanted = self.reader.read(self.topic(name, "from"), partitions=count)
            assert wanted == found, f"{name}: {_differing(wanted, found)}"
        read = self.reader.read(self.topic("table", "into"), partitions=TABLE_PARTITIONS)
        ids = [yaml.safe_load(value)["id"] for own in read.values() for _, value, *_ in own]
        assert [*range(self.sent["table"])] == sorted(ids)
        assert all([*own] == sorted(own, key=_id) for own in _by_key(read).values())

    def call(self, *words: str) -> Any:
        """Run a command on the spec."""
        return warm_penstock(*words, environment={}, directory=self.directory)

    def _published(self) -> Counter[str]:
        return sum(map(self._counts, self.drivers), Counter(self._ended))

    @staticmethod
    def _counts(driver: Driver) -> Counter[str]:
        told = [each for each in list(driver.reported) if each.event == "RowsPublished"]
        return Counter(str(each.data["publication"]) for each in told)

    def _kill(self, draw: np.random.Generator) -> None:
        self.drivers[draw.integers(2)].kill()

    def _hold(self, draw: np.random.Generator) -> None:
        process = psutil.Process(self.drivers[draw.integers(2)].pid)
        process.suspend()
        try:
            if let_locks_go(process, []):
                time.sleep(HELD_SECONDS)
        finally:
            process.resume()

    def _stop(self, draw: np.random.Generator) -> None:
        driver = self.drivers[draw.integers(2)]
        driver.send(signal.SIGTERM)
        assert driver.end().code in {0, 3}, driver.log

    def _hand_over(self, draw: np.random.Generator) -> None:
        name = str(draw.choice(NAMES))
        done = self.call("handover", name, "--spec", str(self.path), "--wait", "20s", "--json")
        assert done.code in {0, 2, 75}, done

    def _grow(self, draw: np.random.Generator) -> None:
        name = str(draw.choice([*self.partitions]))
        self.partitions[name] += 1
        for side in ("into", "from"):
            self.cluster.grow(self.topic(name, side), self.partitions[name])

    def _grow_offsets(self, draw: np.random.Generator) -> None:
        name = str(draw.choice(NAMES))
        self.offsets[name] += 1
        self.cluster.grow(f"{self.prefix}-{name}-offsets", self.offsets[name])

    def _started(self) -> Driver:
        start = partial(WarmProcess, directory=self.directory)
        driver = Driver(self.path, "--standby", start=start, verb=("publish", "--spec"))
        return self._stack.enter_context(driver)

    def _spec(self, store: str) -> dict[str, Any]:
        transaction = {"interval": "100ms", "or_records": 60}
        mirrors = [
            {
                "name": name,
                "from": {"topic": self.topic(name, "from")},
                "into": self.topic(name, "into"),
                "producer": producer,
                "tasks": tasks,
                "transaction": transaction,
            }
            for name, producer, tasks in (("own", "own", 1), ("library", "librdkafka", 2))
        ]
        table = {
            "name": "table",
            "from": {"table": "lake.shop.rows"},
            "into": self.topic("table", "into"),
            "key": "k",
            "transaction": transaction,
        }
        return {
            "name": self.prefix,
            "kafka": {"brokers": self.cluster.bootstrap},
            "catalogs": {"lake": {"type": "delta", "root": str(self.directory / "delta")}},
            "publishing": {"group": self.prefix},
            "publish": [*mirrors, table],
            "pending": {"store": store},
            "spark": {"master": "inline"},
        }


def _differing(wanted: dict[int, Any], found: dict[int, Any]) -> str:
    return "; ".join(
        f"{n}: {len(own)} sent, {len(found[n])} found"
        for n, own in wanted.items()
        if own != found[n]
    )


def _by_key(read: dict[int, list[tuple[object, ...]]]) -> dict[object, list[Any]]:
    found: dict[object, list[Any]] = {}
    for own in read.values():
        for key, value, *_ in own:
            found.setdefault(key, []).append(value)
    return found


def _id(value: bytes) -> int:
    return int(yaml.safe_load(value)["id"])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_publications_of_two_stand_bys_are_exact_whatever_strikes(
    broker: Running, tmp_path: Path, postgresql: PostgresqlServer, seed: int
) -> None:
    draw, struck = np.random.default_rng(seed), []
    with ExitStack() as stack:
        store = postgresql.address(postgresql.database())
        crew = Crew(Cluster(broker.bootstrap), tmp_path, store, stack)
        crew.until_published()
        for _ in range(BLOWS):
            struck.append(crew.blow(draw))
            crew.until_published()
        for driver in crew.drivers:
            driver.send(signal.SIGTERM)
        codes = {driver.end().code for driver in crew.drivers}
    print(seed, struck, codes)
    last = crew.call("publish", "--spec", str(crew.path), "--until-caught-up")
    assert (0, True) == (last.code, codes <= {0, 3}), last.err
    crew.require_exact()
