"""A wait that lasts is reported now and then, so that a log is never silent and never full of it."""

from __future__ import annotations

from penstock.core.events import BacklogCounted, Event, WaitBegan, WaitLasted
from penstock.observe.log import line_of
from penstock.observe.status import StatusBoard
from penstock.observe.watches import WaitWatch


def reported_within(clock, seconds: int, *again: Event) -> list[Event]:
    """Look at a board each second; the events happen over and over."""
    board, reported = StatusBoard("shop", clock), []
    watch = WaitWatch(board, clock, reported.append)
    for _ in range(seconds):
        for event in again:
            board(event)
        clock.wait(1.0)
        watch.check()
    return reported


def test_a_short_wait_says_nothing(clock) -> None:
    assert [] == reported_within(clock, 4, WaitBegan("Spark"))


def test_a_long_wait_is_reported_after_5_15_and_30_seconds_and_then_each_minute(clock) -> None:
    reported = reported_within(clock, 185, WaitBegan("Spark"))

    assert [5, 15, 30, 60, 120, 180] == [each.seconds for each in reported]
    assert {"Spark"} == {each.what for each in reported}


def test_waits_that_change_all_the_time_say_nothing(clock) -> None:
    assert [] == reported_within(clock, 60, WaitBegan("a to open"), WaitBegan("b to open"))


def test_a_run_that_knows_its_backlog_waits_for_nothing(clock) -> None:
    assert [] == reported_within(clock, 60, WaitBegan("Spark"), BacklogCounted({"a": 0}, {}, {}))


def test_a_line_says_what_is_waited_for_and_how_long_it_has_lasted() -> None:
    line = line_of(WaitLasted("Java and Spark to start", 75.2))

    assert ("waiting", "1m 15s so far for Java and Spark to start") == (line.subject, line.text)
