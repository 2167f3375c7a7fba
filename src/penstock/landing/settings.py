"""What the coordinator is told: settings are data, the world is ports. Built by the app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from penstock.core.schema import Field, Schema, Struct, Type
from penstock.landing.commit_executor import CommitExecutor, ThreadPoolCommits
from penstock.ownership.heartbeat import Heartbeat, start_heartbeat
from penstock.ports.log import Log
from penstock.ports.runtime import Clock, Engine, Observer
from penstock.ports.store import Owner, PendingStore
from penstock.ports.tables import TableFormat
from penstock.rows.options import RowOptions
from penstock.rows.route.filters import NOTHING, ComputedColumns, DynamicRoute, RecordFilter
from penstock.rows.schema.inference import table_schema

Start = Literal["earliest", "latest"] | int | Mapping[str, Mapping[int, int]]
Until = Literal["stopped", "once", "caught-up"]
Consent = Literal["gap", "topic", "rules"]


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Name a table: in the spec (`lake.bronze.orders`), its catalog, and in that catalog."""

    table: str
    catalog: str
    name: str
    connector: str


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Describe one table that topics are landed in, or a route to several.

    `gates` say by topic which records are for it; a topic without one lands all.
    """

    location: TableLocation
    options: RowOptions
    create: bool
    hints: Mapping[str, Type] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identifier_fields: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    registry: Mapping[str, Any] | None = None
    filters: Mapping[str, RecordFilter] = field(default_factory=dict)
    computed: ComputedColumns = NOTHING
    computed_types: Mapping[str, Type] = field(default_factory=dict)

    def schema_for(self, shown: Schema) -> Schema:
        """Return the schema to create the table with, for what records show."""
        own = [each for each in shown.fields if each.name not in self.computed_types]
        computed = [Field(name, type_) for name, type_ in self.computed_types.items()]
        return table_schema(Struct((*own, *computed)), self.hints, self.options)

    @property
    def route(self) -> DynamicRoute | None:
        """Return the route that this stands for or leads to; None for a table of a fixed name."""
        return next((gate.route for gate in self.filters.values() if gate.route), None)

    @property
    def is_route(self) -> bool:
        """Return whether this is a route itself, which no rows land in."""
        return any(gate.route and not gate.share for gate in self.filters.values())

    def reserving(self, others: Collection[str]) -> TableTarget:
        """Return the same, with the names of other tables reserved."""
        if not self.is_route:
            return self
        reserved = tuple(sorted(others))
        gates = {
            topic: replace(gate, route=replace(gate.route, reserved=reserved))
            for topic, gate in self.filters.items()
            if gate.route is not None
        }
        return replace(self, filters=gates)

    def route_table(self, table: str) -> TableTarget:
        """Return one table of a route."""
        _, _, name = table.partition(".")
        return replace(
            self,
            location=replace(self.location, table=table, name=name),
            filters={topic: replace(gate, share=table) for topic, gate in self.filters.items()},
        )


Routes = Callable[[Collection[str]], Mapping[str, tuple[TableTarget, ...]]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything about a pipeline that the loop needs; `log` goes into jobs and holds no secret.

    `routes` gives the targets of topics by their names; it is pure, and raises InvalidError when
    two of them cannot live together. `former_routes` gives the same by the rules of a kept text,
    without the topics that these do not read; it raises InvalidError where today's surroundings
    cannot have these rules. `start` is a word, an epoch millisecond, or offsets by topic and
    partition.
    """

    pipeline: str
    rules_hash: str
    rules_text: str
    routes: Routes
    former_routes: Callable[[str], Routes]
    quarantine: TableLocation
    quarantine_schema: Schema
    start: Start
    log: Mapping[str, Any]
    every_seconds: float = 30.0
    records_max: int = 10_000_000
    bytes_max: int = 256 << 20
    slice_bytes: int = 64 << 20
    timeout_seconds: float = 120.0
    anchor_every_seconds: float = 3600.0
    max_epochs: int = 4
    retain: int = 25
    columns_max: int = 2000
    tables_max: int = 1000
    new_columns_per_hour: int = 100
    held_bytes_max: int = 512 << 20
    stop_above_share: float = 1.0
    commit_threads: int = 8
    heartbeat_seconds: float = 3.0
    alive_seconds: float = 15.0
    accept: frozenset[Consent] = frozenset()
    crash_plan: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside, as ports. `cluster_id` is the log's, asked once: a cluster that takes its place
    has topics of other ids. `jitter` gives numbers in 0..1, `token` short random texts.
    """

    log: Log
    cluster_id: str
    catalogs: Mapping[str, TableFormat]
    store: PendingStore
    engine: Engine
    observer: Observer
    clock: Clock
    owner: Owner
    jitter: Callable[[], float]
    token: Callable[[], str]
    commit_executor: Callable[[int], CommitExecutor] = ThreadPoolCommits
    start_heartbeat: Callable[[Callable[[], bool], float], Heartbeat] = start_heartbeat
