"""Engine, observer, clock and secrets: run work, take events, return time, resolve secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event

DIED = "P606"
"""The code of a run whose worker died, however often it was tried."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What `Engine.run_once` returns for a job: its result, and whether it ran exactly once.

    `text` is None where only a later attempt has answered, which does no work: the first died.
    """

    text: str | None
    ran_once: bool


class Engine(Protocol):
    """Runs workers. A job and its result are versioned JSON; no rows pass through the driver."""

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs and return one result for each, in order, whatever was retried underneath.

        Several threads may call it. Raises UnavailableError when the engine has ended for good in
        this process (exit 75 and restart), InvalidError when it refuses the jobs, or the
        PenstockError that a job ended with.
        """

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs and return, for each in order, whether it was seen to run exactly once.

        For work that must not be repeated: a later attempt at a job does no work. A job may still
        have run twice, or once without an answer; then `ran_once` is False, as where the engine
        cannot tell. Raises what `run` raises.
        """

    def is_ready(self, patience_seconds: float) -> bool:
        """Return whether it has started, or failed to; with patience, wait that long for it."""

    def warm(self) -> object:
        """Run a tiny job, so that the next one finds workers; wait for the start. Raises as `run`
        does.
        """

    def capacity(self) -> int:
        """Return the number of jobs that run at once."""

    def cancel(self) -> None:
        """Request all running jobs to end, from another thread; files they wrote are leftovers."""

    def close(self) -> None:
        """Stop what this engine started."""


class Observer(Protocol):
    """Listens. Must not raise and must be quick; called from several threads."""

    def __call__(self, event: Event) -> None:
        """Take notice of an event."""

    def passed(self, point: CrashPoint) -> None:
        """Pass a crash point; tests stop the process here."""


class Clock(Protocol):
    """Returns the time and waits."""

    def now_ms(self) -> int:
        """Return wall-clock epoch milliseconds."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""

    def wait(self, seconds: float) -> None:
        """Wait that many seconds."""


class Secrets(Protocol):
    """Resolves `${env:NAME}`, `${env:NAME:-default}` and `${file:/path}` where they are used."""

    def resolve(self, text: str) -> str:
        """Return the text with references replaced. Raises InvalidError: a reference is missing."""
