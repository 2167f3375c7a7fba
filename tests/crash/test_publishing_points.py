"""Every crash point of a publication, struck by SIGKILL, by an error, by SIGSTOP with a successor.

`matrix.py` has those of landing, whose fields are tables; these are topics. `make test` plays a few,
`make crash` all of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.crash.matrix import FENCED, OUR_BUG, TRIES, Blow
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_news import News
from tests.integration.cli.test_publish import Mirror
from tests.integration.cli.test_publish_tables import Published, by_key, expected
from tests.processes.broker import Cluster
from tests.processes.process import KILLED, Driver
from tests.processes.sigstop import let_locks_go, sleeps
from tests.servers.warm import WarmProcess

from penstock.core.crash_points import OF_PUBLISHING, CrashPoint
from penstock.dev.broker import Running

pytestmark = pytest.mark.broker
BLOWS = (Blow.KILL, Blow.RAISE, Blow.STOP)
PASSING = 2
"""The first transaction begins a run, and moves no row."""


class Topic:
    """A mirror, by one of the two clients."""

    def __init__(self, cluster: Cluster, directory: Path, producer: str) -> None:
        self.publication = Mirror(cluster, directory)
        tasks = {"tasks": 2} if producer == "librdkafka" else {}
        self.publication.spec["publishing"] = {"producer": producer, **tasks}

    def more(self) -> None:
        """Let there be more than one transaction holds."""
        self.publication.send(70)

    def is_exact(self) -> bool:
        """Return whether a reader finds in the target what is in the source."""
        return self.publication.is_exact()


class Table:
    """A table of a format."""

    def __init__(self, cluster: Cluster, directory: Path, kind: str) -> None:
        self.publication = Published(cluster, directory, kind)
        self._rows = 0

    def more(self) -> None:
        """Let there be more than one transaction holds."""
        self.publication.append(self._rows, self._rows + 130)
        self._rows += 130

    def is_exact(self) -> bool:
        """Return whether a reader finds in the target what the rows make."""
        return by_key(expected(0, self._rows)) == by_key(self.publication.found())


class OfTables:
    """News of a shop, an event a transaction."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        shop = Shop(directory, cluster, directory.name)
        cluster.create(shop.topic, 2)
        self.publication = News(shop, transaction={"interval": "100ms", "or_records": 1})
        self._sent = 0

    def more(self) -> None:
        """Let there be more than one transaction holds."""
        self.publication.shop.send(self._sent, 5)
        self._sent += 5
        assert 0 == self.publication.shop.run("--takeover").code

    def is_exact(self) -> bool:
        """Return whether a reader finds each commit once, and in order."""
        self.publication.require_exact()
        return True


Ground = Topic | Table | OfTables
KINDS: dict[str, Callable[[Cluster, Path], Ground]] = {
    "news": OfTables,
    "own": partial(Topic, producer="own"),
    "librdkafka": partial(Topic, producer="librdkafka"),
    "iceberg": partial(Table, kind="iceberg"),
    "delta": partial(Table, kind="delta"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One round: a point, a blow, and what is published how."""

    point: CrashPoint
    blow: Blow
    kind: str

    def __str__(self) -> str:
        return f"{self.point}-{self.blow}-{self.kind}"


CELLS = tuple(
    Cell(point, blow, kind) for kind in KINDS for point in sorted(OF_PUBLISHING) for blow in BLOWS
)
FEW = (
    Cell(CrashPoint.END_AFTER, Blow.STOP, "own"),
    Cell(CrashPoint.END_BEFORE, Blow.STOP, "delta"),
    Cell(CrashPoint.LEDGER_BEFORE, Blow.RAISE, "iceberg"),
)


def play(cell: Cell, ground: Ground) -> None:
    """Strike once, recover, and read what is there."""
    for _ in range(TRIES):
        ground.more()
        if struck(cell, ground):
            break
    else:
        raise AssertionError(f"it ended {TRIES} times while it let its locks go")
    last = ground.publication.call("publish", "--until-caught-up", "--takeover")
    audit = ground.publication.call("audit", "--count", "--json")

    assert 0 == last.code, last.err
    assert ground.is_exact()
    assert (0, []) == (audit.code, audit.json["publications"][0]["breaks"])


def struck(cell: Cell, ground: Ground) -> bool:
    """Strike; return whether the blow hit."""
    plan = {"PENSTOCK_FAULTS": f"{cell.point}:{PASSING}:{cell.blow}"}
    start = partial(WarmProcess, directory=ground.publication.directory)
    with Driver(
        ground.publication.save(),
        "--until-caught-up",
        environment=plan,
        start=start,
        verb=("publish", "--spec"),
    ) as driver:
        if cell.blow is Blow.STOP:
            return was_followed(ground, driver)
        wanted = KILLED if cell.blow is Blow.KILL else OUR_BUG
        assert wanted == driver.end().code, driver.log
    return True


def was_followed(ground: Ground, zombie: Driver) -> bool:
    """Let a successor do the work of one that was stopped, and more, and let that one go on."""
    process = psutil.Process(zombie.pid)
    zombie.wait_until(lambda: sleeps(process), "it was stopped")
    if not let_locks_go(process, [*ground.publication.directory.rglob("*.db")]):
        return False
    ground.more()
    successor = ground.publication.call("publish", "--until-caught-up", "--takeover")
    assert (0, True) == (successor.code, ground.is_exact()), successor.err
    ground.more()
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.end().code in {0, FENCED}, zombie.log
    return True


@pytest.mark.parametrize("cell", FEW, ids=str)
def test_a_blow_at_a_point_of_a_publication_loses_and_doubles_nothing(
    broker: Running, tmp_path: Path, cell: Cell
) -> None:
    play(cell, KINDS[cell.kind](Cluster(broker.bootstrap), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("cell", [each for each in CELLS if each not in FEW], ids=str)
def test_every_blow_at_every_point_of_a_publication_loses_and_doubles_nothing(
    broker: Running, tmp_path: Path, cell: Cell
) -> None:
    play(cell, KINDS[cell.kind](Cluster(broker.bootstrap), tmp_path))
