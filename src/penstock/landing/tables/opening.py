"""Find the position of every table before anything is read: its ledgers, and what they know of it.

Invariants:
- a table that was rolled back, or was fed from another cluster, is not opened, nor one whose rows
  were changed by other keys, or cannot be changed by keys at all;
- a table is created with its ledger before anything of the epoch that called for it is prepared
  (failure-modes.md W8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.commit.chain_position import ChainPosition, read_position, sound_position
from penstock.commit.creation import create
from penstock.commit.errors import (
    ledgers_of_all,
    require_keys_of_others,
    require_same_keys,
)
from penstock.core.claims import Claim
from penstock.core.commits import NOBODY, Chain, Keyed, Landed, first_ledger, target_of
from penstock.core.errors import InvalidError
from penstock.core.events import TableAbsent
from penstock.core.growth import FormerEnds
from penstock.core.key_columns import require_key_columns, require_sequence_columns
from penstock.core.offsets import Positions, TopicPartition
from penstock.core.schema import Schema
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.valid_through import ValidThrough
from penstock.ports.tables import Table, TableDefinition, TableState
from penstock.rows.cast.spellings import require_distinct, require_one_column
from penstock.rows.demands.apply import require_options

Listing = Sequence[TopicPartition]


class TopicRoutes(NamedTuple):
    """Where topics go: targets by table, those of their partitions that are this shard's, perhaps
    none, and the topics that no table takes.
    """

    targets: dict[str, TableTarget]
    partitions: dict[str, list[TopicPartition]]
    unrouted: list[str]


def route_topics(settings: Settings, listing: Listing) -> TopicRoutes:
    """Apply the rules of the spec to the topics that are listed."""
    routes = settings.routes(sorted({at.topic for at in listing}))
    targets: dict[str, TableTarget] = {}
    for found in routes.values():
        for target in found:
            before = targets.setdefault(target.location.table, target)
            if target.filters and before is not target:
                filters = {**before.filters, **target.filters}
                targets[before.location.table] = replace(before, filters=filters)
    fixed = {settings.quarantine.table, *(n for n, each in targets.items() if not each.is_route)}
    targets = {name: target.reserving(fixed) for name, target in targets.items()}
    wanted: dict[str, list[TopicPartition]] = {name: [] for name in targets}
    for at in filter(settings.shard.takes, listing):
        for target in routes[at.topic]:
            wanted[target.location.table].append(at)
    return TopicRoutes(targets, wanted, sorted(t for t, found in routes.items() if not found))


def open_quarantine(settings: Settings, environment: Environment) -> Table:
    """Return the quarantine table, created when it is not there."""
    place = settings.quarantine
    catalog = environment.catalogs[place.catalog]
    table = catalog.load(place.name)
    if table is not None:
        return table
    definition = TableDefinition(settings.quarantine_schema)
    return create(catalog, (place.table, place.name), definition, (), environment.observer)


@dataclass(frozen=True, slots=True)
class TableOpener:
    """Reads the positions of tables, and creates them.

    All of it raises UnavailableError, InvalidError or DecisionNeededError about one table alone.
    """

    settings: Settings
    environment: Environment
    quarantine: Table

    def open(self, target: TableTarget) -> TableProgress:
        """Read the positions of a table, or a route, and of its quarantine chain."""
        own, rejects = chains_of(self.settings, target)
        if target.is_route:
            return self._open_route(target, rejects)
        state = self.quarantine.state(rejects)
        position = sound_position(self.quarantine, rejects, state, self.environment.cluster_id)
        table = self.load(target)
        if table is None and not target.create:
            raise table_absent(target.location.table)
        if table is None:
            require_same_shards(self.settings, rejects, self.quarantine, state)
            offsets = position.expected
            if any(offsets.values()):
                begin = ", ".join(f"{at} offset {offset}" for at, offset in sorted(offsets.items()))
                self.environment.observer(TableAbsent(target.location.table, begin))
            return TableProgress(target, own, position, start_offsets=offsets, examined=offsets)
        opened = self.attach(TableProgress(target, own, position), table)
        opened = replace(opened, examined=opened.expected)
        return opened.excluding(quarantined_by(opened.quarantine, opened))

    def attach(self, progress: TableProgress, table: Table) -> TableProgress:
        """Read the position of an existing table; what was examined stays examined."""
        state = table.state(progress.chain)
        require_usable(progress.target, progress.chain, table, state)
        require_same_shards(self.settings, progress.chain, table, state)
        position = sound_position(table, progress.chain, state, self.environment.cluster_id)
        return replace(_as_stated(progress, state), position=position)

    def _open_route(self, target: TableTarget, chain: Chain) -> TableProgress:
        """Read the position of a route: its own chain is the quarantine's, as no rows land in it.

        Below this position, every record's table exists, with a ledger, or the record is rejected.
        """
        state = self.quarantine.state(chain)
        position = sound_position(self.quarantine, chain, state, self.environment.cluster_id)
        progress = TableProgress(
            target, chain, position, position=position, examined=dict(position.expected)
        )
        return _as_stated(progress, state)

    def create_table(
        self,
        target: TableTarget,
        shown: Schema,
        start_offsets: Positions,
        claim: Claim,
        grown: FormerEnds = (),
    ) -> Table:
        """Create a target's table for what its records show, its ledger at start offsets."""
        settings, environment, location = self.settings, self.environment, target.location
        chain, rejects = chains_of(settings, target)
        keys = target.options.keys
        ledger = first_ledger(
            chain,
            claim,
            environment.cluster_id,
            settings.rules_hash,
            start_offsets,
            keyed=Keyed(keys, compares_offsets=True, sequence=target.options.sequence)
            if keys
            else None,
            grown=tuple(grown),
        )
        catalog, definition = environment.catalogs[location.catalog], target.definition_for(shown)
        named = (location.table, location.name)
        ledgers = (ledger, *self._ledgers_of_siblings(chain, rejects))
        return create(catalog, named, definition, ledgers, environment.observer)

    def _ledgers_of_siblings(self, chain: Chain, rejects: Chain) -> Iterator[Landed]:
        """Yield the ledgers that a table is created with for the other shards: each begins where
        its quarantine chain durably is, as it would itself.
        """
        settings, cluster_id = self.settings, self.environment.cluster_id
        names = zip(*map(settings.shard.siblings_of, (chain.name, rejects.name)), strict=True)
        for name, refused in names:
            if name != chain.name:
                where = Chain(refused, rejects.table)
                begun = read_position(self.quarantine, where, cluster_id).expected
                own = Chain(name, chain.table)
                yield first_ledger(own, NOBODY, cluster_id, settings.rules_hash, begun)

    def load(self, target: TableTarget) -> Table | None:
        """Load a target's table; None where there is none."""
        return self.environment.catalogs[target.location.catalog].load(target.location.name)

    def chains(self, target: TableTarget) -> list[tuple[Chain, Table]]:
        """Return the chains of a target with the tables they are in, as far as these are there."""
        own, rejects = chains_of(self.settings, target)
        table = None if target.is_route else self.load(target)
        return [(rejects, self.quarantine), *([(own, table)] if table is not None else [])]


