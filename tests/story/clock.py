"""A clock that moves only when advanced: waiting takes no time and moves it.

Invariants: time never runs backwards; safe to use from several threads.
"""

from __future__ import annotations

import threading

START_MS = 1_700_000_000_000


class ManualClock:
    """The time a test has set; `wait` advances it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._guard = threading.Lock()
        self._start_ms = now_ms
        self._passed = 0.0
        self.waits: list[float] = []

    def now_ms(self) -> int:
        """Return wall-clock epoch milliseconds."""
        with self._guard:
            return self._start_ms + round(self._passed * 1000)

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        with self._guard:
            return self._passed

    def wait(self, seconds: float) -> None:
        """Advance by the seconds asked for and note that somebody waited."""
        self.advance(seconds)
        with self._guard:
            self.waits.append(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time does not run backwards"
        with self._guard:
            self._passed += seconds

    def set_wall_clock(self, now_ms: int) -> None:
        """Set the wall clock, also backwards, as time services do; monotonic time goes on."""
        with self._guard:
            self._start_ms = now_ms - round(self._passed * 1000)
