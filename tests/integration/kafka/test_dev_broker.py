"""`penstock dev up`, `status` and `down` with a real broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from tests.processes.broker import Cluster, wait_until

from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev.broker import Running, down, status, up
from penstock.dev.records import create_topics, produce
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "a folder with blanks"
    yield home
    down(home)


def test_a_broker_goes_up_keeps_its_topics_over_a_restart_and_goes_down(home: Path) -> None:
    assert status(home) is None
    running = up(home, 0)
    assert running == status(home) == up(home, 0)
    cluster = Cluster(running.bootstrap)
    cluster.create("orders", 2)
    cluster.send("orders", 1, [Sent()])

    assert down(home)
    assert not psutil.pid_exists(running.pid)
    assert status(home) is None
    assert not down(home)

    again = up(home, 0)
    assert 2 == Cluster(again.bootstrap).partition_count("orders")
    assert again.pid != running.pid


def test_two_that_go_up_at_once_share_one_broker(home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: up(home, 0), range(2))

    assert first == second


def test_a_killed_broker_is_not_believed_and_goes_up_again(home: Path) -> None:
    # How long the controller believes in a broker that no longer says it is there.
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    running = up(home, 0, properties=quick)
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: status(home) is None, "the kill")

    assert up(home, 0, properties=quick).pid != running.pid


def test_another_process_under_a_stale_number_is_neither_believed_nor_killed(home: Path) -> None:
    other_writer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    home.mkdir()
    state = {"pid": other_writer.pid, "started": 1.0, "port": 9092}
    (home / "broker.json").write_text(json.dumps(state))

    assert status(home) is None
    assert not down(home)
    assert other_writer.poll() is None
    other_writer.communicate(b"\n")


def test_a_port_in_use_is_reported_with_the_way_out(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidError, match=f"port {port}") as caught:
            up(home, port)

    assert ("P656", True) == (caught.value.code, "--port 0" in caught.value.hint)
    assert status(home) is None


def test_a_broker_that_ends_at_once_is_reported_with_its_reason(home: Path) -> None:
    with pytest.raises(UnavailableError, match=r"num\.io\.threads") as caught:
        up(home, 0, properties={"num.io.threads": "0"})

    assert "P657" == caught.value.code
    assert status(home) is None


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidError, match="file") as caught:
        up(tmp_path / "file" / "broker", 0)

    assert "P659" == caught.value.code


def test_topics_and_records_that_the_broker_refuses_are_reported(broker: Running) -> None:
    create_topics(broker.bootstrap, {"tried": 1})
    with pytest.raises(UnavailableError, match="tried") as twice:
        create_topics(broker.bootstrap, {"tried": 1})
    with pytest.raises(UnavailableError, match="tried") as nowhere:
        next(produce(broker.bootstrap, "tried", [[b"1", b"2"]], partitions=2))

    assert ("P642", "P643") == (twice.value.code, nowhere.value.code)
