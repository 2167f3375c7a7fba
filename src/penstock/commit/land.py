"""Land one prepared commit once: examine, decide, compare-and-set, read back (protocol.md 5).

Invariants:
- every attempt is decided on a state read afresh, and is applied to that state or not at all;
- nothing is deleted here, whatever the outcome;
- a lost answer is never taken for a failure nor for a success: the next turn finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from penstock.core.claims import Claim
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    EpochNumber,
    Landed,
    commit_id_of,
    first_ledger,
)
from penstock.core.crash_points import CrashPoint
from penstock.core.decide import (
    AlreadyLanded,
    Commit,
    Fenced,
    Gap,
    Superseded,
    decide,
    outranks,
)
from penstock.core.errors import (
    ConflictError,
    DecisionNeededError,
    FencedError,
    InvalidError,
    OutcomeUnknownError,
    PenstockError,
    UnavailableError,
)
from penstock.core.events import (
    CommitAborted,
    CommitConflicted,
    CommitFoundLanded,
    CommitLeftInDoubt,
    GapFound,
    TableCommitted,
)
from penstock.core.table_errors import FILES_UNFIT
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import Table, TableState, Verdict


@dataclass(frozen=True, slots=True)
class LandResult:
    """How one commit ended: `landed` with these very files, or proven unable to land."""

    landed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CommitContext:
    """What landing needs besides the table and the commit.

    `jitter` gives a number in 0..1 for the back-off, whose seconds are the least and the most that
    it doubles to; `retain` is the number of own snapshots kept; `over` are the lines that our claim
    was made over.
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


ROLLED_BACK = "P455"
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


class Attempt(NamedTuple):
    """One look at a table and the attempt on it: the how manieth from 0, and when it began."""

    number: int
    began: float


def attempts(conditions: CommitContext) -> Iterator[Attempt]:
    """Yield as many turns as may be tried, each as it begins."""
    for number in range(conditions.turns_max):
        yield Attempt(number, conditions.clock.monotonic())


def land(
    prepared: Committable, table: Table, conditions: CommitContext, *, unfit: str = ""
) -> LandResult:
    """Land a commit exactly once, or prove that it cannot land.

    `unfit` is a reason not to land it, though the table stands where it begins: then a fence kills
    what may be in flight of it before it is dropped (protocol.md 6).

    Raises FencedError (a newer owner landed), DecisionNeededError (rollback, re-created table, lost
    ledger), UnavailableError (table or catalog not there, or too many foreign commits in a row).
    """
    claim, observer = conditions.claim, conditions.observer
    commit = replace(prepared, generation=claim.generation, owner=claim.owner)
    attempted, dead = "", False
    began = conditions.clock.monotonic()
    for turn in attempts(conditions):
        state = table.state(commit.chain)
        require_sound(commit, state, table, conditions)
        landed = examined_ledger(commit, state)
        decision = decide(commit, landed, claim, conditions.supersedes)
        match decision:
            case Commit() if dead:
                return _aborted(commit, observer, unfit)
            case Commit() if unfit or _schema_changed(commit, state):
                unfit = unfit or "the table's schema changed meanwhile"
                fence(commit, state, table, conditions)
                dead = True  # an attempt in flight may have been faster: look again
            case Commit():
                snapshot, unfit = _try_commit(commit, state, table, conditions, turn)
                attempted = snapshot or attempted
            case AlreadyLanded(ours=ours):
                if not (attempted and ours):
                    return _found(commit, observer, ours=ours)
                seconds = conditions.clock.monotonic() - began
                snapshot = state.head if attempted == IN_DOUBT else attempted
                observer(committed(commit, snapshot, seconds, landed))
                return LandResult(landed=True, reason="committed")
            case Fenced(by=by):
                raise fenced(by, claim)
            case Gap() if state.verdict is Verdict.ABSENT:
                raise ledger_gone(commit)
            case Gap():
                observer(GapFound(*_names(commit)))
                return _aborted(commit, observer, "the table stands before its start")
            case Superseded():
                return _aborted(commit, observer, "another run landed an overlapping range")
            case _:
                assert_never(decision)
    raise UnavailableError(
        f"{commit.chain.table}: {conditions.turns_max} attempts to commit met a changed table or "
        "no answer",
        code="P450",
        hint="another writer commits all the time, or the catalog fails; the run tries again",
    )


def _schema_changed(commit: Committable, state: TableState) -> bool:
    """Return whether files are of a schema that is gone: landing them would lose their columns
    (protocol.md 5). A schema may come back, and with it an attempt that was refused.
    """
    return bool(commit.files) and state.schema_id != commit.schema_id


