"""The display of publications: what events add up to."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.core import publication_events as events
from penstock.core.leadership_events import LeadershipGained, StandbyChanged
from penstock.observe.publication_board import PublicationBoard


@pytest.fixture
def board(clock) -> PublicationBoard:
    return PublicationBoard({"a": "crm.a", "b": "crm.b"}, clock)


def drawn(board: PublicationBoard, *, width: int = 100, lines: int = 9) -> str:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    screen.print(board.draw(lines).shown)
    return screen.file.getvalue()


def test_rows_rates_and_lag_are_those_of_this_run(board, clock):
    assert "lag ? records" in drawn(board)
    board(events.PublicationStarted("a", "crm.a", 3, 7, 5_000))
    board(events.PublicationStarted("b", "crm.b", 3, 0, 0))
    clock.ms += 1_000
    board(events.RowsPublished("a", "crm.a", 8, 2_000, 2, 0.25, 3_000))
    clock.ms += 1_000
    found = drawn(board)

    assert "lag 3,000 records" in found
    (line,) = [each.split() for each in found.splitlines() if each.startswith("a ")]
    assert ["a", "crm.a", "2,000", "1,000", "3,000", "1", "250", "ms", "1s", "ago"] == line
    assert not board.draw(9).has_ended


def test_what_is_wrong_is_said(board):
    board(events.PublicationStarted("a", "crm.a", 3, 7, 5))
    board(events.TransactionGivenUp("a", 8, "a task was not seen to run once"))
    assert "a gave a transaction up: a task was not" in drawn(board)

    board(events.RowsPublished("a", "crm.a", 8, 3, 2, 0.2, 0, {}, {"P840": 2}))
    board(events.PublicationStopped("b", "no broker answers", clean=False, code="P280"))
    found = drawn(board, lines=1)
    assert "gave a transaction up" not in found
    assert "a rejected 2 rows" in found
    assert "b failed  P280  no broker answers" in found
    assert "and 1 more publication" in found
    assert [each for each in found.splitlines() if each.startswith("b  ")]

    board(events.PublicationStopped("a", "caught up", clean=True))
    assert board.draw(9).has_ended


def test_one_that_stands_by_says_for_whom_and_has_not_ended(board):
    board(StandbyChanged("shop/publish/a", "", "P430  catalog lake refuses the token"))
    assert "a stands by, could not take over: P430  catalog lake refuses" in drawn(board)

    board(LeadershipGained("shop/publish/a", "its owner died"))
    board(events.PublicationStarted("a", "crm.a", 3, 7, 5_000))
    assert "stands by" not in drawn(board)
    board(events.PublicationStopped("b", "caught up", clean=True))
    board(events.PublicationStopped("a", "asked to stop", clean=True))
    board(StandbyChanged("shop/publish/a", "host-b 7", ""))
    assert "a stands by, ready to take over from host-b 7" in drawn(board)
    assert "lag ? records" in drawn(board)
    assert not board.draw(9).has_ended


def test_it_is_readable_in_60_columns(board):
    board(events.PublicationStarted("a", "crm.a", 3, 7, 5_000_000))
    assert all(len(each) <= 60 for each in drawn(board, width=60).splitlines())
    assert "5,000,000" in drawn(board, width=60)
