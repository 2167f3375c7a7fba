"""Crash points of a process: a fault plan from the environment or from a job.

A plan is `point:n` pairs, comma separated: the process kills itself with SIGKILL when it passes the
point for the n-th time. A third word names another effect: `commit.after:2:stop` stops the process
until someone continues it, `commit.after:2:raise` raises an unexpected error. Without a
plan, as in production, passing a point costs nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from penstock.core.crash_points import CrashPoint, InjectedError
from penstock.core.errors import InvalidError
from penstock.core.events import Event

VARIABLE = "PENSTOCK_FAULTS"
EFFECTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "raise": None}
"""What happens to the process at a point: a signal, or an unexpected error."""


def from_environment() -> str:
    """Return the crash points that this process was started with; "" for none."""
    return os.environ.get(VARIABLE, "")


@dataclass(slots=True)
class CrashPlan:
    """Observes nothing but crash points."""

    effects: Mapping[tuple[CrashPoint, int], signal.Signals | None]
    _passed: Counter[CrashPoint] = field(default_factory=Counter)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        """Take no notice."""

    def passed(self, point: CrashPoint) -> None:
        """Do what the plan says for this point. Raises InjectedError for `raise`."""
        if not self.effects:
            return
        with self._guard:
            self._passed[point] += 1
            place = point, self._passed[point]
        if place not in self.effects:
            return
        sent = self.effects[place]
        if sent is None:
            raise InjectedError(f"struck at {point}")
        os.kill(os.getpid(), sent)


@cache
def observer_for(plan: str) -> CrashPlan:
    """Read a plan. Raises InvalidError when it names an unknown point or effect."""
    effects = {}
    for item in filter(None, plan.split(",")):
        name, _, rest = item.partition(":")
        count, _, effect = rest.partition(":")
        try:
            effects[CrashPoint(name), int(count or 1)] = EFFECTS[effect or "kill"]
        except (ValueError, KeyError) as error:
            raise InvalidError(
                f"{VARIABLE}: {item!r} is not a crash point, a number and an effect",
                code="P188",
                hint=f"points are {', '.join(CrashPoint)}; effects are {', '.join(EFFECTS)}",
            ) from error
    return CrashPlan(effects)
