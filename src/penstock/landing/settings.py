"""What the coordinator is given: settings are data, the outside is ports. Built by the app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from penstock.commit.rewriting import Rewriting
from penstock.commit.turnstile import Turnstile
from penstock.core.hold import Hold
from penstock.core.key_columns import require_key_columns, require_sequence_columns
from penstock.core.maintenance import TableHealth
from penstock.core.schema import Field, Schema, Struct, Type
from penstock.core.shards import Shard
from penstock.ownership.claim import ClaimContext, Heartbeat
from penstock.ports.exchange import Exchanges, no_exchange
from penstock.ports.groups import Follower
from penstock.ports.log import Log
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.runtime import Clock, Engine, Observer
from penstock.ports.store import Owner, PendingStore
from penstock.ports.table_locks import TableLocks
from penstock.ports.tables import TableDefinition, TableFormat
from penstock.ports.writers import AS_THEY_COME, Placing, WriterFactory
from penstock.rows.options import RowOptions
from penstock.rows.route.filters import NOTHING, ComputedColumns, DynamicRoute, RecordFilter
from penstock.rows.schema.inference import table_schema

Start = Literal["earliest", "latest"] | int | Mapping[str, Mapping[int, int]]
Until = Literal["stopped", "once", "caught-up"]
Consent = Literal["gap", "topic", "rules"]
CommitsAtOnce = int | Literal["auto"]
HealthOf = Callable[[], Mapping[str, TableHealth]]
"""Returns what is known of how tables lie, by their names in the spec."""


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

    `filters` say by topic which records are for it; a topic without one lands all.
    """

    location: TableLocation
    options: RowOptions
    create: bool
    hints: Mapping[str, Type] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identifier_fields: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    row_deletes: RowDeleteMode = RowDeleteMode.AUTO
    placing: Placing = AS_THEY_COME
    registry: Mapping[str, Any] | None = None
    filters: Mapping[str, RecordFilter] = field(default_factory=dict)
    computed: ComputedColumns = NOTHING
    computed_types: Mapping[str, Type] = field(default_factory=dict)

    def schema_for(self, shown: Schema) -> Schema:
        """Return the schema to create the table with, for what records show."""
        own = [each for each in shown.fields if each.name not in self.computed_types]
        computed = [Field(name, type_) for name, type_ in self.computed_types.items()]
        return table_schema(Struct((*own, *computed)), self.hints, self.options)

    def definition_for(self, shown: Schema) -> TableDefinition:
        """Describe the table to create for what records show. Raises InvalidError (P434) for keys
        or a sequence of other columns than it would have: such a table is not created.
        """
        name, schema = self.location.table, self.schema_for(shown)
        require_key_columns(name, schema, self.options.keys)
        require_sequence_columns(name, schema, self.options.sequence)
        return TableDefinition(
            schema,
            self.partition_by,
            self.properties,
            identifier_fields=self.identifier_fields,
            sort_by=self.sort_by,
            keys=self.options.keys,
            row_deletes=self.row_deletes,
        )

    @property
    def route(self) -> DynamicRoute | None:
        """Return the route that this is or leads to; None for a table of a fixed name."""
        return next((each.route for each in self.filters.values() if each.route), None)

    @property
    def is_route(self) -> bool:
        """Return whether this is a route itself, which no rows land in."""
        return any(each.route and not each.share for each in self.filters.values())

    def reserving(self, others: Collection[str]) -> TableTarget:
        """Return the same, with the names of other tables reserved."""
        if not self.is_route:
            return self
        reserved = tuple(sorted(others))
        filters = {
            topic: replace(each, route=replace(each.route, reserved=reserved))
            for topic, each in self.filters.items()
            if each.route is not None
        }
        return replace(self, filters=filters)

    def route_table(self, table: str) -> TableTarget:
        """Return one table of a route."""
        _, _, name = table.partition(".")
        return replace(
            self,
            location=replace(self.location, table=table, name=name),
            filters={topic: replace(each, share=table) for topic, each in self.filters.items()},
        )


