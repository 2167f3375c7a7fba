"""Publishers that sleep in mid-transaction, on a real broker: nothing is lost, doubled or seen twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.integration.cli.test_publish import PARTITIONS, Mirror
from tests.processes.broker import Cluster, running_broker, wait_until
from tests.processes.process import Driver
from tests.processes.sigstop import let_locks_go

from penstock.dev.broker import Running

pytestmark = pytest.mark.broker
ASLEEP = {"PENSTOCK_FAULTS": "send.after:1:stop"}
FENCED = 3
EXPIRING = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
"""Brokers that abort soon what is open for too long."""


@pytest.fixture
def mirror(broker: Running, tmp_path: Path) -> Mirror:
    return Mirror(Cluster(broker.bootstrap), tmp_path)


@contextmanager
def asleep(mirror: Mirror) -> Iterator[Driver]:
    """Give a publisher that sleeps, all rows of its first transaction sent."""
    with Driver(mirror.save(), verb=("publish", "--spec"), environment=ASLEEP) as driver:
        process = psutil.Process(driver.pid)
        driver.wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "it sleeps")
        assert let_locks_go(process, [*mirror.directory.rglob("*.db")])
        yield driver


def test_pb6_a_publisher_that_wakes_after_another_took_over_ends_and_nothing_of_it_is_seen(
    mirror: Mirror,
) -> None:
    mirror.send(20)
    with asleep(mirror) as zombie:
        taken = mirror.call("publish", "--until-caught-up", "--takeover")
        assert (0, True) == (taken.code, mirror.is_exact()), taken.err
        zombie.send(signal.SIGCONT)
        assert FENCED == zombie.end().code

    mirror.send(20)
    again = mirror.call("publish", "--until-caught-up", "--json")
    assert (0, 20 * PARTITIONS) == (again.code, again.json["publications"][0]["rows"]), again.err
    assert mirror.is_exact()


def test_pb5_a_publisher_that_sleeps_longer_than_its_transaction_may_last_publishes_it_again(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path / "broker", properties=EXPIRING) as broker:
        mirror = Mirror(Cluster(broker.bootstrap), tmp_path)
        mirror.spec["publish"][0]["transaction"]["timeout"] = "1s"
        mirror.send(20)
        with asleep(mirror) as driver:
            wait_until(lambda: not opened(mirror), "the brokers aborted its transaction")
            driver.send(signal.SIGCONT)
            driver.wait_until(mirror.is_exact, "all rows")
            driver.send(signal.SIGTERM)
            assert 0 == driver.end().code

        assert driver.count("TransactionGivenUp")


def opened(mirror: Mirror) -> int:
    return mirror.cluster.open_transactions(mirror.into, range(PARTITIONS))
