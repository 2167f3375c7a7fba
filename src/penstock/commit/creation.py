"""Begins chains: creates a table with its ledger, and writes start positions before reading.

Source: protocol.md 2, "The first position is a decision, written down".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import NO_EPOCH, CommitLabels, commit_at, position_at
from penstock.commit.errors import ledger_missing
from penstock.commit.land import land
from penstock.core.commits import Chain, CommitKind, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.events import TableCreated
from penstock.core.offsets import Positions
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableDefinition, TableFormat


def create(
    catalog: TableFormat,
    place: tuple[str, str],
    definition: TableDefinition,
    ledgers: Sequence[Landed],
    observer: Observer,
) -> Table:
    """Create a table together with its ledgers, or take the one that another created first.

    `place` is the table's name in the spec and in its catalog.
    Raises what `TableFormat.create` raises.
    """
    observer.passed(CrashPoint.CREATE_BEFORE)
    full_name, name = place
    table = catalog.create(name, definition, ledgers)
    observer.passed(CrashPoint.CREATE_AFTER)
    observer(TableCreated(full_name, len(definition.schema.fields)))
    return table


def begin(
    table: Table,
    chain: Chain,
    origins: Positions,
    *,
    cluster_id: str,
    rules_hash: str,
    context: CommitContext,
    ends: Positions | None = None,
    beside: Mapping[str, Positions] | None = None,
    begun: int = 0,
) -> Landed:
    """Write start positions into a chain where it has none, before anything is read from them;
    `ends` are where former partitions end, `beside` start positions of sibling shards' chains,
    which count only while no more than `begun` positions are in their ledgers.

    Returns the ledger as it is now: another owner, or a sibling, may have written first. Raises
    what `land` raises.
    """
    claim = context.claim
    anchor = commit_at(
        position_at(table, chain, table.state(chain)),
        {},
        (),
        CommitLabels(claim, cluster_id, NO_EPOCH, rules_hash, "begin"),
        kind=CommitKind.ANCHOR,
        nonce=f"begin:{claim.generation}:{claim.owner}:{context.jitter()}",
        origins=origins,
        ends=ends,
        beside=beside,
        begun=begun,
    )
    land(anchor, table, context)
    landed = table.state(chain).landed
    if landed is None:
        raise ledger_missing(anchor)
    return landed
