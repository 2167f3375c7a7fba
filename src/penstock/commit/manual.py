"""Land what a person asked for: one attempt on exactly the state that the plan was made from.

A pipeline's own commits are tried again on a changed table, because nothing else covers their
offsets. A manual change was decided from a table's files: on a changed table it is given up, and
planned again by the next command.

Invariants:
- nothing landed when this raises, but for FencedError and UnavailableError after an answer was
  lost: then the message says to check again;
- a rolled-back table takes a seek and nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.commit.attempt import IN_DOUBT, CommitContext, attempt_once, attempts
from penstock.commit.errors import fenced, other_cluster, rolled_back
from penstock.commit.land import committed
from penstock.core.commits import CommitKind, Committable, Landed
from penstock.core.decide import AlreadyLanded, Fenced, decide
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.tables import Table, TableState, Verdict


def land_manual(
    prepared: Committable, examined: TableState, table: Table, context: CommitContext
) -> None:
    """Land a replacement or a seek once, on the state it was decided from.

    Raises UnavailableError (P471) when the table moved meanwhile: nothing was changed; FencedError
    (a newer owner landed), DecisionNeededError (rollback), and what reading and committing raise.
    """
    assert prepared.kind in (CommitKind.REPLACE, CommitKind.SEEK), (
        "a pipeline's own lands by itself"
    )
    claim = context.claim
    commit = replace(prepared, generation=claim.generation, owner=claim.owner)
    began = context.clock.monotonic()
    attempted = ""
    for turn in attempts(context):
        state = table.state(commit.chain)
        landed = _verified_ledger(commit, state)
        decision = decide(commit, landed, claim, context.supersedes)
        if isinstance(decision, AlreadyLanded):
            seconds = context.clock.monotonic() - began
            snapshot = state.head if attempted in ("", IN_DOUBT) else attempted
            context.observer(committed(commit, snapshot, seconds, landed))
            return
        if isinstance(decision, Fenced):
            raise fenced(decision.by, claim)
        if _shape(state) != _shape(examined):
            raise _moved(commit)
        attempted = attempt_once(commit, state, table, context, turn)
    raise _moved(commit)


def _verified_ledger(commit: Committable, state: TableState) -> Landed:
    name = commit.chain.table
    if state.landed is None:
        raise InvalidError(
            f"{name} has no ledger of this pipeline, so there is nothing to land again",
            code="P461",
            hint="nothing has landed in it yet; see  penstock status",
        )
    if state.landed.cluster_id != commit.cluster_id:
        raise other_cluster(name, state.landed.cluster_id, commit.cluster_id)
    agreed = state.verdict is Verdict.AGREED
    if not agreed and not (commit.kind is CommitKind.SEEK and state.verdict is Verdict.ROLLED_BACK):
        raise rolled_back(name, state.evidence)
    return state.landed


def _shape(state: TableState) -> tuple[str, str, int]:
    """Return what a decision was based on: a change of columns moves no head in Iceberg."""
    return state.uuid, state.head, state.schema_id


def _moved(commit: Committable) -> UnavailableError:
    return UnavailableError(
        f"{commit.chain.table} changed since its files were read: nothing was changed",
        code="P471",
        hint="another writer committed meanwhile; try again",
    )
