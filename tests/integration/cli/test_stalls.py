"""The stall alarm: for each way in which commits can stop it is raised, and over when they go on.

One pipeline runs all the while, with a commit interval of 500 ms. What goes wrong is real: a broker
that is stopped, a catalog with a proxy that gives no answer or refuses each commit as a conflict,
a table that is moved away, a disk without space.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_full_disk import fill, mount
from tests.processes.broker import PROPERTIES, Cluster
from tests.processes.process import Driver
from tests.servers import rest
from tests.servers.lying import Liar, Lie, lying

from penstock.dev.broker import down, up

ENOUGH = 10_000
SECONDS_MAX = 120
TRIES_MAX = 10
SERVED, MOVED, SMALL = "served.shop.orders", "delta.shop.orders", "small.shop.orders"


@dataclass(slots=True)
class Field:
    """A pipeline at work, and what can be done to it."""

    shop: Shop
    driver: Driver
    liar: Liar
    broker: Path
    disk: Path
    sent: int = 0

    def send(self) -> None:
        self.shop.send(self.sent, 50)
        self.sent += 50

    def goes_on(self) -> bool:
        """Return whether every stall is over: a slow machine makes some of its own."""
        return self.driver.count("CommitsStalled") == self.driver.count("CommitsResumed")

    def stalls(self, tables: list[str]) -> bool:
        """Return whether the newest stall is of these tables, or of Kafka where none is given."""
        found = [each.data for each in self.driver.reported if each.event == "CommitsStalled"]
        return bool(found) and (tables, not tables) == (found[-1]["tables"], found[-1]["kafka"])

    def metrics(self) -> str:
        url = self.driver.wait_for("MetricsServed").data["url"]
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
            return str(answer.read().decode())

    def parked(self) -> list[str]:
        """Return the tables that the metrics show as parked."""
        pattern = r'^penstock_table_parked\{table="(.+)"\} 1\.0$'
        return re.findall(pattern, self.metrics(), re.MULTILINE)

    @contextmanager
    def catalog_down(self) -> Iterator[None]:
        with self._lying(".*", Lie.LOSE_REQUEST):
            yield

    @contextmanager
    def conflict_storm(self) -> Iterator[None]:
        with self._lying("POST .*/tables/orders$", Lie.CONFLICT):
            yield

    @contextmanager
    def _lying(self, pattern: str, lie: Lie) -> Iterator[None]:
        self.liar.queue(pattern, *[lie] * ENOUGH)
        try:
            self.send()
            yield
        finally:
            self.liar.clear()

    @contextmanager
    def table_missing(self) -> Iterator[None]:
        table = self.shop.directory / "delta" / "shop" / "orders"
        away = table.rename(table.with_name("away"))
        try:
            self.send()
            yield
        finally:
            shutil.rmtree(table, ignore_errors=True)  # files of an epoch that was being written
            away.rename(table)

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        if not os.path.ismount(self.disk):
            pytest.skip("this machine does not let the tests mount a small file system")
        ballast = fill(self.disk)
        try:
            self.send()
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def broker_stopped(self) -> Iterator[None]:
        port = int(self.shop.cluster.bootstrap.rpartition(":")[2])
        down(self.broker)
        try:
            yield
        finally:
            up(self.broker, port, properties=PROPERTIES)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """All of it is its own, the catalog too: set up once more, it meets no table of before."""
    home = tmp_path_factory.mktemp("stalls")
    for name in ("shop", "small"):
        (home / name).mkdir()
    with ExitStack() as stack:
        if mount(home / "small"):
            unmounting = ("umount", "--lazy", str(home / "small"))
            stack.callback(subprocess.run, unmounting, check=True)
        stack.callback(down, home / "broker")
        running = up(home / "broker", 0, properties=PROPERTIES)
        shop = Shop(home / "shop", Cluster(running.bootstrap), "stalls")
        shop.cluster.create(shop.topic, 2)
        liar = stack.enter_context(lying(stack.enter_context(rest.running(home / "rest"))))
        shop.spec["catalogs"] = {
            "served": {"type": "rest", "uri": liar.address},
            "delta": {"type": "delta", "root": "./delta"},
            "small": {"type": "delta", "root": str(home / "small")},
            "safe": {"type": "delta", "root": "./safe"},
        }
        rule = {"from": shop.topic, "continue": True, "schema": {"create": True}}
        shop.spec["tables"] = [{**rule, "into": into} for into in (SERVED, MOVED, SMALL)]
        shop.spec["tables"][-1].pop("continue")
        shop.spec["commit"] = {"every": "500ms"}
        shop.spec["quarantine"] = {"into": "safe.ops.quarantine"}
        with shop.driver("--metrics", "127.0.0.1:0") as driver:
            field = Field(shop, driver, liar, home / "broker", home / "small")
            field.send()
            driver.wait_for("TableCommitted", 3)
            yield field
            driver.send(signal.SIGTERM)
            assert 0 == driver.end().code
        shop.prove()


Fault = Callable[[Field], AbstractContextManager[None]]
FAULTS: list[tuple[Fault, list[str]]] = [
    (Field.conflict_storm, [SERVED]),
    (Field.catalog_down, [SERVED]),
    (Field.table_missing, [MOVED]),
    (Field.disk_full, [SMALL]),
    (Field.broker_stopped, []),
]


@pytest.mark.parametrize(("fault", "tables"), FAULTS)
def test_commits_that_stop_are_reported_and_so_is_that_they_go_on(
    field: Field, fault: Fault, tables: list[str]
) -> None:
    """On a slow machine another table may stall at the same time: then the fault comes again."""
    for _ in range(TRIES_MAX):
        field.driver.wait_until(field.goes_on, "nothing stalls", seconds_max=SECONDS_MAX)
        stalled = field.driver.count("CommitsStalled")
        with fault(field):
            field.driver.wait_for("CommitsStalled", stalled + 1, seconds_max=SECONDS_MAX)
            if not field.stalls(tables):
                continue
            if fault in {Field.table_missing, Field.disk_full}:
                field.driver.wait_until(
                    lambda: field.parked() == tables, "parked", seconds_max=SECONDS_MAX
                )
            shown, parked = field.metrics(), field.parked()
            break
    else:
        pytest.fail(f"no stall is of {tables} alone\n{field.driver.log}")
    field.driver.wait_until(field.goes_on, "it goes on", seconds_max=SECONDS_MAX)

    assert re.search(r"^penstock_stalled 1\.0$", shown, re.MULTILINE), "PenstockStalled fires"
    assert set(parked) <= set(tables), "PenstockTableParked names no other"
