"""Land one prepared commit once: examine, decide, compare-and-set, read back (protocol.md 5).

Invariants:
- every attempt is decided on a state read afresh, and is applied to that state or not at all;
- nothing is deleted here, whatever the outcome;
- a lost answer is never taken for a failure nor for a success: the next turn finds out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from penstock.commit.attempt import (
    IN_DOUBT,
    Attempt,
    CommitContext,
    attempt_once,
    attempts,
    names_of,
)
from penstock.commit.errors import (
    fenced,
    last_lineage,
    ledger_gone,
    other_cluster,
    require_rank,
    rolled_back,
)
from penstock.commit.fence import fence
from penstock.core.commits import Committable, Landed, first_ledger
from penstock.core.decide import AlreadyLanded, Commit, Fenced, Gap, Superseded, decide
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.events import CommitAborted, CommitFoundLanded, GapFound, TableCommitted
from penstock.core.table_errors import FILES_UNFIT
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableState, Verdict


@dataclass(frozen=True, slots=True)
class LandResult:
    """How one commit ended: `landed` with these very files, or proven unable to land."""

    landed: bool
    reason: str


def land(
    prepared: Committable, table: Table, context: CommitContext, *, unfit: str = ""
) -> LandResult:
    """Land a commit exactly once, or prove that it cannot land.

    `unfit` is a reason not to land it, though the table stands where it begins: then a fence kills
    what may be in flight of it before it is dropped (protocol.md 6).

    Raises FencedError (a newer owner landed), DecisionNeededError (rollback, re-created table, lost
    ledger), UnavailableError (table or catalog not there, or too many foreign commits in a row).
    """
    claim, observer = context.claim, context.observer
    commit = replace(prepared, generation=claim.generation, owner=claim.owner)
    attempted, dead = "", False
    began = context.clock.monotonic()
    for turn in attempts(context):
        state = table.state(commit.chain)
        require_sound(commit, state, table, context)
        landed = examined_ledger(commit, state)
        decision = decide(commit, landed, claim, context.supersedes)
        match decision:
            case Commit() if dead:
                return _aborted(commit, observer, unfit)
            case Commit() if unfit or _schema_changed(commit, state):
                unfit = unfit or "the table's schema changed meanwhile"
                fence(commit, state, table, context)
                dead = True  # an attempt in flight may have been faster: look again
            case Commit():
                snapshot, unfit = _try_commit(commit, state, table, context, turn)
                attempted = snapshot or attempted
            case AlreadyLanded(ours=ours):
                if not (attempted and ours):
                    return _found(commit, observer, ours=ours)
                seconds = context.clock.monotonic() - began
                snapshot = state.head if attempted == IN_DOUBT else attempted
                observer(committed(commit, snapshot, seconds, landed))
                return LandResult(landed=True, reason="committed")
            case Fenced(by=by):
                raise fenced(by, claim)
            case Gap() if state.verdict is Verdict.ABSENT:
                raise ledger_gone(commit)
            case Gap():
                observer(GapFound(*names_of(commit)))
                return _aborted(commit, observer, "the table's position is before its start")
            case Superseded():
                return _aborted(commit, observer, "another run landed an overlapping range")
            case _:
                assert_never(decision)
    raise UnavailableError(
        f"{commit.chain.table}: {context.turns_max} attempts to commit met a changed table or "
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
    commit: Committable, state: TableState, table: Table, context: CommitContext
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
        require_rank(state, context.claim, supersedes=last_lineage(state))
        fence(commit, state, table, context)
        raise rolled_back(commit.chain.table, state.evidence, quarantine=commit.chain.is_quarantine)
    if state.verdict is Verdict.UNCERTAIN:
        raise rolled_back(commit.chain.table, state.evidence, quarantine=commit.chain.is_quarantine)


def _try_commit(
    commit: Committable, state: TableState, table: Table, context: CommitContext, turn: Attempt
) -> tuple[str, str]:
    """Try once as `attempt_once` does; give the snapshot, and why the files do not fit any more."""
    try:
        return attempt_once(commit, state, table, context, turn), ""
    except InvalidError as error:
        if error.code != FILES_UNFIT:
            raise
        return "", error.message


def _found(commit: Committable, observer: Observer, *, ours: bool) -> LandResult:
    observer(CommitFoundLanded(*names_of(commit), ours))
    reason = "found landed" if ours else "its ranges landed with other files"
    return LandResult(landed=ours, reason=reason)


def _aborted(commit: Committable, observer: Observer, reason: str) -> LandResult:
    observer(CommitAborted(*names_of(commit), reason))
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
