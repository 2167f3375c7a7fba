"""The live display of a running pipeline, on a terminal.

Invariants:
- at most four updates a second, drawn by a thread of its own from the board's snapshot, so that
  events cost nothing here;
- it draws on a terminal only;
- at the end the last snapshot stays, the cursor is shown, and the lines above are kept;
- output to a closed terminal is lost, and stops nothing;
- the last line is empty, so that an echo of the terminal (`^C`) is not in a line of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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


class Progress:
    """Show a board inside the `with` block; lines for `console` go above the display.

    `interval_ms` is the commit interval, against which a stall is measured.
    """

    def __init__(
        self, board: StatusBoard, clock: Clock, console: Console, *, interval_ms: int
    ) -> None:
        self._board = board
        self._clock = clock
        self._console = console
        self._interval_ms = interval_ms
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
        snapshot, now_ms = self._board.snapshot(), self._clock.now_ms()
        status = StatusText(
            snapshot,
            now_ms,
            stall=stalled(snapshot, now_ms, self._interval_ms),
            tables_max=max(self._console.height - OTHER_LINES, 1),
        )
        note = "" if snapshot.state.ended else self._note
        return Group(status, *([Text(), Text(note, "bold")] if note else []), Text())
