"""Exit code 3 and another owner alive: one pipeline has one owner, and rows land once."""

from __future__ import annotations

import signal

import psutil
from tests.integration.cli.shop import Shop, problem
from tests.processes.sigstop import let_locks_go

DATABASES = ("state/shop.db", "lake/catalog.db")


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
        process = psutil.Process(zombie.pid)
        process.suspend()
        assert let_locks_go(process, [shop.directory / name for name in DATABASES])
        shop.send(100, 100)
        assert 0 == shop.run("--takeover").code
        process.resume()
        assert 3 == zombie.end().code
    assert (list(range(200)), list(range(200))) == shop.ids()
    shop.prove()
