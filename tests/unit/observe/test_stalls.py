"""The stall alarm: it fires for each way in which consumed records are not committed, once."""

from __future__ import annotations

import pytest

from penstock.core import events
from penstock.observe.status import StatusBoard
from penstock.observe.watches import StallWatch

INTERVAL_MS = 1000
PLANNED = events.EpochPlanned(1, 1, 9, {"orders": 9}, {"lake.a": 9})
READ = events.SliceRead(1, 0, 9, 100, 0.1)
WRITTEN = events.FilesWritten(1, "lake.a", 1, 9, 100)
PREPARED = events.EpochPrepared(1, 9, 1, 0.1)
CONFLICT = events.CommitConflicted("lake.a", "shop", "c", 1, "another writer")
COMMITTED = events.TableCommitted(1, "lake.a", "shop", "append", "c", "s", 9, 1, 100, 0.1)

# What the pipeline says over and over while it is stuck, by what is wrong outside.
STALLS = {
    "catalog down": (PLANNED, READ, events.TableParked("lake.a", "P430", "no answer")),
    "table missing": (PLANNED, READ, events.TableParked("lake.a", "P459", "missing")),
    "broker gone": (events.PartitionStalled("all", "no broker answers"),),
    "disk full": (PLANNED, READ, events.TableParked("lake.a", "P480", "no room is left")),
    "conflict storm": (PLANNED, READ, WRITTEN, PREPARED, CONFLICT),
    "a reader that hangs": (PLANNED, READ),
}


class Watched:
    def __init__(self, clock) -> None:
        self.clock, self.reported = clock, []
        self.board = StatusBoard("shop", clock)
        self.watch = StallWatch(self.board, clock, self.reported.append, interval_ms=INTERVAL_MS)
        self.board(events.PipelineStarted("shop", 1, "me", 1, 0))

    def seconds_pass(self, *again: events.Event, seconds: float = 3) -> None:
        for _ in range(int(seconds * 2)):
            for event in again:
                self.board(event)
            self.clock.wait(0.5)
            self.watch.check()


@pytest.fixture
def watched(clock) -> Watched:
    return Watched(clock)


@pytest.mark.parametrize("what", STALLS)
def test_every_kind_of_stall_is_reported_once(watched: Watched, what: str) -> None:
    for event in STALLS[what]:
        watched.board(event)
    watched.seconds_pass(STALLS[what][-1])

    (stall,) = watched.reported
    assert isinstance(stall, events.CommitsStalled)
    assert ("broker gone" == what) == stall.kafka
    assert (stall.tables == ("lake.a",)) == (what not in ("broker gone", "a reader that hangs"))


def test_the_end_of_a_stall_is_reported_once(watched: Watched) -> None:
    for event in (PLANNED, READ, WRITTEN, PREPARED):
        watched.board(event)
    watched.seconds_pass()
    watched.board(COMMITTED)
    watched.seconds_pass()

    assert ["CommitsStalled", "CommitsResumed"] == [
        type(each).__name__ for each in watched.reported
    ]
    assert 3.0 < watched.reported[1].seconds < 4.0


def test_a_pipeline_with_nothing_to_do_does_not_stall(watched: Watched) -> None:
    for event in (PLANNED, READ, WRITTEN, PREPARED, COMMITTED):
        watched.board(event)
    watched.seconds_pass(seconds=60)

    assert [] == watched.reported


@pytest.mark.parametrize("again", [PLANNED, events.KafkaAnswered(3.0)])
def test_brokers_that_answer_again_end_the_stall(watched: Watched, again: events.Event) -> None:
    watched.seconds_pass(events.PartitionStalled("all", "no broker answers"))
    watched.board(again)
    watched.watch.check()

    assert ["CommitsStalled", "CommitsResumed"] == [
        type(each).__name__ for each in watched.reported
    ]


def test_stop_across_partitions_without_a_leader_is_no_stall_of_all(watched: Watched) -> None:
    watched.seconds_pass(events.PartitionStalled("orders[0]", "no leader"))

    assert [] == watched.reported


def test_a_table_that_is_paused_stalls_nothing_and_its_commits_have_their_time_afterwards(
    watched: Watched,
) -> None:
    paused = events.PauseBegan("lake.a", watched.clock.now_ms() + 60_000)
    for event in (PLANNED, READ, WRITTEN, PREPARED, paused):
        watched.board(event)
    watched.seconds_pass(seconds=30)
    watched.board(events.PauseEnded("lake.a"))
    watched.seconds_pass(seconds=1)
    assert [] == watched.reported

    watched.seconds_pass(seconds=3)
    (stall,) = watched.reported
    assert ("lake.a",) == stall.tables
