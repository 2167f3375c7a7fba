"""How a chain begins: a table created with its ledger, start positions written before reading.

Source: protocol.md 2, "The first position is a decision, written down".
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.commit.land import CommitContext, land, ledger_gone
from penstock.core.commits import Chain, CommitKind, Committable, EpochNumber, Landed, commit_id_of
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
    conditions: CommitContext,
) -> Positions:
    """Write start positions into a chain where it has none, before anything is read from them.

    Returns the positions that are in the ledger now: another may have written its own first.
    Raises what `land` raises.
    """
    state = table.state(chain)
    segment = 0 if state.landed is None else state.landed.segment
    nonce = f"begin:{conditions.claim.generation}:{conditions.claim.owner}:{conditions.jitter()}"
    anchor = Committable(
        chain=chain,
        table_uuid=state.uuid,
        segment=segment,
        commit_id=commit_id_of(chain, state.uuid, segment, {}, nonce=nonce),
        attempt="begin",
        generation=conditions.claim.generation,
        owner=conditions.claim.owner,
        cluster_id=cluster_id,
        epoch=EpochNumber(0),
        kind=CommitKind.ANCHOR,
        progress={},
        files=(),
        rules_hash=rules_hash,
        schema_id=state.schema_id,
        origins=origins,
    )
    land(anchor, table, conditions)
    landed = table.state(chain).landed
    if landed is None:
        raise ledger_gone(anchor)
    return {at: landed.offsets[at] for at in origins}
