"""Three brokers: leaders and coordinators move in mid-transaction, one is killed (PB4).

python -m pytest tests/crash/test_three_brokers.py -m slow
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import NewTopic
from tests.integration.cli.shop import Shop
from tests.integration.cli.test_publish import PARTITIONS, Mirror
from tests.processes.broker import Cluster, wait_until
from tests.processes.process import Driver

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.settings import read_settings
from penstock.core.offsets import TopicPartition
from penstock.dev.broker import Running, down, up
from penstock.dev.ports import HOST, free_port
from penstock.spec.secrets import ProcessSecrets

pytestmark = [pytest.mark.slow, pytest.mark.broker]
CLUSTER = "cGVuc3RvY2stdGhyZWUtMQ"
CONTROLLER = 1
"""It stays: without one nothing moves."""
TURNS = 2
SHARED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "true",
}


class Copied(Cluster):
    """A cluster whose topics are on three brokers."""

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        settings: dict[str, Any] = {key.replace("_", "."): value for key, value in config.items()}
        places = [[2 + n % 2, 3 - n % 2, CONTROLLER] for n in range(partitions)]
        new = NewTopic(topic, partitions, replica_assignment=places, config=settings)
        self.admin.create_topics([new])[topic].result()
        wait_until(lambda: self.partition_count(topic) == partitions, f"{topic} is there")


@dataclass(slots=True)
class Three:
    """Three brokers, the first of which is the controller, too."""

    home: Path
    controller: int
    running: dict[int, Running]

    def start(self, node: int) -> None:
        """Start a broker, again on its data."""
        own = {"node.id": str(node), "controller.quorum.voters": f"1@{HOST}:{self.controller}"}
        former = self.running.get(node)
        port = int(former.bootstrap.rpartition(":")[2]) if former else free_port(self.controller)
        if node == 1:
            door = f"CONTROLLER://{HOST}:{self.controller}"
            own["listeners"] = f"PLAINTEXT://{HOST}:{{port}},{door}"
        else:
            own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{{port}}"}
        properties = {**SHARED, **own}
        self.running[node] = up(self.home / str(node), port, properties=properties, cluster=CLUSTER)

    def kill(self, node: int) -> None:
        """Kill a broker as kill -9 does."""
        process = psutil.Process(self.running[node].pid)
        process.kill()
        process.wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.running.values())

    def leader(self, topic: str, id_: str) -> tuple[int, int]:
        """Return which nodes lead a topic's first partition, and the transactions of an id."""
        brokers = Brokers(read_settings({"brokers": self.bootstrap}, ProcessSecrets()))
        leader = brokers.leader(TopicPartition(f"name:{topic}", 0, topic)).node
        _, wire = brokers.coordinator(id_)
        assert wire is not None
        node = next(n for n, each in brokers._wires.items() if each is wire)
        brokers.forget()
        assert isinstance(node, int)
        return leader, node


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    found = Three(tmp_path_factory.mktemp("three"), free_port(), {})
    try:
        for node in (1, 2, 3):
            found.start(node)
        yield found
    finally:
        for node in (3, 2, 1):
            down(found.home / str(node))


@pytest.mark.parametrize(
    "publishing", [{"producer": "own"}, {"producer": "librdkafka", "tasks": 2}]
)
def test_records_are_there_once_whichever_broker_dies_in_mid_transaction(
    three: Three, tmp_path: Path, publishing: dict[str, Any]
) -> None:
    cluster = Copied(three.bootstrap)
    mirror = Mirror(cluster, tmp_path)
    mirror.spec["publishing"] = publishing
    moved = []
    for turn in range(TURNS):
        mirror.send(50)
        faults = {"PENSTOCK_FAULTS": "send.after:1:stop"}
        with Driver(mirror.save(), verb=("publish", "--spec"), environment=faults) as driver:
            process = psutil.Process(driver.pid)
            driver.wait_until(
                lambda of=process: of.status() == psutil.STATUS_STOPPED, "a transaction is open"
            )
            leads = three.leader(mirror.into, f"penstock-m{mirror.number}-0")
            node = next((n for n in leads if n != CONTROLLER), 2 + turn % 2)
            three.kill(node)
            moved.append((node, leads))
            os.kill(driver.pid, signal.SIGCONT)
            driver.wait_until(mirror.is_exact, f"published without broker {node}")
            driver.send(signal.SIGTERM)
            assert 0 == driver.end().code
        three.start(node)

    audit = mirror.call("audit", "--count", "--json")
    (found,) = audit.json["publications"]
    assert (0, [], 50 * TURNS * PARTITIONS) == (audit.code, found["breaks"], found["rows"])
    assert any(node in leads for node, leads in moved), moved


def test_records_land_once_though_brokers_die_in_turn(three: Three, tmp_path: Path) -> None:
    """One of them is the broker that a run asks what there is."""
    shop = Shop(tmp_path, Copied(three.bootstrap), f"turns{os.urandom(3).hex()}")
    shop.cluster.create(shop.topic, 2)
    with shop.driver() as driver:
        shop.send(0, 100)
        driver.wait_until(lambda: landed(driver) == 200, "the first rows")
        for turn, node in enumerate([2, 3, 2], start=1):
            three.kill(node)
            shop.send(100 * turn, 100, partition=turn % 2)
            due = 200 * (turn + 1)
            driver.wait_until(lambda due=due: landed(driver) == due, f"rows without {node}")
            three.start(node)
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    shop.prove()


def landed(driver: Driver) -> int:
    """Count the rows that commits have reported, in both tables."""
    return sum(
        each.data["rows"] for each in list(driver.reported) if each.event == "TableCommitted"
    )
