"""What a run says of itself: when, how often, and what of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.core import events, leadership_events
from penstock.core.errors import UnavailableError
from penstock.observe.reporting import Happenings, Reporter
from penstock.observe.snapshot import State, from_json
from penstock.observe.status import StatusBoard
from penstock.ports.reports import HAPPENINGS_KEPT, Happening, Report

STARTED = events.PipelineStarted("shop", 4, "me", 1, 0)
PARKED = events.TableParked("lake.a", "P430", "lake.a: no answer")


class KeptReports:
    """Keeps reports in a list; fails when told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.heard: list[Happening] = []
        self.is_down = False
        self.cpu_seconds = 0.001
        self.spent = 0.0

    def keep(
        self, _pipeline: str, _generation: int, body: bytes, happened: Sequence[Happening]
    ) -> None:
        self.spent += self.cpu_seconds
        if self.is_down:
            raise UnavailableError("no server answers", code="P512", hint="wait")
        self.bodies.append(body)
        self.heard += happened

    def newest(self, _pipeline: str) -> Report | None:
        return None

    def happenings(self, _pipeline: str) -> Sequence[Happening]:
        return self.heard

    def close(self) -> None:
        pass


class Reported:
    def __init__(self, clock) -> None:
        self.clock, self.complaints = clock, []
        self.board, self.happenings = StatusBoard("shop", clock), Happenings(clock)
        self.kept = KeptReports()
        self.reporter = Reporter(
            self.kept,
            self.board,
            self.happenings,
            clock,
            cpu_seconds=lambda: self.kept.spent,
            complain=self.complaints.append,
        )

    def hear(self, event: events.Event) -> None:
        self.board(event)
        self.happenings(event)

    def seconds_pass(self, seconds: int, *, busy: bool = False) -> int:
        """Let time pass; give how many reports were written."""
        written = 0
        for number in range(seconds):
            if busy:
                self.hear(events.SliceRead(1, number, 1, 1, 0.1))
            self.clock.wait(1)
            written += self.reporter.report_if_due()
        return written


@pytest.fixture
def reported(clock) -> Reported:
    return Reported(clock)


def test_only_who_claimed_the_pipeline_reports(reported: Reported) -> None:
    assert 0 == reported.seconds_pass(10)
    reported.hear(STARTED)
    assert 1 == reported.seconds_pass(1)
    reported.hear(leadership_events.StandbyChanged("shop", "b", ""))
    assert 0 == reported.seconds_pass(10)


def test_what_is_new_is_reported_each_second_else_each_five(reported: Reported) -> None:
    reported.hear(STARTED)

    assert (10, 2) == (reported.seconds_pass(10, busy=True), reported.seconds_pass(10))


def test_a_report_that_takes_long_is_written_less_often(reported: Reported) -> None:
    reported.kept.cpu_seconds = 0.05
    reported.hear(STARTED)
    written = reported.seconds_pass(100, busy=True)

    assert 20 == written, "of 100 s one is spent"


def test_what_happened_is_reported_once_in_the_words_of_the_log(reported: Reported) -> None:
    for event in (STARTED, PARKED):
        reported.hear(event)
    reported.seconds_pass(3, busy=True)  # slices are for debugging
    parked = reported.kept.heard[1]

    assert ["PipelineStarted", "TableParked"] == [each.event for each in reported.kept.heard]
    assert ("error", "lake.a", "parked, P430: no answer") == (
        parked.level,
        parked.subject,
        parked.text,
    )


def test_a_store_that_is_down_is_complained_of_once_and_told_all_later(
    reported: Reported,
) -> None:
    reported.kept.is_down = True
    reported.hear(STARTED)
    reported.seconds_pass(5, busy=True)
    reported.kept.is_down = False
    reported.hear(PARKED)
    reported.seconds_pass(2, busy=True)

    assert ["what this run does is not seen from other hosts: no server answers"] == (
        reported.complaints
    )
    assert ["PipelineStarted", "TableParked"] == [each.event for each in reported.kept.heard]


def test_of_very_much_that_happened_the_newest_is_kept(reported: Reported) -> None:
    for number in range(HAPPENINGS_KEPT + 10):
        reported.happenings(events.TableParked(f"lake.{number}", "P430", "x"))
    heard, total = reported.happenings.after(0)

    assert (HAPPENINGS_KEPT, HAPPENINGS_KEPT + 10) == (len(heard), total)
    assert "lake.10" == heard[0].subject
    assert ([], total) == reported.happenings.after(total)


def test_the_end_of_a_run_is_its_last_report(reported: Reported) -> None:
    reported.hear(STARTED)
    with reported.reporter:
        reported.hear(events.PipelineStopped("shop", "asked to stop", clean=True))

    snapshot, _ = from_json(reported.kept.bodies[-1])
    assert State.STOPPED == snapshot.state
