"""Crash points of a process: a fault plan from the environment or from a job.

A plan is `point:n` pairs, comma separated: the process kills itself with SIGKILL when it passes the
point for the n-th time. Tests of ours and of operators who want to see for themselves use it; there
is no plan in production, and then passing a point costs nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

from penstock.core.errors import InvalidError
from penstock.core.events import Event
from penstock.core.points import Point

VARIABLE = "PENSTOCK_FAULTS"


@dataclass(slots=True)
class CrashPlan:
    """Observes nothing but crash points."""

    deaths: dict[Point, int]
    _passed: Counter[Point] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        """Take no notice."""

    def reached(self, point: Point) -> None:
        """Die here, when the plan says so."""
        if point not in self.deaths:
            return
        self._passed[point] += 1
        if self._passed[point] == self.deaths[point]:
            os.kill(os.getpid(), signal.SIGKILL)


@cache
def observer_for(plan: str) -> CrashPlan:
    """Read a plan. Raises InvalidError when it names an unknown point."""
    deaths = {}
    for item in filter(None, plan.split(",")):
        name, _, count = item.partition(":")
        try:
            deaths[Point(name)] = int(count or 1)
        except ValueError as error:
            raise InvalidError(
                f"{VARIABLE}: {item!r} is not a crash point",
                code="P188",
                hint=f"points are {', '.join(Point)}",
            ) from error
    return CrashPlan(deaths)
