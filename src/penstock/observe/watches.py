"""Watches that report what lasts too long: stalled commits, and a wait that is not displayed.

Invariants:
- they read the board's snapshot in a thread of their own: events cost nothing here;
- one event when a stall begins and one when it ends; a stall is records consumed and not committed
  for two commit intervals (interface.md 4);
- a short wait is not reported, a long one after 5, 15 and 30 seconds, then each minute.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.events import CommitsResumed, CommitsStalled, Event, WaitLasted
from penstock.observe.snapshot import Stall, Waiting, stalled
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock

LOOK_EVERY_SECONDS = 1.0
FIRST_MS = (5_000, 15_000, 30_000)
EVERY_MS = 60_000


class StallWatch:
    """Reports when commits stall and resume; `look` is called periodically."""

    def __init__(
        self, board: StatusBoard, clock: Clock, report: Callable[[Event], None], *, interval_ms: int
    ) -> None:
        self._board = board
        self._clock = clock
        self._report = report
        self._interval_ms = interval_ms
        self._stall: Stall | None = None

    def look(self) -> None:
        """Report what has changed since the last look."""
        now_ms = self._clock.now_ms()
        found = stalled(self._board.snapshot(), now_ms, self._interval_ms)
        before, self._stall = self._stall, found
        if found is not None and before is None:
            self._report(CommitsStalled(found.tables, found.reading, found.kafka, found.since_ms))
        if found is None and before is not None:
            self._report(CommitsResumed((now_ms - before.since_ms) / 1000))


class WaitWatch:
    """Reports a wait that lasts; `look` is called periodically."""

    def __init__(self, board: StatusBoard, clock: Clock, report: Callable[[Event], None]) -> None:
        self._board = board
        self._clock = clock
        self._report = report
        self._told: tuple[Waiting, int] | None = None

    def look(self) -> None:
        """Report the present wait when it has lasted long enough since the last report."""
        waiting = self._board.snapshot().waiting
        if waiting is None:
            return
        lasted_ms = self._clock.now_ms() - waiting.since_ms
        due = _times_due(lasted_ms)
        before = self._told[1] if self._told is not None and self._told[0] == waiting else 0
        if due > before:
            self._told = waiting, due
            self._report(WaitLasted(waiting.what, lasted_ms / 1000))


def _times_due(lasted_ms: int) -> int:
    """Return how often a wait of this length has been reported."""
    return sum(lasted_ms >= at for at in FIRST_MS) + lasted_ms // EVERY_MS
