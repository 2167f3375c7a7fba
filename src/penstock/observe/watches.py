"""Watches that report what lasts too long: stalled commits, and a wait that is not displayed.

Invariants:
- they read the board's snapshot in a thread of their own: events cost nothing here;
- one event when a stall begins and one when it ends; a stall is records consumed and not committed
  for two commit intervals (interface.md 4);
- a short wait is not reported, a long one after 5, 15 and 30 seconds, then each minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.events import CommitsResumed, CommitsStalled, Event, WaitLasted
from penstock.observe.snapshot import Stall, Waiting, stalled
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock

CHECK_EVERY_SECONDS = 1.0
FIRST_MS = (5_000, 15_000, 30_000)
EVERY_MS = 60_000


@dataclass(slots=True)
class StallWatch:
    """Reports when commits stall and resume; `check` is called periodically."""

    board: StatusBoard
    clock: Clock
    report: Callable[[Event], None]
    interval_ms: int
    _stall: Stall | None = None

    def check(self) -> None:
        """Report what has changed since the last check."""
        now_ms = self.clock.now_ms()
        found = stalled(self.board.snapshot(), now_ms, self.interval_ms)
        before, self._stall = self._stall, found
        if found is not None and before is None:
            self.report(CommitsStalled(found.tables, found.reading, found.kafka, found.since_ms))
        if found is None and before is not None:
            self.report(CommitsResumed((now_ms - before.since_ms) / 1000))


@dataclass(slots=True)
class WaitWatch:
    """Reports a wait that lasts; `check` is called periodically."""

    board: StatusBoard
    clock: Clock
    report: Callable[[Event], None]
    _reported: tuple[Waiting, int] | None = None

    def check(self) -> None:
        """Report the present wait when it has lasted long enough since the last report."""
        waiting = self.board.snapshot().waiting
        if waiting is None:
            return
        lasted_ms = self.clock.now_ms() - waiting.since_ms
        due = sum(lasted_ms >= at for at in FIRST_MS) + lasted_ms // EVERY_MS
        before, times = self._reported or (None, 0)
        if due > (times if before == waiting else 0):
            self._reported = waiting, due
            self.report(WaitLasted(waiting.what, lasted_ms / 1000))
