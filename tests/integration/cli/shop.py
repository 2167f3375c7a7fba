"""A small pipeline for tests of the commands: topics of its own, a spec on disk, its tables."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.processes.broker import Cluster
from tests.processes.process import Driver, Finished, penstock
from tests.servers.warm import WarmProcess, warm_penstock
from tests.story.oracle import Row, delta_rows, iceberg_rows

from penstock.app.inspect.audit import audit
from penstock.spec.load import load
from penstock.testing.sent import Sent


@dataclass(slots=True)
class Shop:
    """Topic `<name>.orders` into an Iceberg and a Delta table; everything can be changed first."""

    directory: Path
    cluster: Cluster
    name: str
    spec: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        create = {"schema": {"create": True}}
        self.spec = {
            "name": "shop",
            "kafka": {"brokers": self.cluster.bootstrap, "topics": [self.topic]},
            "catalogs": {
                "lake": {
                    "type": "sql",
                    "uri": "sqlite:///./lake/catalog.db",
                    "warehouse": "./lake",
                },
                "delta": {"type": "delta", "root": "./delta"},
            },
            "tables": [
                {"from": self.topic, "into": "lake.shop.orders", "continue": True, **create},
                {"from": self.topic, "into": "delta.shop.orders", **create},
            ],
            "commit": {"every": "200ms"},
            "quarantine": {"into": "lake.ops.quarantine"},
            "spark": {"master": "inline"},
        }

    @property
    def topic(self) -> str:
        return f"{self.name}.orders"

    @property
    def path(self) -> Path:
        path = self.directory / "penstock.yaml"
        path.write_text(yaml.safe_dump(self.spec, sort_keys=False))
        return path

    def send(self, first: int, count: int, *, partition: int = 0) -> None:
        """Send orders with ascending ids."""
        orders = [Sent(json.dumps({"id": first + n}).encode()) for n in range(count)]
        self.cluster.send(self.topic, partition, orders)

    @contextmanager
    def producing(self) -> Iterator[Callable[[], int]]:
        """Send orders all the while, a few at a time; gives how many were sent so far."""
        stop, sent = threading.Event(), [0]

        def produce() -> None:
            while not stop.wait(0.02):
                self.send(sent[0], 20, partition=sent[0] // 20 % 2)
                sent[0] += 20

        with ThreadPoolExecutor(1) as threads:
            producing = threads.submit(produce)
            try:
                yield lambda: sent[0]
            finally:
                stop.set()
        producing.result()

    def run(self, *words: str, **environment: str) -> Finished:
        """Run until caught up, with a JSON log."""
        return self.call("run", "--until-caught-up", "--json", *words, **environment)

    def call(self, command: str, *words: str, **environment: str) -> Finished:
        """Run a command on the spec."""
        return self.command(command, self.path, *words, **environment)

    def command(self, *words: str | Path, **environment: str) -> Finished:
        """Run a command that is reported of the spec in its words."""
        run = warm_penstock if self._may_be_warm(environment) else penstock
        return run(*words, environment=environment, directory=self.directory)

    def _may_be_warm(self, environment: Mapping[str, str]) -> bool:
        """Return whether a forked process does the same: Spark and Python inspect how they start."""
        inline = self.spec.get("spark", {}).get("master") == "inline"
        return inline and all(name.startswith("PENSTOCK_") for name in environment)

    def prove(self) -> None:
        """Let the app audit all tables row by row, in this process: it is quicker."""
        found = audit(load(self.path), rows=True)
        assert (0, ()) == (found.exit_code, tuple(b for each in found.tables for b in each.breaks))

    def driver(self, *words: str, **environment: str) -> Driver:
        """Start a run that goes on until asked to stop."""
        start = WarmProcess if self._may_be_warm(environment) else None
        return Driver(self.path, *words, environment=environment, start=start)

    def lake(self, name: str = "shop.orders") -> list[Row]:
        """Read an Iceberg table."""
        return iceberg_rows(f"sqlite:///{self.directory}/lake/catalog.db", name)

    def delta(self, name: str = "shop/orders") -> list[Row]:
        """Read a Delta table."""
        return delta_rows(self.directory / self.spec["catalogs"]["delta"]["root"] / name)

    def ids(self) -> tuple[list[int], list[int]]:
        """Return the ids landed in the Iceberg and in the Delta table, sorted."""
        return sorted(row["id"] for row in self.lake()), self.ids_of_delta()

    def ids_of_delta(self) -> list[int]:
        """Return the ids landed in the Delta table, sorted."""
        return sorted(row["id"] for row in self.delta())

    def rejects(self) -> list[Row]:
        """Read the quarantine."""
        return self.lake("ops.quarantine")

    @property
    def store(self) -> Path:
        return self.directory / "state" / "shop.db"

    def pending(self) -> int:
        """Count the commits PENDING in the store."""
        with closing(sqlite3.connect(self.store)) as store:
            asked = store.execute("SELECT count(*) FROM commits WHERE state = 'PENDING'")
            return int(asked.fetchone()[0])


def problem(finished: Finished) -> tuple[str, str]:
    """Return code and hint of the error that a command with --json ended with."""
    reported = finished.json
    error = reported.get("error") or next(iter(reported["parked"].values()))
    return error["code"], error["hint"]
