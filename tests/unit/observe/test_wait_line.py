"""A terminal shows what a command waits for in one line, and nothing of it afterwards."""

from __future__ import annotations

import pytest

from penstock.cli.waiting import ERASE, WaitLine, waits_shown
from penstock.core.events import BacklogCounted, WaitBegan
from penstock.observe.status import StatusBoard


def test_a_line_is_written_over_and_erased_when_the_wait_is_over(clock) -> None:
    board, written = StatusBoard("", clock), []
    line = WaitLine(board, clock, written.append)
    line.check()
    board(WaitBegan("the pending store to answer"))
    clock.wait(0.9)
    board(WaitBegan("Kafka to answer"))
    line.check()
    for _ in range(2):
        clock.wait(1.0)
        line.check()
    board(BacklogCounted({}, {}, {}))
    line.check()
    line.check()
    line.erase()

    waits = [f"{ERASE}waiting {n}s for Kafka to answer" for n in (1, 2)]
    assert [*waits, ERASE] == written


def test_a_short_wait_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with waits_shown(as_json=False) as observer:
        observer(WaitBegan("Kafka to answer"))

    assert ("", "") == tuple(capsys.readouterr())
