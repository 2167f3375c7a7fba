import io
import os
from contextlib import suppress

import pytest
from rich.console import Console

from penstock.core.events import FilesWritten, PipelineStopped, TableCommitted
from penstock.observe.progress import Progress, console_on
from penstock.observe.status import StatusBoard

COMMIT = TableCommitted(1, "lake.a", "shop", "append", "c", "s", 20_000, 4, 1_000, 0.1)


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=80, height=24, force_terminal=terminal, color_system=None
    )


def test_a_terminal_shows_the_board_and_keeps_its_last_state(clock) -> None:
    board, screen = StatusBoard("shop", clock), console(terminal=True)

    with Progress(board, clock, screen, interval_ms=1_000):
        board(COMMIT)
        screen.print("a line above")
        board(PipelineStopped("shop", "SIGTERM", clean=True))

    text = screen.file.getvalue()
    last = text[text.rindex("shop") :]
    assert "a line above" in text
    assert "shop  stopped 0s ago" in last
    assert "20,000" in last
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is shown again


def test_anything_else_shows_nothing(clock) -> None:
    board, pipe = StatusBoard("shop", clock), console(terminal=False)

    with Progress(board, clock, pipe, interval_ms=1_000):
        board(COMMIT)

    assert "" == pipe.file.getvalue()


def test_an_error_inside_leaves_the_terminal_as_it_was(clock) -> None:
    screen = console(terminal=True)
    progress = Progress(StatusBoard("shop", clock), clock, screen, interval_ms=1_000)

    with pytest.raises(ZeroDivisionError), progress:
        _ = 1 / 0

    text = screen.file.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_stall_is_judged_against_the_interval(clock) -> None:
    board, screen = StatusBoard("shop", clock), console(terminal=False)
    progress = Progress(board, clock, screen, interval_ms=1_000)
    board(FilesWritten(1, "lake.a", 1, 5, 100))
    clock.ms += 2_001

    screen.print(progress.drawn())

    assert "stalled: records read 2s ago are not committed in lake.a" in screen.file.getvalue()


def test_more_tables_than_lines_are_counted(clock) -> None:
    tables = tuple(f"lake.t{number:03}" for number in range(100))
    screen = console(terminal=False)

    screen.print(
        Progress(StatusBoard("shop", clock, tables=tables), clock, screen, interval_ms=1).drawn()
    )

    assert "and 86 more tables" in screen.file.getvalue()


def test_a_terminal_that_is_gone_stops_nothing_and_keeps_nothing(clock, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    master, slave = os.openpty()
    terminal = os.fdopen(slave, "w")
    console = console_on(terminal)

    with Progress(StatusBoard("shop", clock), clock, console, interval_ms=1_000):
        assert console.is_terminal
        os.close(master)
        for _ in range(3):
            console.print("a line above")

    kept = list(console._buffer)  # what fails would be tried again with every line
    with suppress(OSError):
        terminal.close()
    assert [] == kept
