"""What a run says of itself in the store: its status document, and what happened in it last.

Invariants:
- a thread of its own writes, at most once a second and at least every five; it rests a hundred
  times as long as the last report took of its CPU, so that reports cost a run 1 % at most; but no
  longer than ten seconds, for then a run would seem to be dead: that is 4,000 tables;
- only who has claimed the pipeline reports: before, and while it stands by, they are another's;
- a store that does not take a report is complained of once, and asked again; nothing depends on it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from logging import INFO, getLevelName
from typing import Self

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.core.events import Event
from penstock.observe.log import level_of, line_of
from penstock.observe.periodic import periodic
from penstock.observe.repeats import Repeats
from penstock.observe.snapshot import Snapshot, to_json
from penstock.observe.status import WRITE_AT_LEAST_EVERY_MS, WRITE_EVERY_MS, StatusBoard
from penstock.ports.reports import HAPPENINGS_KEPT, Happening, Reports
from penstock.ports.runtime import Clock

REST_TIMES = 100
REST_SECONDS_MAX = 10.0


class Happenings:
    """Listen to events and keep the newest that a log tells; safe for threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._repeats = Repeats(clock)
        self._guard = threading.Lock()
        self._heard: deque[tuple[int, Event]] = deque(maxlen=HAPPENINGS_KEPT)
        self._count = 0

    def __call__(self, event: Event) -> None:
        """Keep an event, unless it is one for debugging, or told again."""
        if level_of(event) < INFO or self._repeats.has_just_told(event):
            return
        now_ms = self._clock.now_ms()
        with self._guard:
            self._heard.append((now_ms, event))
            self._count += 1

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def after(self, count: int) -> tuple[Sequence[Happening], int]:
        """Return what was kept after the first `count`, oldest first, and how many there were."""
        with self._guard:
            total, newer = self._count, min(self._count - count, len(self._heard))
            heard = [self._heard[-back] for back in range(newer, 0, -1)]
        return [happening_of(event, at_ms) for at_ms, event in heard], total


def happening_of(event: Event, at_ms: int) -> Happening:
    """Return an event in the words of the log."""
    line = line_of(event)
    level = getLevelName(line.level).lower()
    return Happening(at_ms, type(event).__name__, level, line.subject, line.text)


class Reporter:
    """Keep a board's snapshot, and what happened, in a store inside the `with` block."""

    def __init__(
        self,
        reports: Reports,
        board: StatusBoard,
        happenings: Happenings,
        clock: Clock,
        *,
        cpu_seconds: Callable[[], float],
        complain: Callable[[str], None],
    ) -> None:
        self._reports = reports
        self._board = board
        self._happenings = happenings
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._complain = complain
        self._complained, self._is_heard = False, True
        self._told = 0
        self._written: Snapshot | None = None
        self._next_at = clock.monotonic()
        self._next_at_most = self._next_at
        self._reporting = periodic(
            self.report_if_due, every_seconds=WRITE_EVERY_MS / 1000, name="reports"
        )

    def __enter__(self) -> Self:
        self._reporting.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._reporting.__exit__(None, None, None)
        if self._is_heard and self._may_report(self._board.snapshot()):
            self._report(self._board.snapshot())
        self._reports.close()

    def report_if_due(self) -> bool:
        """Report what is new, or after five seconds that nothing is; return whether it was due."""
        snapshot, now = self._board.snapshot(), self._clock.monotonic()
        if not self._may_report(snapshot) or now < self._next_at:
            return False
        if snapshot is self._written and now < self._next_at_most:
            return False
        self._report(snapshot)
        return True

    def _may_report(self, snapshot: Snapshot) -> bool:
        return snapshot.generation > 0 and not self._board.is_standing_by

    def _report(self, snapshot: Snapshot) -> None:
        begun = self._cpu_seconds()
        happened, total = self._happenings.after(self._told)
        body = to_json(snapshot, written_ms=self._clock.now_ms())
        try:
            self._reports.keep(snapshot.pipeline, snapshot.generation, body, happened)
            self._told, self._is_heard = total, True
        except PenstockError as error:
            self._is_heard = False  # nobody waits for such a store at the end
            if not self._complained:
                self._complain(f"what this run does is not seen from other hosts: {error.message}")
            self._complained = True
        rest_seconds = min((self._cpu_seconds() - begun) * REST_TIMES, REST_SECONDS_MAX)
        self._written = snapshot
        self._next_at = self._clock.monotonic() + max(WRITE_EVERY_MS / 1000, rest_seconds)
        self._next_at_most = self._next_at + (WRITE_AT_LEAST_EVERY_MS - WRITE_EVERY_MS) / 1000