def examined_ledger(commit: Committable, state: TableState) -> Landed:
    """Return the ledger a commit is decided on: the table's, with start positions it lacks.

    Origins count only where the ledger has no position; a chain without a ledger begins with them.
    """
    if state.landed is None:
        return first_ledger(
            commit.chain, commit.claim, commit.cluster_id, commit.rules_hash, commit.origins
        )
    if not commit.origins:
        return state.landed
    return replace(state.landed, offsets={**commit.origins, **state.landed.offsets})


def require_sound(
    commit: Committable, state: TableState, table: Table, conditions: CommitContext
) -> None:
    """Raise DecisionNeededError when the table is not the one the commit was prepared for.

    A rollback is fenced first: the head moves, so an attempt that the rollback re-armed is dead
    (protocol.md 3).
    """
    if state.uuid != commit.table_uuid:
        raise DecisionNeededError(
            f"{commit.chain.table} was re-created: its id is {state.uuid}, the commit was prepared "
            f"for {commit.table_uuid}",
            code="P452",
            hint="restore the former table, or give the new one another name in the spec",
        )
    if state.landed is not None and state.landed.cluster_id != commit.cluster_id:
        raise other_cluster(commit.chain.table, state.landed.cluster_id, commit.cluster_id)
    if state.verdict is Verdict.ROLLED_BACK:
        require_rank(state, conditions.claim, supersedes=_last_lineage(state))
        fence(commit, state, table, conditions)
        raise rolled_back(commit.chain.table, state.evidence, quarantine=commit.chain.is_quarantine)
    if state.verdict is Verdict.UNCERTAIN:
        raise rolled_back(commit.chain.table, state.evidence, quarantine=commit.chain.is_quarantine)


def fence(like: Committable, state: TableState, table: Table, conditions: CommitContext) -> None:
    """Move the head of a table without moving progress, so that no attempt in flight can land."""
    nonce = f"fence:{state.head}:{conditions.claim.generation}:{conditions.jitter()}"
    commit = replace(
        like,
        kind=CommitKind.FENCE,
        commit_id=commit_id_of(like.chain, state.uuid, like.segment, {}, nonce=nonce),
        table_uuid=state.uuid,
        progress={},
        files=(),
        removes=(),
        origins={},
        tallies={},
        valid_through_ms=None,
        generation=conditions.claim.generation,
        owner=conditions.claim.owner,
    )
    for turn in attempts(conditions):
        if attempt_once(commit, state, table, conditions, turn) not in {"", IN_DOUBT}:
            return
        now = table.state(like.chain)
        if now.head != state.head:
            return  # someone else moved the head: what was in flight is dead as well
        state = now
    raise UnavailableError(
        f"{like.chain.table}: the fence could not be committed",
        code="P451",
        hint="check whether the catalog accepts commits, then run again",
    )


def fence_rollback(
    chain: Chain, state: TableState, table: Table, conditions: CommitContext
) -> None:
    """Move the head of a table that was rolled back: it kills attempts that this re-armed.

    Raises FencedError when a newer owner has landed, and what `fence` raises.
    """
    landed = state.landed
    assert landed is not None, "a rollback is told by a ledger"
    require_rank(state, conditions.claim, supersedes=_last_lineage(state))
    like = Committable(
        chain=chain,
        table_uuid=state.uuid,
        segment=landed.segment,
        commit_id=commit_id_of(chain, state.uuid, landed.segment, {}, nonce="rollback"),
        attempt="fence",
        generation=conditions.claim.generation,
        owner=conditions.claim.owner,
        cluster_id=landed.cluster_id,
        epoch=EpochNumber(0),
        kind=CommitKind.FENCE,
        progress={},
        files=(),
        rules_hash=landed.rules_hash,
        schema_id=state.schema_id,
    )
    fence(like, state, table, conditions)


def require_rank(state: TableState, claim: Claim, supersedes: Collection[str]) -> None:
    """Raise FencedError when a newer owner has landed: then even a fence is not ours to land."""
    if state.landed is not None and outranks(state.landed.claim, claim, supersedes):
        raise fenced(state.landed.claim, claim)


def _last_lineage(state: TableState) -> list[str]:
    """Name the line that landed last: in a table that was rolled back, numbers alone count."""
    return [state.landed.claim.line] if state.landed else []


