"""Threads that commit: as many at once as the pace says, in the order they came."""

import threading
from concurrent.futures import CancelledError

import pytest

from penstock.core.commit_pace import LEAST, Pace
from penstock.landing.epoch.commit_pool import PacedCommits


class Held:
    """Acts that wait until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = threading.Event()
        self.changed = threading.Condition()

    def act(self, name: str) -> None:
        with self.changed:
            self.begun.append(name)
            self.changed.notify_all()
        assert self.go.wait(30)

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun) >= count, 30)


def pool_of(seconds: float = 0.0, cpu: float = 0.0) -> PacedCommits:
    """Give a pool whose clocks are read once more at each look."""
    looks = iter(range(1, 100_000))
    return PacedCommits(lambda: seconds * next(looks), lambda: cpu)


def test_as_many_run_at_once_as_the_pace_says_and_the_rest_in_order():
    pool, held = pool_of(), Held()
    futures = [pool.submit(held.act, str(number)) for number in range(3 * LEAST)]
    held.wait_for(LEAST)
    at_first = len(held.begun)
    held.go.set()
    [each.result(30) for each in futures]
    pool.shutdown(wait=True, cancel_futures=True)

    assert LEAST == at_first
    assert {*map(str, range(3 * LEAST))} == {*held.begun}


def test_while_work_waits_the_pace_is_judged():
    pool, held = pool_of(seconds=1.0), Held()
    futures = [pool.submit(held.act, str(number)) for number in range(10 * LEAST)]
    held.go.set()
    [each.result(30) for each in futures]
    pool.shutdown(wait=True, cancel_futures=True)

    assert Pace() != pool.pace


def test_what_has_not_begun_is_dropped_at_the_end():
    pool, held = pool_of(), Held()
    futures = [pool.submit(held.act, str(number)) for number in range(LEAST + 1)]
    held.wait_for(LEAST)
    ending = threading.Thread(target=pool.shutdown, kwargs={"wait": True, "cancel_futures": True})
    ending.start()
    with pytest.raises(CancelledError):
        futures[-1].result(30)
    held.go.set()
    ending.join(30)

    assert [None] * LEAST == [each.result(30) for each in futures[:-1]]


def test_an_error_is_the_futures():
    pool = pool_of()

    def fails(name: str) -> None:
        raise KeyError(name)

    future = pool.submit(fails, "orders")
    with pytest.raises(KeyError):
        future.result(30)
    pool.shutdown(wait=True, cancel_futures=True)


def test_what_ended_is_told_though_no_further_thread_can_be_had(monkeypatch):
    pool, held = pool_of(seconds=1.0), Held()
    futures = [pool.submit(held.act, str(number)) for number in range(10 * LEAST)]
    held.wait_for(LEAST)

    def refused(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", refused)
        held.go.set()
        assert [None] * len(futures) == [each.result(30) for each in futures]
    pool.shutdown(wait=True, cancel_futures=True)
