"""Three members of one pipeline under random blows: one owns it at a time, and all of it is exact.

Signals, hand-overs and sessions that the database ends, in an order that a seed draws, under a
producer. What is said of who owns it is advisory; the tables are not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.integration.cli.shop import Shop
from tests.processes.broker import Cluster
from tests.processes.process import Driver
from tests.processes.sigstop import let_locks_go
from tests.servers.postgresql import PostgresqlServer
from tests.servers.warm import WarmProcess

from penstock.dev.broker import Running

BLOWS = 14
HELD_SECONDS = 6.5
MEMBERS = 3
DATABASES = ("lake/catalog.db",)
ENDED_WELL = {0, 3}
NUMBERS = count()


class Crew:
    """The members of a pipeline; one that has ended is started again."""

    def __init__(self, shop: Shop, server: PostgresqlServer, stack: ExitStack) -> None:
        self.shop, self.server, self._stack = shop, server, stack
        self.codes: list[int] = []
        self.drivers = [self._started() for _ in range(MEMBERS)]

    def blow(self, draw: np.random.Generator) -> str:
        """Strike once; return what it was."""
        acts: dict[str, Callable[[np.random.Generator], None]] = {
            "SIGKILL": self._kill,
            "SIGSTOP": self._hold,
            "SIGTERM": self._stop,
            "hand-over": self._hand_over,
            "sessions": self._cut,
        }
        name = str(draw.choice(sorted(acts)))
        acts[name](draw)
        self.drivers = [each if each.running else self._again(each) for each in self.drivers]
        return name

    def until_lands(self) -> None:
        """Wait until something is committed by any member after now."""
        before = self._commits()
        deadline = time.monotonic() + 120
        while self._commits() == before:
            assert time.monotonic() < deadline, "nothing lands any more"
            self.drivers = [each if each.running else self._again(each) for each in self.drivers]
            time.sleep(0.05)

    def _commits(self) -> tuple[int, ...]:
        return tuple(each.count("TableCommitted") for each in self.drivers)

    def _kill(self, draw: np.random.Generator) -> None:
        self.drivers[draw.integers(MEMBERS)].kill()

    def _hold(self, draw: np.random.Generator) -> None:
        process = psutil.Process(self.drivers[draw.integers(MEMBERS)].pid)
        process.suspend()
        try:
            if let_locks_go(process, [self.shop.directory / name for name in DATABASES]):
                time.sleep(HELD_SECONDS)
        finally:
            process.resume()

    def _stop(self, draw: np.random.Generator) -> None:
        driver = self.drivers[draw.integers(MEMBERS)]
        driver.send(signal.SIGTERM)
        self.codes.append(driver.end().code)

    def _hand_over(self, draw: np.random.Generator) -> None:
        del draw
        done = self.shop.call("handover", "--wait", "20s", "--json")
        assert done.code in {0, 2, 75}, done

    def _cut(self, draw: np.random.Generator) -> None:
        among = ("application_name = 'penstock-leadership'", "true")[draw.integers(2)]
        with suppress(Exception):  # its own session may be among them
            self.server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE pid <> pg_backend_pid() AND usename = 'penstock' AND {among}"
            )

    def _again(self, ended: Driver) -> Driver:
        code = ended.end().code
        assert code in {0, 3, 75, -signal.SIGKILL}, (ended.log, list(ended.reported)[-3:])
        return self._started()

    def _started(self) -> Driver:
        start = partial(WarmProcess, directory=self.shop.directory)
        return self._stack.enter_context(Driver(self.shop.path, "--standby", start=start))


@pytest.fixture
def shop(broker: Running, tmp_path: Path, postgresql: PostgresqlServer) -> Shop:
    cluster = Cluster(broker.bootstrap)
    shop = Shop(tmp_path, cluster, f"crew{next(NUMBERS)}")
    cluster.create(shop.topic, 2)
    shop.spec["pending"] = {"store": postgresql.address(postgresql.database())}
    return shop


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_three_members_are_exact_whatever_strikes(
    shop: Shop, postgresql: PostgresqlServer, seed: int
) -> None:
    draw, struck = np.random.default_rng(seed), []
    with ExitStack() as stack, shop.producing() as sent:
        crew = Crew(shop, postgresql, stack)
        crew.until_lands()
        for _ in range(BLOWS):
            struck.append(crew.blow(draw))
            crew.until_lands()
        before = sent()
        crew.until_lands()
    print(seed, struck, crew.codes, before)
    assert set(crew.codes) <= ENDED_WELL
    assert 0 == shop.run().code
    total = sent()
    assert (list(range(total)), list(range(total))) == shop.ids()
    shop.prove()
