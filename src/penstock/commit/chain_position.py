"""The position of one chain in its table, and the commits that begin there.

Invariant: a commit begins at the expected position of its chain, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.commit.attempt import CommitContext
from penstock.commit.errors import other_cluster, require_rank, rolled_back
from penstock.core.accounting import Tally
from penstock.core.claims import Claim
from penstock.core.commits import (
    NOBODY,
    Chain,
    CommitKind,
    Committable,
    DataFile,
    EpochNumber,
    Landed,
    commit_id_of,
)
from penstock.core.offsets import LeaderEpochs, Positions, Progress, TopicPartition, stops
from penstock.core.resolutions import records_only
from penstock.ports.tables import Table, TableState

NO_EPOCH = EpochNumber(0)
"""The label of commits that belong to no epoch."""


@dataclass(frozen=True, slots=True)
class ChainPosition:
    """The position of one chain in its table; `last_claim` is the claim that landed last in it.

    `expected` is what the chain will have landed once its pending commits are in; `grown` is what
    its ledger says of partitions that were added.
    """

    chain: Chain
    table: Table
    uuid: str
    segment: int
    schema_id: int
    last_claim: Claim
    expected: Positions
    grown: tuple[Positions, ...] = ()

    def begun(self, origins: Positions, landed: Landed) -> ChainPosition:
        """Return it with further start positions, as its ledger has them now."""
        return replace(self, expected={**self.expected, **origins}, grown=landed.grown)

    def after(self, commit: Committable) -> ChainPosition:
        """Return it as it is expected once a commit of its chain is in."""
        expected = {**commit.origins, **self.expected, **stops(commit.progress)}
        return replace(self, expected=expected)

    def read(self) -> TableState:
        """Read the state of its table afresh. Raises UnavailableError, InvalidError."""
        return self.table.state(self.chain)

    def recheck(self, context: CommitContext) -> None:
        """Raise FencedError when a newer owner has landed since; UnavailableError."""
        require_rank(self.read(), context.claim, context.supersedes)


@dataclass(frozen=True, slots=True)
class CommitLabels:
    """Values shared by the commits of one epoch, or of one manual change."""

    claim: Claim
    cluster_id: str
    epoch: EpochNumber
    rules_hash: str
    attempt: str


def read_position(table: Table, chain: Chain, cluster_id: str) -> ChainPosition:
    """Read a chain's position in its table. Raises like `sound_position`, UnavailableError."""
    return sound_position(table, chain, table.state(chain), cluster_id)


def sound_position(table: Table, chain: Chain, state: TableState, cluster_id: str) -> ChainPosition:
    """Return a chain's position in a state of its table.

    Raises DecisionNeededError where the table was rolled back or was fed from another cluster.
    """
    if not state.verdict.is_sound:
        raise rolled_back(chain.table, state.evidence, quarantine=chain.is_quarantine)
    if state.landed is not None and state.landed.cluster_id != cluster_id:
        raise other_cluster(chain.table, state.landed.cluster_id, cluster_id)
    return position_at(table, chain, state)


def position_at(table: Table, chain: Chain, state: TableState) -> ChainPosition:
    """Return a chain's position in a state of its table, whatever the witnesses say."""
    landed = state.landed
    return ChainPosition(
        chain=chain,
        table=table,
        uuid=state.uuid,
        segment=0 if landed is None else landed.segment,
        schema_id=state.schema_id,
        last_claim=last_claim_of(landed),
        expected={} if landed is None else records_only(landed.offsets),
        grown=() if landed is None else landed.grown,
    )


def last_claim_of(landed: Landed | None) -> Claim:
    """Return the claim that landed last in a chain; the lowest there is where nothing did."""
    return NOBODY if landed is None else landed.claim


def commit_at(
    position: ChainPosition,
    progress: Progress,
    files: tuple[DataFile, ...],
    labels: CommitLabels,
    *,
    kind: CommitKind = CommitKind.APPEND,
    nonce: str = "",
    valid_through_ms: int | None = None,
    origins: Positions | None = None,
    tallies: Mapping[TopicPartition, Tally] | None = None,
    leader_epochs: LeaderEpochs | None = None,
    removes: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    touched: bytes | None = None,
    sequence: tuple[str, ...] = (),
    ends: Positions | None = None,
    purged_through_ms: int | None = None,
    beside: Mapping[str, Positions] | None = None,
    begun: int = 0,
) -> Committable:
    """Make one commit of a chain; its id follows from the progress, or from a nonce without one.

    A row delta has `keys`, the columns of the key, the keys that it touches, and perhaps a
    `sequence`: columns by which changes compare.
    """
    assert (kind is CommitKind.ROW_DELTA) == bool(keys) == (touched is not None), "keys of rows"
    if not progress and not nonce:
        nonce = f"{labels.attempt}:{labels.epoch}"
    return Committable(
        chain=position.chain,
        table_uuid=position.uuid,
        segment=position.segment,
        commit_id=commit_id_of(
            position.chain, position.uuid, position.segment, progress, nonce=nonce
        ),
        attempt=labels.attempt,
        generation=labels.claim.generation,
        owner=labels.claim.owner,
        cluster_id=labels.cluster_id,
        epoch=labels.epoch,
        kind=kind,
        progress=progress,
        files=files,
        rules_hash=labels.rules_hash,
        schema_id=position.schema_id,
        valid_through_ms=valid_through_ms,
        origins=origins or {},
        leader_epochs={at: e for at, e in (leader_epochs or {}).items() if at in progress},
        tallies=tallies or {},
        removes=removes,
        keys=keys,
        touched=touched,
        sequence=sequence,
        ends=ends or {},
        growths=len(position.grown),
        purged_through_ms=purged_through_ms,
        beside=beside or {},
        begun=begun,
    )
