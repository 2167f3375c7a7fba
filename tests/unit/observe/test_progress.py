import fcntl
import io
import os
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest
from rich.console import Console
from tests.processes.broker import wait_until
from tests.processes.screen import Screen

from penstock.core.events import FilesWritten, PipelineStopped, TableCommitted, WaitBegan
from penstock.observe.progress import Progress, above, console_on, of_tables
from penstock.observe.status import StatusBoard

COMMIT = TableCommitted(1, "lake.a", "shop", "append", "c", "s", 20_000, 4, 1_000, 0.1)


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=80, height=24, force_terminal=terminal, color_system=None
    )


def test_a_terminal_shows_the_board_and_keeps_its_last_state(clock) -> None:
    board, screen = StatusBoard("shop", clock), console(terminal=True)

    with Progress(of_tables(board, clock, interval_ms=1_000), screen):
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

    with Progress(of_tables(board, clock, interval_ms=1_000), pipe):
        board(COMMIT)

    assert "" == pipe.file.getvalue()


def test_an_error_inside_leaves_the_terminal_as_it_was(clock) -> None:
    screen = console(terminal=True)
    progress = Progress(of_tables(StatusBoard("shop", clock), clock, interval_ms=1_000), screen)

    with pytest.raises(ZeroDivisionError), progress:
        _ = 1 / 0

    text = screen.file.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_stall_is_checked_against_the_interval(clock) -> None:
    board, screen = StatusBoard("shop", clock), console(terminal=False)
    progress = Progress(of_tables(board, clock, interval_ms=1_000), screen)
    board(FilesWritten(1, "lake.a", 1, 5, 100))
    clock.ms += 2_001

    screen.print(progress.drawn())

    assert "stalled: records read 2s ago are not committed in lake.a" in screen.file.getvalue()


def test_more_tables_than_lines_are_counted(clock) -> None:
    tables = tuple(f"lake.t{number:03}" for number in range(100))
    screen = console(terminal=False)

    screen.print(
        Progress(
            of_tables(StatusBoard("shop", clock, tables=tables), clock, interval_ms=1), screen
        ).drawn()
    )

    assert "and 88 more tables" in screen.file.getvalue()


def test_a_closed_terminal_stops_nothing_and_keeps_nothing(clock, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    master, slave = os.openpty()
    terminal = os.fdopen(slave, "w")
    console = console_on(terminal, colour=True)

    with Progress(of_tables(StatusBoard("shop", clock), clock, interval_ms=1_000), console):
        assert console.is_terminal
        os.close(master)
        for _ in range(3):
            console.print("a line above")

    kept = list(console._buffer)  # what fails would be tried again with every line
    with suppress(OSError):
        terminal.close()
    assert [] == kept


@contextmanager
def terminal(width: int = 80) -> Iterator[tuple[TextIO, Callable[[], Screen]]]:
    """Yield a real terminal to write to, and what its screen shows by now."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    os.set_blocking(master, False)
    screen = Screen(width=width, height=24)

    def seen() -> Screen:
        with suppress(BlockingIOError):
            while received := os.read(master, 1 << 16):
                screen.feed(received)
        return screen

    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield stream, seen
    os.close(master)


@pytest.mark.parametrize("colour", [True, False])
def test_a_display_without_colour_has_no_styles_but_moves_of_the_cursor(
    clock, monkeypatch, colour: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with terminal() as (stream, seen):
        console = console_on(stream, colour=colour)
        board = StatusBoard("shop", clock, tables=("lake.a",))
        with Progress(of_tables(board, clock, interval_ms=1_000), console):
            board(COMMIT)
            console.print("a line above")

        assert colour == bool(seen().styles)
        assert any("20,000" in line for line in seen().lines)


def test_each_frame_says_what_is_waited_for_and_since_when(clock, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with terminal() as (stream, seen):
        console = console_on(stream, colour=False)
        board = StatusBoard("shop", clock)
        progress = Progress(of_tables(board, clock, interval_ms=1_000), console)
        board(WaitBegan("Java and Spark to start"))
        for second in range(12):
            console.print(progress.drawn())
            assert f"waiting {second}s for Java and Spark to start" in seen().lines
            clock.ms += 1_000


def test_the_message_on_ctrl_c_is_below_the_table_and_disappears_with_it(
    clock, monkeypatch
) -> None:
    """Also where the terminal writes ^C into the display: it is on a line of its own."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with terminal() as (stream, seen):
        console = console_on(stream, colour=True)
        board = StatusBoard("shop", clock, tables=("lake.a",))
        with Progress(of_tables(board, clock, interval_ms=1_000), console) as progress:
            stream.write("^C")
            stream.flush()
            assert "^C" == seen().lines[-1]
            progress.note("stopping: once more to leave at once")
            console.print("a line above")
            wait_until(lambda: any("once" in line for line in seen().lines), "it is drawn")
            lines = seen().lines
            assert "a line above" == lines[0]
            assert "stopping: once more to leave at once" == lines[-1]
            assert "lake.a" == lines[-3].split()[0]
            assert not any("^C" in line for line in lines)
            board(PipelineStopped("shop", "asked to stop", clean=True))
            screen = Console(file=io.StringIO(), width=80)
            screen.print(progress.drawn())
            assert "once more" not in screen.file.getvalue()

        lines = seen().lines
        assert ["a line above", "shop  stopped 0s ago"] == lines[:2]
        assert not any("once more" in line for line in lines)
        assert seen().cursor_shown


def test_a_log_line_above_the_display_is_whole_and_goes_on_after_the_time() -> None:
    screen = Console(file=io.StringIO(), width=40)
    name = "lake.a_namespace_of_some_length.a_table_with_a_rather_long_name"

    above(screen)(f"10:40:00  {name}  epoch 1: 5 rows")

    lines = [line.rstrip() for line in screen.file.getvalue().splitlines()]
    assert name in "".join(line.removeprefix(" " * 10) for line in lines)
    assert {" " * 10} == {line[:10] for line in lines[1:]}
    assert 40 >= max(map(len, lines))
