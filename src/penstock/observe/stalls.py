"""The stall alarm: records consumed and not committed for two commit intervals (interface.md 4).

Invariants:
- one event when a stall begins and one when it is over, however often it is looked at;
- it is judged from the board's snapshot alone, by a thread of its own: events cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.core.events import CommitsResumed, CommitsStalled, Event
from penstock.observe.regularly import Regularly
from penstock.observe.snapshot import Stall, stalled
from penstock.observe.status import StatusBoard
from penstock.ports.running import Clock

LOOK_EVERY_SECONDS = 1.0


class StallWatch:
    """Watch a board while inside the `with` block, and tell when commits stall and resume."""

    def __init__(
        self,
        board: StatusBoard,
        clock: Clock,
        tell: Callable[[Event], None],
        *,
        interval_ms: int,
    ) -> None:
        self._board = board
        self._clock = clock
        self._tell = tell
        self._interval_ms = interval_ms
        self._stall: Stall | None = None
        self._thread = Regularly(self.look, every_seconds=LOOK_EVERY_SECONDS, name="stall-watch")

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.__exit__(kind, error, trace)

    def look(self) -> None:
        """Judge the present snapshot and tell what has changed."""
        now_ms = self._clock.now_ms()
        found = stalled(self._board.snapshot(), now_ms, self._interval_ms)
        before, self._stall = self._stall, found
        if found is not None and before is None:
            self._tell(CommitsStalled(found.tables, found.reading, found.kafka, found.since_ms))
        if found is None and before is not None:
            self._tell(CommitsResumed((now_ms - before.since_ms) / 1000))
