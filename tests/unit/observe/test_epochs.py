"""Epochs by phases, as events tell of them."""

from __future__ import annotations

from penstock.core import events
from penstock.observe.snapshot import RECENT_EPOCHS_MAX, from_json, to_json
from penstock.observe.status import StatusBoard


def planned(epoch: int, records: int = 9) -> events.EpochPlanned:
    return events.EpochPlanned(epoch, 2, records, {"orders": 9}, {"lake.a": 9})


def committed(epoch: int, table: str, seconds: float) -> events.TableCommitted:
    return events.TableCommitted(epoch, table, "shop", "append", "c", "s", 9, 1, 100, seconds)


def test_an_epoch_names_the_slowest_of_each_phase(clock) -> None:
    board = StatusBoard("shop", clock)
    begun = clock.now_ms()
    for event in (
        planned(1),
        events.SliceRead(1, 0, 5, 100, 0.4),
        events.SliceRead(1, 1, 4, 100, 0.1),
        events.EpochPrepared(1, 9, 2, 0.1),
        committed(1, "lake.a", 0.1),
        committed(1, "lake.b", 0.2),
    ):
        board(event)
        clock.wait(1)
    [epoch] = board.snapshot().epochs
    ends = [epoch.read_ms, epoch.prepared_ms, epoch.committed_ms]

    assert [2_000, 3_000, 5_000] == [(end or 0) - begun for end in ends]
    assert (2, 2, 0, "lake.b") == (
        epoch.slices_read,
        epoch.commits,
        epoch.slowest_slice,
        epoch.slowest_table,
    )


def test_a_later_commit_ends_the_epochs_that_it_joined(clock) -> None:
    board = StatusBoard("shop", clock)
    for number in (1, 2, 3):
        board(planned(number))
        if number < 3:
            board(events.EpochPrepared(number, 9, 1, 0.1))
    board(committed(2, "lake.a", 0.1))

    assert [True, True, False] == [
        each.committed_ms is not None for each in board.snapshot().epochs
    ]


def test_the_newest_are_kept_in_the_document_and_a_new_run_begins_anew(clock) -> None:
    board = StatusBoard("shop", clock)
    for number in range(RECENT_EPOCHS_MAX + 5):
        board(planned(number))
    board(planned(99, records=0))
    kept = board.snapshot()
    read, _ = from_json(to_json(kept, written_ms=1))
    board(events.PipelineStarted("shop", 2, "me", 1, 0))

    assert [*range(5, RECENT_EPOCHS_MAX + 5)] == [each.epoch for each in kept.epochs]
    assert kept.epochs == read.epochs
    assert () == board.snapshot().epochs
