"""Exit code 3 and another owner alive: one pipeline has one owner, and rows land once whoever wins."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.integration.cli.shop import Shop, problem


def test_a_second_run_is_refused_while_the_first_is_alive(shop: Shop) -> None:
    shop.send(0, 100)
    with shop.driver() as first:
        first.wait_for("TableCommitted", 2)
        second = shop.run()
        assert (75, "P510") == (second.code, problem(second)[0])
        assert f"pid {first.pid}" in second.out
        assert "--takeover" in problem(second)[1]

        shop.send(100, 100)
        first.wait_for("TableCommitted", 4)
        first.send(signal.SIGTERM)
        assert 0 == first.end().code
    assert (list(range(200)), list(range(200))) == shop.ids()


def test_the_first_ends_with_3_when_another_takes_over(shop: Shop) -> None:
    shop.send(0, 100)
    with shop.driver() as first:
        first.wait_for("TableCommitted", 2)
        with shop.driver("--takeover") as second:
            second.wait_for("PipelineStarted")
            shop.send(100, 100)
            ended = first.end()
            assert 3 == ended.code, ended
            assert ended.json["error"]["code"] in {"P501", "P520"}
            assert "do not restart" in ended.json["error"]["hint"]

            second.wait_for("TableCommitted", 2)
            second.send(signal.SIGTERM)
            assert 0 == second.end().code
    assert (list(range(200)), list(range(200))) == shop.ids()
    shop.prove()


def test_an_owner_that_was_killed_is_not_waited_for(shop: Shop) -> None:
    shop.send(0, 100)
    with shop.driver() as first:
        first.wait_for("TableCommitted", 1)
        first.kill()
    assert 0 == shop.run().code
    assert (list(range(100)), list(range(100))) == shop.ids()


def test_a_stopped_process_that_wakes_after_a_takeover_lands_nothing(shop: Shop) -> None:
    """SIGSTOP for longer than nobody waits, a takeover, SIGCONT: the zombie is fenced."""
    shop.send(0, 100)
    with shop.driver() as zombie:
        zombie.wait_for("TableCommitted", 2)
        _stop(zombie.pid, shop.directory)
        shop.send(100, 100)
        assert 0 == shop.run("--takeover").code
        os.kill(zombie.pid, signal.SIGCONT)
        assert 3 == zombie.end().code
    assert (list(range(200)), list(range(200))) == shop.ids()
    shop.prove()


def _stop(pid: int, directory: Path) -> None:
    """Stop a process between its writes: in one it would keep the lock, and everybody waits."""
    databases = [directory / "state" / "shop.db", directory / "lake" / "catalog.db"]
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        _wait_until_all_threads_stand(pid)
        if not any(_is_locked(path) for path in databases):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.013)
    raise AssertionError("it writes all the time")


def _wait_until_all_threads_stand(pid: int) -> None:
    """The signal is there at once; on a busy machine its threads run on for a moment."""
    tasks = Path(f"/proc/{pid}/task")
    while not all(
        (task / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
        for task in tasks.iterdir()
    ):
        time.sleep(0.005)


def _is_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0.05, isolation_level=None)) as database:
        try:
            database.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        database.execute("rollback")
        return False
