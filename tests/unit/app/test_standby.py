"""Whether a stand-by is ready, and what ends its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.app.standby import WARMING, Readiness, TurnEnd
from penstock.core.errors import UnavailableError
from penstock.engines.inline import InlineEngine

SECONDS_MAX = 30
AWAY = UnavailableError("lake does not answer", code="P430", hint="")


class Probe:
    """A probe that waits to be let go, each time it is asked, and then does what it was given."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = iter(acts)
        self.asked, self.goes = threading.Semaphore(0), threading.Semaphore(0)
        self.done = threading.Semaphore(0)

    def __call__(self) -> None:
        act = next(self._acts)
        self.asked.release()
        assert self.goes.acquire(timeout=SECONDS_MAX)
        try:
            act()
        finally:
            self.done.release()


def fail(error: BaseException) -> Callable[[], object]:
    """Return what raises an error."""

    def failing() -> None:
        raise error

    return failing


def readiness(probe: Probe) -> Readiness:
    return Readiness(InlineEngine(lambda job: job), probe)


def until(says: Callable[[], bool]) -> None:
    """Wait for what a thread says, which is on its way."""
    wait = threading.Event()
    for _ in range(3_000):
        if says():
            return
        wait.wait(0.01)
    raise AssertionError("it never came")


def test_a_stand_by_is_not_ready_before_it_was_looked_at() -> None:
    probe = Probe(fail(AWAY))
    ready = readiness(probe)
    with ready.kept():
        assert probe.asked.acquire(timeout=SECONDS_MAX)
        assert ready() == WARMING
        probe.goes.release()
        until(lambda: ready() != WARMING)
        assert ready() == "P430  lake does not answer"


def test_a_turn_does_not_wait_for_a_look_and_what_that_finds_is_thrown_away() -> None:
    probe = Probe(fail(AWAY), lambda: None)
    ready = readiness(probe)
    with ready.kept():
        assert probe.asked.acquire(timeout=SECONDS_MAX)
    with ready.kept():
        assert probe.asked.acquire(timeout=SECONDS_MAX)
        probe.goes.release(2)
        for _ in range(2):
            assert probe.done.acquire(timeout=SECONDS_MAX)
        until(lambda: not ready())


def test_what_is_no_error_of_ours_is_raised_where_readiness_is_asked_for() -> None:
    probe = Probe(fail(AssertionError("broken")))
    probe.goes.release()
    ready = readiness(probe)
    with ready.kept(), pytest.raises(AssertionError, match="broken"):
        until(lambda: bool(ready()) and ready() != WARMING)


def test_a_turn_ends_with_its_own_event_and_with_the_process_s() -> None:
    stop = threading.Event()
    one, other = TurnEnd(stop), TurnEnd(stop)
    one.set()
    assert [True, False] == [one.is_set(), other.is_set()]

    stop.set()
    assert other.is_set()
