"""A topic is mirrored from one cluster into another: killed, looked at, proved by the audit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli.test_publish import PARTITIONS, Mirror
from tests.processes.broker import Cluster, running_broker


class Elsewhere(Mirror):
    """A mirror whose source is in another cluster; here a topic of that name is empty."""

    def __init__(self, cluster: Cluster, other: Cluster, directory: Path) -> None:
        super().__init__(cluster, directory)
        self.other = other
        other.create(self.source, PARTITIONS)
        self.spec["publish"][0]["from"]["kafka"] = {"brokers": other.bootstrap}

    def of_other(self, act: str, *given: object) -> object:
        """Do something to the source, where it is."""
        here, self.cluster = self.cluster, self.other
        try:
            return getattr(self, act)(*given)
        finally:
            self.cluster = here


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_broker(tmp_path_factory.mktemp("other")) as running:
        yield Cluster(running.bootstrap)


@pytest.fixture
def mirror(cluster: Cluster, other: Cluster, tmp_path: Path) -> Elsewhere:
    return Elsewhere(cluster, other, tmp_path)


def test_each_record_of_another_cluster_is_there_once_though_the_run_is_killed(
    mirror: Elsewhere,
) -> None:
    for _ in range(2):
        mirror.of_other("send", 200)
        with mirror.driver() as run:
            run.wait_for("RowsPublished")
            run.send(signal.SIGKILL)
            run.wait_until_nothing_is_left()
    done = mirror.call("publish", "--until-caught-up")
    audit = mirror.call("audit", "--count", "--json")

    assert (0, 0) == (done.code, audit.code), done.err + audit.out
    assert [] == audit.json["publications"][0]["breaks"]
    assert mirror.of_other("read", mirror.source) == mirror.read(mirror.into)
    assert 400 * PARTITIONS == sum(map(len, mirror.read(mirror.into).values()))


def test_the_cluster_that_is_read_is_that_of_plan_status_doctor_and_transactions(
    mirror: Elsewhere,
) -> None:
    mirror.of_other("send", 10)
    found = {
        verb: mirror.call(verb) for verb in ("plan", "status", "doctor", "transactions", "validate")
    }

    assert dict.fromkeys(found, 0) == {verb: each.code for verb, each in found.items()}, found
    assert "20" in found["plan"].out
    checks = mirror.call("doctor", "--json").json["checks"]
    asked = {each["subject"]: each for each in checks if each["check"] == "permissions"}
    assert "1 topic" in asked[mirror.other.bootstrap]["message"]


def test_a_cluster_that_is_not_there_is_named(mirror: Elsewhere) -> None:
    mirror.spec["publish"][0]["from"]["kafka"]["brokers"] = "127.0.0.1:1"
    done = mirror.call("publish", "--once")

    assert 75 == done.code, done.err
    assert "127.0.0.1:1" in done.err
    examined = mirror.call("doctor", "--json")
    failed = [each for each in examined.json["checks"] if each["status"] == "failed"]
    assert [("brokers", "127.0.0.1:1")] == [(each["check"], each["subject"]) for each in failed]
    assert 75 == examined.code
