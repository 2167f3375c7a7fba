"""Land one prepared commit once: examine, decide, compare-and-set, read back (protocol.md 5).

Invariants:
- every attempt is decided on a state read afresh, and is applied to that state or not at all;
- what a row delta replaces is found after the decision, on that same state; where files are
  written again for it, they are after that, and from that state;
- a chain changes rows by the keys that its ledger names, and by no others; nor does it land beside
  a pipeline that changes rows of the table by others;
- nothing is deleted here, whatever the outcome;
- a lost answer is never taken for a failure nor for a success: the next turn finds out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

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
    keyed_otherwise,
    keys_across_partitions,
    last_lineage,
    ledger_missing,
    other_cluster,
    require_rank,
    require_same_keys,
    rolled_back,
)
from penstock.commit.fence import fence
from penstock.commit.rewriting import FileRewriter
from penstock.commit.row_deltas import RowDeltaResolver
from penstock.core.commits import (
    CommitKind,
    Committable,
    Landed,
    begun_count,
    first_ledger,
    outgrown,
)
from penstock.core.crash_points import CrashPoint
from penstock.core.decide import AlreadyLanded, Commit, Fenced, Gap, Superseded, decide
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.events import (
    CommitAborted,
    CommitFoundLanded,
    GapFound,
    KeysAcrossPartitions,
    TableCommitted,
)
from penstock.core.table_errors import FILES_REJECTED
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableState, Verdict


@dataclass(frozen=True, slots=True)
class LandResult:
    """The outcome of one commit: `landed` with these very files, or proven unable to land."""

    landed: bool
    reason: str


class _RowDelta(NamedTuple):
    """What finds the rows that a commit replaces, and what rewrites their files, if anything."""

    resolver: RowDeltaResolver
    rewriter: FileRewriter | None


def land(
    prepared: Committable, table: Table, context: CommitContext, *, abort_reason: str = ""
) -> LandResult:
    """Land a commit exactly once, or prove that it cannot land.

    `abort_reason` says why it must not land, though the table is where it begins: then a fence
    stops any attempt of it in flight before it is dropped (protocol.md 6).

    Raises FencedError (a newer owner landed), DecisionNeededError (rollback, re-created table, lost
    ledger, keys of two partitions, P265), UnavailableError (no table, no catalog, no turn left).
    """
    with context.turnstile.passing(prepared.chain.table, context.clock.monotonic()):
        return _land(prepared, table, context, abort_reason)


def _land(
    prepared: Committable, table: Table, context: CommitContext, abort_reason: str
) -> LandResult:
    claim, observer = context.claim, context.observer
    commit = replace(prepared, generation=claim.generation, owner=claim.owner)
    delta = _row_delta(commit, context)
    attempted, dead = "", False
    began = context.clock.monotonic()
    for turn in attempts(context):
        state = table.state(commit.chain)
        require_sound(commit, state, table, context)
        landed = examined_ledger(commit, state)
        decision = decide(commit, landed, claim, context.supersedes)
        match decision:
            case Commit() if dead:
                return _aborted(commit, observer, abort_reason)
            case Commit() if reason := abort_reason or _outdated(commit, state, table):
                abort_reason = reason  # it may cease to hold, and an attempt that failed come back
                fence(commit, state, table, context)
                dead = True  # an attempt in flight may have been faster: read again
            case Commit():
                snapshot, abort_reason = _try_commit(
                    commit, state, table, context, turn, delta=delta
                )
                attempted = snapshot or attempted
            case AlreadyLanded(ours=ours):
                if not (attempted and ours):
                    return _found(commit, observer, ours=ours)
                seconds = context.clock.monotonic() - began
                snapshot = state.head if attempted == IN_DOUBT else attempted
                event = committed(commit, snapshot, seconds, landed, _report(delta, observer))
                observer(replace(event, rewritten_bytes=_rewritten_bytes(delta)))
                return LandResult(landed=True, reason="committed")
            case Fenced(by=by):
                raise fenced(by, claim)
            case Gap() if state.verdict is Verdict.ABSENT:
                raise ledger_missing(commit)
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


def _outdated(commit: Committable, state: TableState, table: Table) -> str:
    """Return why a commit must not land as the table is now: "" where it may.

    Files of a former schema would lose their columns (protocol.md 5); rows beside those of a
    pipeline with other keys would be second ones of a key (docs/design/0270); what was before a
    topic grew comes first (docs/design/0266); and where shards begin is decided once, by the first
    (docs/design/0337).
    """
    if commit.files and state.schema_id != commit.schema_id:
        return "the table's schema changed meanwhile"
    if commit.beside:
        family = {*commit.beside, commit.chain.name}
        if commit.begun != begun_count(family, table.ledgers(state)):
            return "another shard has begun meanwhile"
    if commit.kind is CommitKind.ROW_DELTA and state.landed and outgrown(state.landed, commit):
        return "its topic was given partitions meanwhile"
    if commit.chain.is_quarantine or commit.kind not in (CommitKind.APPEND, CommitKind.ROW_DELTA):
        return ""
    given = commit.chain, table, state, commit.keys, commit.sequence
    other = next(keyed_otherwise(*given), None)
    return f"pipeline {other.chain} changes rows of the table by keys" if other else ""


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
    if not state.verdict.is_sound:
        raise rolled_back(commit.chain.table, state.evidence, quarantine=commit.chain.is_quarantine)


def _row_delta(commit: Committable, context: CommitContext) -> _RowDelta | None:
    if commit.touched is None:
        return None
    rewriting = context.rewriting.get(commit.chain.table)
    rewriter = FileRewriter(commit, rewriting, context.observer) if rewriting else None
    return _RowDelta(RowDeltaResolver(commit), rewriter)


def _report(delta: _RowDelta | None, observer: Observer) -> Mapping[str, int]:
    """Return what the changes of a row delta did, as its last attempt found it."""
    if delta is None or delta.resolver.last is None:
        return {}
    found = delta.resolver.last
    if found.across or found.moved:
        name = delta.resolver.commit.chain.table
        observer(KeysAcrossPartitions(name, found.across, found.moved))
    return found.counts


def _rewritten_bytes(delta: _RowDelta | None) -> int:
    return 0 if delta is None or delta.rewriter is None else delta.rewriter.size_bytes


def _try_commit(
    commit: Committable,
    state: TableState,
    table: Table,
    context: CommitContext,
    turn: Attempt,
    *,
    delta: _RowDelta | None,
) -> tuple[str, str]:
    if commit.kind in (CommitKind.APPEND, CommitKind.ROW_DELTA):
        require_same_keys(commit.chain.table, state.landed, commit.keys, commit.sequence)
    row_deletes: Sequence[RowDeletes] = ()
    if delta is not None:
        context.observer.passed(CrashPoint.RESOLVE_BEFORE)
        found = delta.resolver.resolve(state, table, examined_ledger(commit, state))
        context.observer.passed(CrashPoint.RESOLVE_AFTER)
        if found.is_withheld:
            return "", "rows of keys that are retried are gone, or of other writers meanwhile"
        keys = found.in_two_partitions
        if keys and commit.chain.table in context.stop_across_partitions:
            raise keys_across_partitions(commit.chain.table, keys)
        commit = replace(commit, compares_offsets=found.compares_offsets)
        row_deletes = found.row_deletes
        if delta.rewriter is not None:
            row_deletes = delta.rewriter.rewrite(state, table, row_deletes, found.searched)
    try:
        return attempt_once(commit, state, table, context, turn, row_deletes=row_deletes), ""
    except InvalidError as error:
        if error.code != FILES_REJECTED:
            raise
        return "", error.message


def _found(commit: Committable, observer: Observer, *, ours: bool) -> LandResult:
    observer(CommitFoundLanded(*names_of(commit), ours))
    reason = "found landed" if ours else "its ranges landed with other files"
    return LandResult(landed=ours, reason=reason)


def _aborted(commit: Committable, observer: Observer, reason: str) -> LandResult:
    observer(CommitAborted(*names_of(commit), reason))
    return LandResult(landed=False, reason=reason)


def committed(
    commit: Committable,
    snapshot: str,
    seconds: float,
    landed: Landed,
    changes: Mapping[str, int] | None = None,
) -> TableCommitted:
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
        changes=_with_superseded(changes or {}, commit),
    )


def _with_superseded(changes: Mapping[str, int], commit: Committable) -> Mapping[str, int]:
    """Add the records whose change a later one of the same commit replaces, where there are any."""
    superseded = sum(tally.superseded for tally in commit.tallies.values())
    return {**changes, "superseded": superseded} if superseded else changes
