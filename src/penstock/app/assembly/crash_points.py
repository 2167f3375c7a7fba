"""Crash points of a process: a fault plan from the environment or from a job.

A plan is `point:n` pairs, comma separated: the process kills itself with SIGKILL when it passes the
point for the n-th time. A third word names another effect: `commit.after:2:stop` stops the process
until someone continues it, `commit.after:2:raise` raises an error that nobody expects. Tests and
operators who want to see for themselves use it; there is no plan in production, and then passing a
point costs nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from penstock.core.crash_points import CrashPoint, InjectedError
from penstock.core.errors import InvalidError
from penstock.core.events import Event

VARIABLE = "PENSTOCK_FAULTS"


def from_environment() -> str:
    """Return the crash points that this process was started with; "" for none."""
    return os.environ.get(VARIABLE, "")


class Effect(StrEnum):
    """What happens to the process at a point."""

    KILL = "kill"
    STOP = "stop"
    RAISE = "raise"


@dataclass(slots=True)
class CrashPlan:
    """Observes nothing but crash points."""

    effects: Mapping[tuple[CrashPoint, int], Effect]
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
            effect = self.effects.get((point, self._passed[point]))
        if effect is Effect.RAISE:
            raise InjectedError(f"struck at {point}")
        if effect is not None:
            kill = effect is Effect.KILL
            os.kill(os.getpid(), signal.SIGKILL if kill else signal.SIGSTOP)


@cache
def observer_for(plan: str) -> CrashPlan:
    """Read a plan. Raises InvalidError when it names an unknown point or effect."""
    effects = {}
    for item in filter(None, plan.split(",")):
        name, _, rest = item.partition(":")
        count, _, effect = rest.partition(":")
        try:
            effects[CrashPoint(name), int(count or 1)] = Effect(effect or Effect.KILL)
        except ValueError as error:
            raise InvalidError(
                f"{VARIABLE}: {item!r} is not a crash point, a number and an effect",
                code="P188",
                hint=f"points are {', '.join(CrashPoint)}; effects are {', '.join(Effect)}",
            ) from error
    return CrashPlan(effects)
