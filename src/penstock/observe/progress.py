"""The live display of a run, on a terminal.

Invariants:
- at most four updates a second, drawn by a thread of its own from a board's snapshot, so that
  events cost nothing here;
- it draws on a terminal only;
- at the end the last snapshot stays, the cursor is shown, and the lines above are kept;
- output to a closed terminal is lost, and stops nothing;
- the last line is empty, so that an echo of the terminal (`^C`) is not in a line of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.observe.render import StatusText
from penstock.observe.snapshot import stalled
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock

UPDATES_PER_SECOND = 4
OTHER_LINES = 12
TIME_CELLS = len("10:40:00  ")


def console_on(stream: TextIO, *, colour: bool) -> Console:
    """Return a console for messages on a stream, which outlives the stream's terminal.

    Without `colour` it writes only text and cursor movements.
    """
    file = cast("TextIO", _Lossy(stream))
    system: Literal["auto"] | None = "auto" if colour else None
    return Console(file=file, stderr=True, highlight=False, color_system=system)


def above(console: Console) -> Callable[[str], None]:
    """Return a function that writes a log line above the display, wrapped after the time."""

    def write(text: str) -> None:
        line, grid = Text.from_ansi(text, overflow="fold"), Table.grid()
        grid.add_row(line[:TIME_CELLS], line[TIME_CELLS:])
        console.print(grid)

    return write


class _Lossy:
    """A stream that never fails. Rich would keep failed output, and retry all of it each line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is shown now, and whether nothing more comes."""

    shown: RenderableType
    has_ended: bool


Draw = Callable[[int], Drawing]
"""Draws what a board knows now, with so many lines of a table."""


def of_tables(board: StatusBoard, clock: Clock, *, interval_ms: int) -> Draw:
    """Draw a pipeline; `interval_ms` is its commit interval, against which a stall is measured."""

    def draw(lines_max: int) -> Drawing:
        snapshot, now_ms = board.snapshot(), clock.now_ms()
        stall = stalled(snapshot, now_ms, interval_ms)
        status = StatusText(snapshot, now_ms, stall=stall, tables_max=lines_max)
        return Drawing(status, snapshot.state.ended)

    return draw


class Progress:
    """Show what is drawn inside the `with` block; lines for `console` go above the display."""

    def __init__(self, draw: Draw, console: Console) -> None:
        self._draw = draw
        self._console = console
        self._note = ""
        self._live = Live(
            console=console,
            get_renderable=self.drawn,
            refresh_per_second=UPDATES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def note(self, text: str) -> None:
        """Show a note below the tables from now on. A signal handler may call it."""
        self._note = text

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._note = ""
        self._live.stop()

    def drawn(self) -> RenderableType:
        """Return what the display shows now."""
        drawing = self._draw(max(self._console.height - OTHER_LINES, 1))
        note = "" if drawing.has_ended else self._note
        return Group(drawing.shown, *([Text(), Text(note, "bold")] if note else []), Text())