def attempt_once(
    commit: Committable, state: TableState, table: Table, conditions: CommitContext, turn: Attempt
) -> str:
    """Try once on the examined state; give the snapshot, or "" when it has to be found out."""
    before, after = _POINTS[commit.kind]
    if commit.kind is CommitKind.APPEND and commit.chain.is_quarantine:
        before, after = CrashPoint.QUARANTINE_BEFORE, CrashPoint.QUARANTINE_AFTER
    conditions.observer.passed(before)
    try:
        snapshot = table.commit(state, commit, retain=conditions.retain)
    except ConflictError as error:
        conditions.observer(CommitConflicted(*_names(commit), turn.number, error.message))
        back_off(conditions, turn)
        return ""
    except OutcomeUnknownError as error:
        conditions.observer(CommitLeftInDoubt(*_names(commit), turn.number, error.message))
        back_off(conditions, turn)
        return IN_DOUBT
    conditions.observer.passed(after)
    conditions.observer.passed(CrashPoint.READ_BACK)
    return snapshot


def _try_commit(
    commit: Committable, state: TableState, table: Table, conditions: CommitContext, turn: Attempt
) -> tuple[str, str]:
    """Try once as `attempt_once` does; give the snapshot, and why the files do not fit any more."""
    try:
        return attempt_once(commit, state, table, conditions, turn), ""
    except InvalidError as error:
        if error.code != FILES_UNFIT:
            raise
        return "", error.message


def _names(commit: Committable) -> tuple[str, str, str]:
    return commit.chain.table, commit.chain.name, commit.commit_id


def back_off(conditions: CommitContext, turn: Attempt) -> None:
    """Wait before the next look for about as long as a turn takes.

    A loser who waited longer than that, turn by turn, would always meet others who start anew at
    once. From the sixth turn on the wait doubles: then it is no race of a few.
    """
    took = max(conditions.clock.monotonic() - turn.began, conditions.back_off_seconds)
    doublings = max(turn.number + 1 - PLAIN_TURNS, 0)
    seconds = min(took * 2**doublings, conditions.back_off_seconds_max)
    conditions.clock.wait(seconds * (0.5 + conditions.jitter()))


def _found(commit: Committable, observer: Observer, *, ours: bool) -> LandResult:
    observer(CommitFoundLanded(*_names(commit), ours))
    reason = "found landed" if ours else "its ranges landed with other files"
    return LandResult(landed=ours, reason=reason)


def _aborted(commit: Committable, observer: Observer, reason: str) -> LandResult:
    observer(CommitAborted(*_names(commit), reason))
    return LandResult(landed=False, reason=reason)


def committed(commit: Committable, snapshot: str, seconds: float, landed: Landed) -> TableCommitted:
    """Return the event of a commit that landed."""
    return TableCommitted(
        epoch=commit.epoch,
        table=commit.chain.table,
        chain=commit.chain.name,
        kind=commit.kind.value,
        commit_id=commit.commit_id,
        snapshot=snapshot,
        rows=commit.rows,
        files=len(commit.files),
        size_bytes=sum(file.size_bytes for file in commit.files),
        seconds=seconds,
        valid_through_ms=landed.valid_through_ms,
    )


def fenced(by: Claim, claim: Claim) -> FencedError:
    """Build the error for a pipeline that a newer owner took over."""
    error = FencedError(
        f"generation {by.generation} of owner {by.owner} has landed since generation "
        f"{claim.generation} of {claim.owner} began",
        code="P520",
        hint="another run owns this pipeline now; do not restart this one",
    )
    error.by = by
    return error


def ledger_gone(commit: Committable) -> DecisionNeededError:
    """Build the error for a table that lost its progress."""
    return DecisionNeededError(
        f"{commit.chain.table} has no record of what {commit.chain.name} has landed in it",
        code="P453",
        hint="someone removed the table's Penstock properties: restore the table's metadata",
    )


def other_cluster(table: str, ledger: str, here: str) -> DecisionNeededError:
    """Build the error for brokers of another cluster than the table's."""
    return DecisionNeededError(
        f"{table} was fed from Kafka cluster {ledger}, and the brokers given are cluster {here}",
        code="P454",
        hint="point kafka.brokers at the former cluster, or land in tables of another name",
    )


def rolled_back(table: str, evidence: str, *, quarantine: bool = False) -> PenstockError:
    """Build the error for a table that was rolled back; a quarantine cannot be put back."""
    meant = "a quarantine cannot be put back" if quarantine else f"meant:  penstock seek {table}"
    return DecisionNeededError(
        f"{table} no longer holds what its ledger says: {evidence}",
        code=ROLLED_BACK,
        hint=f"a mistake: roll forward, see  penstock explain P455; {meant}",
    )