def require_same_shards(settings: Settings, chain: Chain, table: Table, state: TableState) -> None:
    """Refuse a table that was begun by another number of shards (P527).

    A pipeline without them that has a ledger has begun it alone.
    """
    shard = settings.shard
    if shard.count == 1 and state.landed is not None:
        return
    begun = {each.chain: len(each.offsets) for each in ledgers_of_all(table, state)}
    found = shard.other_count(chain.name, begun)
    if found is not None:
        raise other_shards(target_of(settings.pipeline, chain), found, shard.count)


def other_shards(table: str, found: int, given: int) -> InvalidError:
    """Build the error for a table whose ledgers are of another number of shards."""
    begun, now = _shards_text(found), _shards_text(given)
    return InvalidError(
        f"table {table} was begun by {begun}, and the spec says {now}",
        code="P527",
        hint=f"write  shards: {found}  into the spec; their number cannot be changed",
    )


def _shards_text(count: int) -> str:
    return "a pipeline without shards" if count == 1 else f"{count} shards"


def chains_of(settings: Settings, target: TableTarget) -> tuple[Chain, Chain]:
    """Name a target's own chain, and its quarantine chain."""
    name = target.location.table
    rejects = Chain(f"{settings.pipeline}/{name}", settings.quarantine.table)
    return Chain(settings.pipeline, name), rejects


