"""One attempt to commit on an examined state, and the pause before the next.

Invariants:
- a lost answer is never taken for a failure nor for a success: the next turn finds out;
- none begins on a table that is paused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.commit.pauses import Pauses
from penstock.commit.rewriting import Rewriting
from penstock.commit.turnstile import Turnstile
from penstock.core.claims import Claim
from penstock.core.commits import CommitKind, Committable
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.core.events import CommitConflicted, CommitLeftInDoubt
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import Table, TableState

IN_DOUBT = "in doubt"
PLAIN_TURNS = 5
"""The number of turns lost in a row before waits grow."""
_POINTS = {
    CommitKind.APPEND: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.ANCHOR: (CrashPoint.ANCHOR_BEFORE, CrashPoint.ANCHOR_AFTER),
    CommitKind.FENCE: (CrashPoint.FENCE_BEFORE, CrashPoint.FENCE_AFTER),
    CommitKind.ROW_DELTA: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.REPLACE: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.SEEK: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
    CommitKind.PURGE: (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
}


@dataclass(frozen=True, slots=True)
class CommitContext:
    """The context of a commit: all that landing needs in addition to the table and the commit.

    `jitter` returns a number in 0..1 for the back-off; its seconds are the least and the most that
    it doubles to; `retain` is the number of own snapshots kept; `supersedes` are the lineages that
    our claim was made over; `pauses` holds back attempts on tables that are paused. In the tables
    `stop_across_partitions` a key may not be changed by two partitions; of those in `rewriting`
    files are written again where rows go. Shards that meet pass through a `turnstile`.
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
    pauses: Pauses = field(default_factory=Pauses)
    stop_across_partitions: frozenset[str] = frozenset()
    rewriting: Mapping[str, Rewriting] = field(default_factory=dict)
    turnstile: Turnstile = field(default_factory=Turnstile)


class Attempt(NamedTuple):
    """One read of a table and the attempt on it: its number from 0, and when it began."""

    number: int
    began: float


def attempts(context: CommitContext) -> Iterator[Attempt]:
    """Yield as many turns as may be tried, each as it begins."""
    for number in range(context.turns_max):
        yield Attempt(number, context.clock.monotonic())


def attempt_once(
    commit: Committable,
    state: TableState,
    table: Table,
    context: CommitContext,
    turn: Attempt,
    *,
    row_deletes: Sequence[RowDeletes] = (),
) -> str:
    """Try once on the examined state; return the snapshot, or "" when it has to be found out.

    Raises UnavailableError (P445) while the table is paused.
    """
    before, after = _POINTS[commit.kind]
    if commit.kind is CommitKind.APPEND and commit.chain.is_quarantine:
        before, after = CrashPoint.QUARANTINE_BEFORE, CrashPoint.QUARANTINE_AFTER

    def act() -> str:
        return table.commit(state, commit, retain=context.retain, row_deletes=row_deletes)

    snapshot = tried(act, names_of(commit), context, turn, points=(before, after))
    if snapshot not in {"", IN_DOUBT}:
        context.observer.passed(CrashPoint.READ_BACK)
    return snapshot


def tried(
    act: Callable[[], str],
    names: tuple[str, str, str],
    context: CommitContext,
    turn: Attempt,
    *,
    points: tuple[CrashPoint, CrashPoint] = (CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
) -> str:
    """Make one request; return its snapshot, "" when it certainly lost, or `IN_DOUBT`.

    `names` are the table, the chain and what names the request in events. Raises UnavailableError
    (P445) while the table is paused.
    """
    before, after = points
    context.observer.passed(before)
    try:
        with context.pauses.passing(names[0], context.clock.now_ms()):
            snapshot = act()
    except ConflictError as error:
        context.observer(CommitConflicted(*names, turn.number, error.message))
        context.turnstile.lost(names[0], context.clock.monotonic())
        back_off(context, turn)
        return ""
    except OutcomeUnknownError as error:
        context.observer(CommitLeftInDoubt(*names, turn.number, error.message))
        back_off(context, turn)
        return IN_DOUBT
    context.observer.passed(after)
    return snapshot


def back_off(context: CommitContext, turn: Attempt) -> None:
    """Wait before the next turn for about as long as a turn takes.

    A loser that waits longer than that would always meet others that start again at once. From the
    sixth turn on the wait doubles: then it is no race of a few.
    """
    took = max(context.clock.monotonic() - turn.began, context.back_off_seconds)
    doublings = max(turn.number + 1 - PLAIN_TURNS, 0)
    seconds = min(took * 2**doublings, context.back_off_seconds_max)
    context.clock.wait(seconds * (0.5 + context.jitter()))


def names_of(commit: Committable) -> tuple[str, str, str]:
    """Name a commit as events do: its table, its chain, its id."""
    return commit.chain.table, commit.chain.name, commit.commit_id
