"""How a target's table is created for what its records show.

Invariant: a table is created with its ledger before anything of the epoch that called for it is
prepared (failure-modes.md W8).
"""

from __future__ import annotations

from penstock.commit.creation import create
from penstock.core.claims import Claim
from penstock.core.commits import Chain, first_ledger
from penstock.core.offsets import Positions
from penstock.core.schema import Schema
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.ports.tables import Table, TableDefinition


def create_table(
    settings: Settings,
    environment: Environment,
    claim: Claim,
    target: TableTarget,
    shown: Schema,
    *,
    start_offsets: Positions,
) -> Table:
    """Create a target's table for what its records show, its ledger at start offsets."""
    location, cluster_id = target.location, environment.cluster_id
    chain = Chain(settings.pipeline, location.table)
    ledger = first_ledger(chain, claim, cluster_id, settings.rules_hash, start_offsets)
    catalog, definition = environment.catalogs[location.catalog], definition_of(target, shown)
    named = (location.table, location.name)
    return create(catalog, named, definition, (ledger,), environment.observer)


def definition_of(target: TableTarget, shown: Schema) -> TableDefinition:
    """Describe the table to create for what a target's records show."""
    return TableDefinition(
        target.schema_for(shown),
        target.partition_by,
        target.properties,
        identifier_fields=target.identifier_fields,
        sort_by=target.sort_by,
    )
