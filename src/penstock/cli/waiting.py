"""What a command that looks waits for, told while it waits: nobody stares at a silent terminal.

Invariants:
- a wait of less than a second is never seen, and nothing of a wait is left on a terminal;
- without a terminal that moves its cursor a long wait is worth a line now and then, as in a run;
- who asked for JSON is told nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.cli.output import talk_width

if TYPE_CHECKING:
    from penstock.observe.status import StatusBoard
    from penstock.ports.running import Clock, Observer

ERASE = "\r\x1b[2K"
SHORT_MS = 1_000


@contextmanager
def waits_told(*, as_json: bool) -> Iterator[Observer]:
    """Give an observer of `WaitBegan`, whose waits are told on stderr until the block is left."""
    from penstock.app.process import SystemClock
    from penstock.observe.fanout import UNHEARD
    from penstock.observe.log import console_log, wants_display, written_to
    from penstock.observe.regularly import Regularly
    from penstock.observe.status import StatusBoard
    from penstock.observe.watches import LOOK_EVERY_SECONDS, WaitWatch

    if as_json:
        yield UNHEARD
        return
    clock = SystemClock()
    board = StatusBoard("", clock)
    line = WaitLine(board, clock, _write)
    lines = WaitWatch(board, clock, console_log(written_to(sys.stderr), clock))
    watch = line if wants_display(sys.stderr, os.environ) else lines
    try:
        with Regularly(watch.look, every_seconds=LOOK_EVERY_SECONDS, name="wait-watch"):
            yield board
    finally:
        line.erase()


class WaitLine:
    """One line of a terminal, written over: what is waited for and since when."""

    def __init__(self, board: StatusBoard, clock: Clock, write: Callable[[str], None]) -> None:
        self._board = board
        self._clock = clock
        self._write = write
        self._is_there = False

    def look(self) -> None:
        """Show the present wait; `look` is called regularly, by one thread."""
        from penstock.observe.figures import age_text, name_text

        waiting = self._board.snapshot().waiting
        lasted_ms = 0 if waiting is None else self._clock.now_ms() - waiting.since_ms
        if waiting is None or lasted_ms < SHORT_MS:
            self.erase()
            return
        told = f"waiting {age_text(lasted_ms)} for {waiting.what}"
        self._is_there = True
        self._write(f"{ERASE}{name_text(told, _columns())}")

    def erase(self) -> None:
        """Leave nothing of it on the terminal."""
        if self._is_there:
            self._is_there = False
            self._write(ERASE)


def _columns() -> int:
    return talk_width() - 1  # a full line would go on in the next, and stay


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
