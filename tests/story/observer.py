"""A listener that remembers, and that ends the run at a named crash point.

How to use: `RecordingObserver()` collects events and points. `RecordingObserver("prepare.after:2")`
raises `Crash` at the second passing of `CrashPoint.PREPARE_AFTER`; `"kill prepare.after:2"` sends
SIGKILL to this process instead. The text form exists so that a test can hand a plan to a child.

Invariants: after a crash nothing is observed any more: the run is dead; safe from several threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event

Kind = TypeVar("Kind", bound=Event)


class Crash(BaseException):
    """End a run as a crash would: no handler of ordinary errors catches it."""


@dataclass(frozen=True, slots=True)
class CrashPlan:
    """Where a run ends: at the n-th passing of a point, counted from 1."""

    point: CrashPoint
    passing: int = 1
    kill: bool = False

    def __str__(self) -> str:
        return f"{'kill ' if self.kill else ''}{self.point.value}:{self.passing}"


def parse_plan(text: str) -> CrashPlan | None:
    """Read `[kill ]<point>[:<passing>]`; no text is no plan. Raises ValueError for another form."""
    if not text.strip():
        return None
    word, _, rest = text.strip().rpartition(" ")
    if word not in {"", "kill"}:
        raise ValueError(f"{text!r}: a plan is [kill ]<point>[:<passing>]")
    name, _, passing = rest.partition(":")
    count = int(passing or 1)
    if count < 1:
        raise ValueError(f"{text!r}: passings are counted from 1")
    return CrashPlan(CrashPoint(name), count, kill=word == "kill")


class RecordingObserver:
    """Collect events and points passed; crash where the plan says."""

    def __init__(self, plan: str | CrashPlan | None = None) -> None:
        self._guard = threading.Lock()
        self._plan = parse_plan(plan) if isinstance(plan, str) else plan
        self._passed: Counter[CrashPoint] = Counter()
        self.events: list[Event] = []
        self.points: list[CrashPoint] = []
        self.crashed = False

    def __call__(self, event: Event) -> None:
        """Remember an event."""
        with self._guard:
            if not self.crashed:
                self.events.append(event)

    def passed(self, point: CrashPoint) -> None:
        """Remember a point, and crash when it is the planned passing, or when already crashed."""
        with self._guard:
            if not self.crashed:
                self.points.append(point)
                self._passed[point] += 1
                self.crashed = self._planned(point)
            crashed = self.crashed
        if crashed:
            self._crash(point)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """List the events of one kind, in order."""
        with self._guard:
            return [event for event in self.events if isinstance(event, kind)]

    def passings(self, point: CrashPoint) -> int:
        """Count how often a point was passed."""
        with self._guard:
            return self._passed[point]

    def _planned(self, point: CrashPoint) -> bool:
        plan = self._plan
        return plan is not None and plan.point is point and self._passed[point] == plan.passing

    def _crash(self, point: CrashPoint) -> None:
        if self._plan is not None and self._plan.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Crash(f"crashed at {point.value}")
