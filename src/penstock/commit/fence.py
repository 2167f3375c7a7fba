"""Move the head of a table without moving progress, so that no attempt in flight can land."""

from __future__ import annotations

from dataclasses import replace

from penstock.commit.attempt import IN_DOUBT, CommitContext, attempt_once, attempts
from penstock.commit.chain_position import NO_EPOCH, CommitLabels, commit_at, position_at
from penstock.commit.errors import last_lineage, require_rank
from penstock.core.commits import Chain, CommitKind, Committable, commit_id_of
from penstock.core.errors import UnavailableError
from penstock.ports.tables import Table, TableState


def fence(like: Committable, state: TableState, table: Table, context: CommitContext) -> None:
    """Move the head of a table without moving progress, so that no attempt in flight can land."""
    nonce = f"fence:{state.head}:{context.claim.generation}:{context.jitter()}"
    commit = replace(
        like,
        kind=CommitKind.FENCE,
        commit_id=commit_id_of(like.chain, state.uuid, like.segment, {}, nonce=nonce),
        table_uuid=state.uuid,
        progress={},
        files=(),
        removes=(),
        keys=(),
        sequence=(),
        touched=None,
        compares_offsets=False,
        origins={},
        beside={},
        tallies={},
        valid_through_ms=None,
        generation=context.claim.generation,
        owner=context.claim.owner,
    )
    for turn in attempts(context):
        if attempt_once(commit, state, table, context, turn) not in {"", IN_DOUBT}:
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


def fence_rollback(chain: Chain, state: TableState, table: Table, context: CommitContext) -> None:
    """Move the head of a table that was rolled back: it kills attempts that this re-armed.

    Raises FencedError when a newer owner has landed, and what `fence` raises.
    """
    landed = state.landed
    assert landed is not None, "only a ledger shows a rollback"
    require_rank(state, context.claim, supersedes=last_lineage(state))
    labels = CommitLabels(context.claim, landed.cluster_id, NO_EPOCH, landed.rules_hash, "fence")
    position = position_at(table, chain, state)
    like = commit_at(position, {}, (), labels, kind=CommitKind.FENCE, nonce="rollback")
    fence(like, state, table, context)