@dataclass(frozen=True, slots=True)
class RewrittenTable:
    """A table whose files are written again where rows go: its connector, and how many bytes of
    them a commit may write.
    """

    connector: str
    bytes_max: int


Routes = Callable[[Collection[str]], Mapping[str, tuple[TableTarget, ...]]]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything about a pipeline that the loop needs; `log` goes into jobs and holds no secret.

    `routes` gives the targets of topics by their names; it is pure, and raises InvalidError when
    two of them cannot live together. `former_routes` gives the same by the rules of a kept text,
    without the topics that these do not read; it raises InvalidError where today's surroundings
    cannot have these rules. `start` is a word, an epoch millisecond, or offsets by topic and
    partition. `rewritten` are tables by their names in the spec. Of a pipeline in several `shards`,
    `pipeline` names one of them.
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
    rejects_keep_headers: bool = False
    commits_at_once: CommitsAtOnce = 8
    heartbeat_seconds: float = 3.0
    alive_seconds: float = 15.0
    stop_across_partitions: frozenset[str] = frozenset()
    rewritten: Mapping[str, RewrittenTable] = field(default_factory=dict)
    hold: Hold = field(default_factory=Hold)
    accept: frozenset[Consent] = frozenset()
    crash_plan: str = ""
    shards: int = 1

    @property
    def shard(self) -> Shard:
        """Return the shard that the pipeline's name is of."""
        return Shard.named(self.pipeline, self.shards)


class CommitExecutor(Protocol):
    """Commits in threads next to the coordinator; a simulation does it in the same thread."""

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something now or later."""
        ...

    def before_wait(self, seconds: float) -> float:
        """Hear that the coordinator waits for outcomes; return how many seconds that is worth."""
        ...

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """End; what has begun may be waited for, what has not is dropped."""
        ...


class ThreadPoolCommits(ThreadPoolExecutor):
    """Commits in threads of their own."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="penstock-commit")

    def before_wait(self, seconds: float) -> float:
        """Let it wait: threads work by themselves."""
        return seconds


def commit_threads(at_once: CommitsAtOnce) -> CommitExecutor:
    """Return what commits in so many threads; how many pay is found out with the app's clocks."""
    assert at_once != "auto", "the app gives what finds out how many pay"
    return ThreadPoolCommits(at_once)


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside, as ports. `writers` gives those of a connector by its name, `exchanges` those
    of its tables' rows. `cluster_id` is the log's, asked once: a cluster that takes its place has
    topics of other ids. `jitter` gives numbers in 0..1, `token` short random texts, `health` what
    is known of how tables lie, by their names. The `follower` is told what has landed. Shards
    that meet at a table pass by `table_locks`.
    """

    log: Log
    cluster_id: str
    catalogs: Mapping[str, TableFormat]
    writers: Callable[[str], WriterFactory]
    store: PendingStore
    engine: Engine
    observer: Observer
    clock: Clock
    owner: Owner
    jitter: Callable[[], float]
    token: Callable[[], str]
    commit_executor: Callable[[CommitsAtOnce], CommitExecutor] = commit_threads
    start_heartbeat: Callable[[Callable[[], bool], float], Heartbeat] = Heartbeat
    health: HealthOf = dict
    follower: Follower | None = None
    exchanges: Exchanges = no_exchange
    table_locks: TableLocks | None = None


def claim_context(settings: Settings, environment: Environment) -> ClaimContext:
    """Return what a claim on the pipeline works with."""
    return ClaimContext(
        settings.pipeline,
        environment.store,
        environment.owner,
        environment.observer,
        environment.clock,
        environment.jitter,
        environment.token,
        environment.start_heartbeat,
        snapshots_kept=settings.retain,
        heartbeat_seconds=settings.heartbeat_seconds,
        alive_seconds=settings.alive_seconds,
        stop_across_partitions=settings.stop_across_partitions,
        rewriting={
            name: Rewriting(environment.writers(each.connector), each.bytes_max)
            for name, each in settings.rewritten.items()
        },
        turnstile=Turnstile(environment.table_locks),
    )
