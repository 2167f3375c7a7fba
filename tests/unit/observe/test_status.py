import threading
from pathlib import Path

import pytest
from tests.story.clock import START_MS, ManualClock

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import PipelineStarted, PipelineStopped, TableCommitted
from penstock.core.leadership_events import LeadershipGained, StandbyChanged
from penstock.observe.snapshot import State
from penstock.observe.status import (
    SILENT_AFTER_MS,
    StatusBoard,
    StatusFile,
    read_status,
    silent,
    status_path,
)

STARTED = PipelineStarted("shop", 3, "host:1", 1, 0)


@pytest.fixture
def board(clock) -> StatusBoard:
    return StatusBoard("shop", clock)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return status_path(tmp_path, "shop")


def quietly(text: str) -> None:
    raise AssertionError(text)


def test_the_file_is_named_after_the_pipeline(tmp_path: Path) -> None:
    assert tmp_path / "shop.status.json" == status_path(tmp_path, "shop")


def test_the_board_folds_what_it_hears(board: StatusBoard) -> None:
    board(STARTED)
    board.passed(CrashPoint.COMMIT_BEFORE)

    assert (3, State.STARTING) == (board.snapshot().generation, board.snapshot().state)


def test_the_board_sees_the_stopping_point(board: StatusBoard) -> None:
    board.passed(CrashPoint.STOPPING)

    assert State.STOPPING == board.snapshot().state


def test_events_of_many_threads_all_count(board: StatusBoard) -> None:
    event = TableCommitted(1, "lake.a", "shop", "append", "c", "s", 1, 1, 1, 0.1)

    def report() -> None:
        for _ in range(200):
            board(event)

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 800 == board.snapshot().tables["lake.a"].rows


def test_another_process_reads_what_the_board_knows(board, clock, path: Path) -> None:
    board(STARTED)

    assert StatusFile(path, board, clock, quietly).write_if_due()
    assert (board.snapshot(), clock.now_ms()) == read_status(path)


def test_news_are_written_at_most_once_a_second(board, clock, path: Path) -> None:
    file = StatusFile(path, board, clock, quietly)
    due = []

    for _ in range(5):
        board(STARTED)
        due.append(file.write_if_due())
        clock.ms += 400

    assert [True, False, False, True, False] == due


def test_without_news_it_is_written_every_five_seconds(board, clock, path: Path) -> None:
    file = StatusFile(path, board, clock, quietly)
    due = []

    for _ in range(11):
        due.append(file.write_if_due())
        clock.ms += 1_000

    assert [0, 5, 10] == [second for second, was in enumerate(due) if was]


def test_a_wall_clock_that_is_set_back_holds_no_writing_up(board, path: Path) -> None:
    clock = ManualClock()
    file = StatusFile(path, board, clock, quietly)
    file.write_if_due()
    clock.set_wall_clock(START_MS - 3_600_000)
    clock.advance(5)

    assert file.write_if_due()
    assert START_MS - 3_595_000 == read_status(path)[1]


def test_leaving_writes_the_end_at_once(board, clock, path: Path) -> None:
    with StatusFile(path, board, clock, quietly):
        assert State.STARTING == read_status(path)[0].state
        board(PipelineStopped("shop", "SIGTERM", clean=True))

    assert State.STOPPED == read_status(path)[0].state
    assert [path] == list(path.parent.iterdir())
    assert "status-file" not in {thread.name for thread in threading.enumerate()}


def test_a_stand_by_leaves_the_file_to_its_owner_until_its_turn(board, clock, path: Path) -> None:
    board(StandbyChanged("shop", "there 7", ""))
    with StatusFile(path, board, clock, quietly) as file:
        assert not file.write_if_due()
        assert not path.exists()
        board(LeadershipGained("shop", "its owner died"))
        file.write_if_due()
        assert State.STARTING == read_status(path)[0].state
        board(StandbyChanged("shop", "there 7", ""))

    assert State.STARTING == read_status(path)[0].state


def test_a_file_that_cannot_be_written_is_reported_once(board, clock, tmp_path: Path) -> None:
    complaints: list[str] = []
    (tmp_path / "taken").write_text("a file where a folder would have to be")
    path = tmp_path / "taken" / "shop.status.json"

    with StatusFile(path, board, clock, complaints.append):
        pass

    assert [f"the status file {path} cannot be written: File exists"] == complaints


def test_the_folder_of_the_file_is_made(board, clock, tmp_path: Path) -> None:
    path = tmp_path / "state" / "shop.status.json"

    with StatusFile(path, board, clock, pytest.fail):
        pass

    assert read_status(path) is not None


def test_no_file_is_no_status(path: Path) -> None:
    assert None is read_status(path)


def test_a_file_that_is_no_status_is_refused(path: Path) -> None:
    path.write_text("hello")

    with pytest.raises(InvalidError) as caught:
        read_status(path)

    assert "P590" == caught.value.code


def test_a_file_that_cannot_be_read_is_reported(path: Path) -> None:
    path.mkdir()

    with pytest.raises(UnavailableError) as caught:
        read_status(path)

    assert ("P591", f"check its permissions: ls -l {path}") == (
        caught.value.code,
        caught.value.hint,
    )


def test_a_process_that_stops_writing_without_an_end_event_is_silent(board) -> None:
    snapshot = board.snapshot()

    assert not silent(snapshot, 0, SILENT_AFTER_MS)
    assert silent(snapshot, 0, SILENT_AFTER_MS + 1)
    board(PipelineStopped("shop", "SIGTERM", clean=True))
    assert not silent(board.snapshot(), 0, SILENT_AFTER_MS + 1)


def test_a_status_from_times_to_come_proves_no_life(board) -> None:
    snapshot = board.snapshot()

    assert not silent(snapshot, SILENT_AFTER_MS, 0)
    assert silent(snapshot, SILENT_AFTER_MS + 1, 0)
