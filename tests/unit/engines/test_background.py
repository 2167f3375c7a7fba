import threading

import pytest

from penstock.core.errors import UnavailableError
from penstock.engines.background import BackgroundEngine, CancellationToken
from penstock.engines.inline import InlineEngine


class Counted(InlineEngine):
    """An engine that knows how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def starting(engine: InlineEngine, may_start: threading.Event) -> BackgroundEngine:
    def start(_token: CancellationToken) -> InlineEngine:
        assert may_start.wait(10)
        return engine

    return BackgroundEngine(start)


def test_its_owner_goes_on_while_it_starts_and_waits_when_it_needs_it() -> None:
    may_start = threading.Event()
    engine = starting(InlineEngine(capacity=3), may_start)
    engine.cancel()
    threading.Timer(0.01, may_start.set).start()

    assert 3 == engine.capacity()
    assert [] == engine.run([])


def test_the_caller_gets_the_error_of_the_failed_start() -> None:
    def start(_token: CancellationToken) -> InlineEngine:
        raise UnavailableError("there is no memory for Java", code="P610", hint="make room")

    engine = BackgroundEngine(start)
    for act in (engine.capacity, lambda: engine.run([])):
        with pytest.raises(UnavailableError, match="no memory for Java"):
            act()
    engine.cancel()
    engine.close()


def test_it_is_closed_once_started_and_its_start_knows_that_it_is_not_wanted() -> None:
    inner, reported = Counted(), []
    asked = threading.Event()

    def start(token: CancellationToken) -> InlineEngine:
        reported.append(token.is_cancelled)
        asked.set()
        while not token.is_cancelled:
            pass
        reported.append(token.is_cancelled)
        return inner

    engine = BackgroundEngine(start)
    assert asked.wait(10)
    engine.close()

    assert [False, True] == reported
    assert 1 == inner.closed


def test_a_start_that_is_not_wanted_any_more_is_ended_and_fails_in_silence() -> None:
    begun, ended = threading.Event(), threading.Event()

    def start(token: CancellationToken) -> InlineEngine:
        token.on_cancel(ended.set)
        begun.set()
        assert ended.wait(10)
        raise OSError("the Java process is gone")

    engine = BackgroundEngine(start)
    assert begun.wait(10)
    assert not engine.is_ready(0.0)
    engine.close()

    assert ended.is_set()
    assert engine.is_ready(0.0)


def test_what_is_begun_once_it_is_not_wanted_is_ended_at_once() -> None:
    token, ends = CancellationToken(), []
    token.on_cancel(lambda: ends.append("before"))
    token.cancel()
    token.on_cancel(lambda: ends.append("after"))

    assert (True, ["before", "after"]) == (token.is_cancelled, ends)
