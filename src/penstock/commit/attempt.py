"""One attempt to commit on an examined state, and the pause before the next.

Invariant: a lost answer is never taken for a failure nor for a success: the next turn finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.claims import Claim
from penstock.core.commits import CommitKind, Committable
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.core.events import CommitConflicted, CommitLeftInDoubt
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import Table, TableState

IN_DOUBT = "in doubt"
PLAIN_TURNS = 5
"""How many turns in a row are lost before waits grow."""
_POINTS = {
    CommitKind.APPEND: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.ANCHOR: (CrashPoint.ANCHOR_BEFORE, CrashPoint.ANCHOR_AFTER),
    CommitKind.FENCE: (CrashPoint.FENCE_BEFORE, CrashPoint.FENCE_AFTER),
    CommitKind.REPLACE: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.SEEK: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
}


@dataclass(frozen=True, slots=True)
class CommitContext:
    """What landing needs besides the table and the commit.

    `jitter` gives a number in 0..1 for the back-off, whose seconds are the least and the most that
    it doubles to; `retain` is the number of own snapshots kept; `supersedes` are the lineages that
    our claim was made over.
    """

    claim: Claim
    observer: Observer
    clock: Clock
    jitter: Callable[[], float]
    retain: int
    turns_max: int = 40
    back_off_seconds: float = 0.02
    back_off_seconds_max: float = 2.0
    supersedes: frozenset[str] = frozenset()


class Attempt(NamedTuple):
    """One look at a table and the attempt on it: the how manieth from 0, and when it began."""

    number: int
    began: float


def attempts(context: CommitContext) -> Iterator[Attempt]:
    """Yield as many turns as may be tried, each as it begins."""
    for number in range(context.turns_max):
        yield Attempt(number, context.clock.monotonic())


def attempt_once(
    commit: Committable, state: TableState, table: Table, context: CommitContext, turn: Attempt
) -> str:
    """Try once on the examined state; return the snapshot, or "" when it has to be found out."""
    before, after = _POINTS[commit.kind]
    if commit.kind is CommitKind.APPEND and commit.chain.is_quarantine:
        before, after = CrashPoint.QUARANTINE_BEFORE, CrashPoint.QUARANTINE_AFTER
    context.observer.passed(before)
    try:
        snapshot = table.commit(state, commit, retain=context.retain)
    except ConflictError as error:
        context.observer(CommitConflicted(*names_of(commit), turn.number, error.message))
        back_off(context, turn)
        return ""
    except OutcomeUnknownError as error:
        context.observer(CommitLeftInDoubt(*names_of(commit), turn.number, error.message))
        back_off(context, turn)
        return IN_DOUBT
    context.observer.passed(after)
    context.observer.passed(CrashPoint.READ_BACK)
    return snapshot


def back_off(context: CommitContext, turn: Attempt) -> None:
    """Wait before the next look for about as long as a turn takes.

    A loser who waited longer than that, turn by turn, would always meet others who start anew at
    once. From the sixth turn on the wait doubles: then it is no race of a few.
    """
    took = max(context.clock.monotonic() - turn.began, context.back_off_seconds)
    doublings = max(turn.number + 1 - PLAIN_TURNS, 0)
    seconds = min(took * 2**doublings, context.back_off_seconds_max)
    context.clock.wait(seconds * (0.5 + context.jitter()))


def names_of(commit: Committable) -> tuple[str, str, str]:
    """Name a commit as events do: its table, its chain, its id."""
    return commit.chain.table, commit.chain.name, commit.commit_id
