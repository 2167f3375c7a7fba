"""Whether a stand-by is ready, and what ends its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from penstock.app import standby
from penstock.app.standby import WARMING, Readiness, TurnEnd, run_in_turn
from penstock.connectors.memory.store import MemoryStore
from penstock.core.claims import Claim, Generation
from penstock.core.errors import FencedError, UnavailableError
from penstock.core.leadership import Reason
from penstock.engines.inline import InlineEngine
from penstock.ports.store import Owner

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


class Slow(InlineEngine):
    """An engine whose tiny job, but for the first one, waits to be let go."""

    def __init__(self) -> None:
        super().__init__(lambda job: job)
        self.jobs, self.goes = 0, threading.Event()
        self.asked = threading.Event()

    def warm(self) -> None:
        self.jobs += 1
        if self.jobs > 1:
            self.asked.set()
            assert self.goes.wait(SECONDS_MAX)


def test_a_turn_waits_for_a_tiny_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails closes the engine: it is not to be that of a turn."""
    monkeypatch.setattr(standby, "CHECK_SECONDS", 0.0)
    engine, ended = Slow(), threading.Event()
    ready = Readiness(engine, lambda: None)

    def stand_by() -> None:
        with ready.kept():
            assert engine.asked.wait(SECONDS_MAX)
            assert not ready()
        ended.set()

    thread = threading.Thread(target=stand_by)
    thread.start()
    assert engine.asked.wait(SECONDS_MAX)
    assert not ended.is_set()
    engine.goes.set()
    thread.join(SECONDS_MAX)
    assert ended.is_set()


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


@dataclass
class Member:
    """A membership whose turns come for given reasons, and that is asked when it is told so."""

    reasons: list[Reason | None]
    pipeline: str = "shop"
    offered: list[str] = field(default_factory=list)
    followed: bool = False
    hand_over: Callable[[], None] = lambda: None

    clock: None = None

    def begin(self) -> None: ...

    def leave(self) -> None: ...

    def turn(self) -> Reason | None:
        return self.reasons.pop(0)

    @contextmanager
    def owning(self, hand_over: Callable[[], None]) -> Iterator[None]:
        self.hand_over = hand_over
        yield

    def is_followed(self) -> bool:
        return self.followed

    def offer(self) -> None:
        self.offered.append("anybody")


@dataclass
class Line:
    """A pipeline whose store knows an owner, and what stands by for it."""

    member: Member
    outcomes: list[Exception | str]
    stop: threading.Event = field(default_factory=threading.Event)
    forced: list[bool] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        owner, span = Owner("line/x", "there", 7), {"now_ms": 1, "alive_until_ms": 2}
        self.store.claim("shop", owner, above=Generation(3), takeover=False, **span)

    def run(self, ends: threading.Event, *, takeover: bool) -> str:
        self.forced.append(takeover)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome == "is asked":
            self.member.hand_over()
        if outcome == "is stopped":
            self.stop.set()
        assert ends.is_set() is (outcome in {"is asked", "is stopped"})
        return outcome

    def ended(self) -> str | None:
        ready = Readiness(InlineEngine(lambda job: job), lambda: None)
        return run_in_turn(self.member, ready, self.store, self.stop, self.run)


def fenced_by(line: str) -> FencedError:
    error = FencedError("another one has it", code="P501", hint="")
    error.by = Claim(Generation(9), f"{line}/y")
    return error


TOO_LATE = UnavailableError("another one is alive", code="P510", hint="")


@pytest.mark.parametrize("overtaken", [TOO_LATE, fenced_by("line")])
def test_who_is_overtaken_in_its_own_line_stands_by_again(overtaken: Exception) -> None:
    line = Line(Member([Reason.RELEASED, Reason.DIED]), [overtaken, "ends by itself"])

    assert line.ended() == "ends by itself"
    assert [False, True] == line.forced


@pytest.mark.parametrize("error", [fenced_by("another"), AWAY])
def test_who_is_fenced_by_another_line_or_fails_ends(error: Exception) -> None:
    line = Line(Member([Reason.SILENT]), [error])
    with pytest.raises(type(error)) as raised:
        line.ended()

    assert error is raised.value


def test_who_is_asked_stands_by_again_and_who_is_stopped_gives_way_to_who_is_ready() -> None:
    member = Member([Reason.FIRST, Reason.HANDED_OVER], followed=True)
    line = Line(member, ["is asked", "is stopped"])

    assert line.ended() == "is stopped"
    assert ["anybody"] == member.offered
    assert [False, False] == line.forced


def test_who_is_stopped_and_is_followed_by_nobody_offers_nothing() -> None:
    line = Line(Member([Reason.FIRST]), ["is stopped"])

    assert line.ended() == "is stopped"
    assert [] == line.member.offered
