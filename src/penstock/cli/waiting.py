"""What a command waits for, shown while it waits.

Invariants:
- a wait of less than a second is not shown, and nothing stays on the terminal when it is over;
- on a terminal it is one line, written over; elsewhere a long wait is a line now and then;
- with `--json` nothing is shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.cli.output import say, talk_width

if TYPE_CHECKING:
    from penstock.observe.status import StatusBoard
    from penstock.ports.runtime import Clock, Observer

ERASE = "\r\x1b[2K"
SHORT_MS = 1_000


@contextmanager
def waits_shown(*, as_json: bool) -> Iterator[Observer]:
    """Yield an observer of `WaitBegan` that shows the waits on stderr until the block is left."""
    from penstock.app.assembly.process import SystemClock
    from penstock.observe.fanout import UNHEARD
    from penstock.observe.log import console_log, wants_display, written_to
    from penstock.observe.periodic import periodic
    from penstock.observe.status import StatusBoard
    from penstock.observe.watches import CHECK_EVERY_SECONDS, WaitWatch

    if as_json:
        yield UNHEARD
        return
    clock = SystemClock()
    board = StatusBoard("", clock)
    line = WaitLine(board, clock, partial(say, end=""))
    lines = WaitWatch(board, clock, console_log(written_to(sys.stderr), clock))
    watch = line if wants_display(sys.stderr, os.environ) else lines
    try:
        with periodic(watch.check, every_seconds=CHECK_EVERY_SECONDS, name="wait-watch"):
            yield board
    finally:
        line.erase()


@dataclass(slots=True)
class WaitLine:
    """One line of a terminal, written over: what is waited for and since when."""

    board: StatusBoard
    clock: Clock
    write: Callable[[str], None]
    _is_shown: bool = False

    def check(self) -> None:
        """Show the current wait; called periodically, by one thread."""
        from penstock.observe.formatting import age_text, name_text

        waiting = self.board.snapshot().waiting
        lasted_ms = 0 if waiting is None else self.clock.now_ms() - waiting.since_ms
        if waiting is None or lasted_ms < SHORT_MS:
            self.erase()
            return
        text = f"waiting {age_text(lasted_ms)} for {waiting.what}"
        columns = talk_width() - 1  # a full line would wrap, and its beginning stay
        self._is_shown = True
        self.write(f"{ERASE}{name_text(text, columns)}")

    def erase(self) -> None:
        """Remove the line from the terminal."""
        if self._is_shown:
            self._is_shown = False
            self.write(ERASE)