def _as_stated(progress: TableProgress, state: TableState) -> TableProgress:
    if state.landed is None:
        return replace(progress, state=state)
    return replace(
        progress,
        state=state,
        valid_through=ValidThrough(state.landed.valid_through_ms),
        leader_epochs=dict(state.landed.leader_epochs),
    )


def table_absent(table: str) -> InvalidError:
    """Build the error for a table that is not there and may not be created."""
    return InvalidError(
        f"table {table} does not exist",
        code="P456",
        hint="create it, or let Penstock do so with  schema: {create: true}",
    )


def require_usable(target: TableTarget, chain: Chain, table: Table, state: TableState) -> None:
    """Raise InvalidError or DecisionNeededError when rows of the target cannot land in the table:
    it lacks a column, is changed by other keys, or none of its rows can be replaced.
    """
    name, keys, sequence = target.location.table, target.options.keys, target.options.sequence
    require_columns(target, state)
    require_options(name, state.demands, target.options)
    require_same_keys(name, state.landed, keys, sequence)
    require_keys_of_others(chain, table, state, keys, sequence)
    if keys:
        require_key_columns(name, state.schema, keys)
        require_sequence_columns(name, state.schema, sequence)
        table.require_row_deletes(state, target.row_deletes)


def require_columns(target: TableTarget, state: TableState) -> None:
    """Raise InvalidError when the table lacks a column that Penstock is to fill."""
    lacking = [
        column
        for column in target.options.source_columns.values()
        if state.schema.field(column) is None
    ]
    if lacking:
        raise InvalidError(
            f"table {target.location.table} has no column {', '.join(lacking)}",
            code="P457",
            hint="add the column"
            if target.options.keys
            else "add the column, or list the source columns it has:  source_columns: []",
        )
    for column in target.options.soft_columns:
        there = state.schema.field(column.name)
        if there is None or there.type is not column.type or there.required:
            held = "no such column" if there is None else f"one of {there.type}"
            held += ", which is required" if there is not None and there.required else ""
            raise InvalidError(
                f"deletes: soft needs an optional column {column.name} of {column.type}, and table "
                f"{target.location.table} has {held}",
                code="P457",
                hint="add the column, or name another one under  soft",
            )
    if not target.options.case_sensitive:
        require_distinct(state.schema, target.location.table)
    if target.options.match == "name_mapping":
        if state.other_names is None:
            raise InvalidError(
                f"table {target.location.table} has no name mapping that could be read",
                code="P457",
                hint="set its property  schema.name-mapping.default, or remove  match",
            )
        require_one_column(state.other_names, target.location.table)


def required_of_deleted(target: TableTarget, state: TableState) -> list[str]:
    """List the required columns for which a soft delete that brings a key alone has no value."""
    options = target.options
    if not options.soft_columns:
        return []
    known = {*options.keys, *options.beside_value}
    return [f.name for f in state.schema.fields if f.required and f.name not in known]


def quarantined_by(
    quarantine: ChainPosition, table: TableProgress
) -> frozenset[tuple[str, int, int]]:
    """Look up what of the range that a table reads again is in quarantine: it stays there.

    `quarantine` is the table's own chain, or that of the route that leads to it. Raises
    UnavailableError.
    """
    ahead = [
        [at.topic_id, at.partition, at.topic, table.examined[at], stop]
        for at, stop in quarantine.expected.items()
        if at in table.examined and table.examined[at] < stop
    ]
    return frozenset(quarantine.table.quarantined(quarantine.chain, ahead) if ahead else ())
