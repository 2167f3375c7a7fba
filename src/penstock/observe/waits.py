"""Lines for who reads a log: a wait that lasts is told from time to time, with its seconds.

Invariant: a short wait says nothing, and a long one a line after 5, 15 and 30 seconds, then each
minute.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.events import Event, WaitLasted
from penstock.observe.snapshot import Waiting
from penstock.observe.status import StatusBoard
from penstock.ports.running import Clock

LOOK_EVERY_SECONDS = 1.0
FIRST_MS = (5_000, 15_000, 30_000)
EVERY_MS = 60_000


class WaitWatch:
    """Looks at a board and tells when the wait it shows has lasted; `look` is called regularly."""

    def __init__(self, board: StatusBoard, clock: Clock, tell: Callable[[Event], None]) -> None:
        self._board = board
        self._clock = clock
        self._tell = tell
        self._told: tuple[Waiting, int] | None = None

    def look(self) -> None:
        """Tell of the present wait when it has lasted long enough since that was told last."""
        waiting = self._board.snapshot().waiting
        if waiting is None:
            return
        lasted_ms = self._clock.now_ms() - waiting.since_ms
        due = _times_due(lasted_ms)
        before = self._told[1] if self._told is not None and self._told[0] == waiting else 0
        if due > before:
            self._told = waiting, due
            self._tell(WaitLasted(waiting.what, lasted_ms / 1000))


def _times_due(lasted_ms: int) -> int:
    """Count the lines that a wait of so long is worth."""
    return sum(lasted_ms >= at for at in FIRST_MS) + lasted_ms // EVERY_MS
