"""What travels between coordinator and workers: descriptions, no rows.

Invariant: settings hold references to secrets (`${file:…}`), never secrets, but for credentials
that a catalog lent for one table (`ports.leases.Lease`), which no representation shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.demands import NO_DEMANDS, Demands
from penstock.core.errors import PenstockError
from penstock.core.exchange import ExchangeFile
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema
from penstock.landing.task.chosen_offsets import Offsets, PackedOffsets, are_chosen
from penstock.landing.task.coordinates import Coordinate, is_among
from penstock.ports.tables import ColumnPath
from penstock.ports.writers import AS_THEY_COME, Placing
from penstock.rows.options import RowOptions
from penstock.rows.route.filters import NOTHING, PASS_ALL, ComputedColumns, RecordFilter

if TYPE_CHECKING:
    from penstock.rows.route.router import Mask


class PoisonKind(StrEnum):
    """Name what kills the process that reads a record: to examine it, or to make a row of it.

    A route and its tables examine a record alike, so the route rejects what kills there. What kills
    where rows are made is rejected by the table of that row: the route survives alone, and counts
    the record as that table's.
    """

    READ = "read"
    CONVERTED = "converted"


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where a worker writes: the connector's name and its versioned target JSON, never shown; and
    how rows get into files there.
    """

    connector: str
    target: str = field(repr=False)
    placing: Placing = AS_THEY_COME


@dataclass(frozen=True, slots=True)
class TableJob:
    """What a worker needs to know of one table.

    `write_target` is None while the table does not exist: then nothing can land, and what would is
    rejected (a table is created from the first records that give it columns). `quarantined` are
    coordinates from an earlier reading (data.md 5). With `only`, no other records are the table's.
    `filters` say, by topic, which records are the
    table's. For a route `known` are the tables it may lead to. `tables_max` is how many more may be
    asked for: tables for a route, else columns. `registry` are the settings of the schema registry
    of its records. `computed` are the columns that are computed for it, `least` the values below
    which columns have no partition (`TableState.least`), `demands` what it asks of its rows.
    """

    schema: Schema
    options: RowOptions
    write_target: WriteTarget | None
    quarantined: frozenset[Coordinate] = frozenset()
    only: PackedOffsets | None = field(default=None, repr=False)
    filters: Mapping[str, RecordFilter] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    tables_max: int = 0
    registry: Mapping[str, Any] | None = None
    computed: ComputedColumns = NOTHING
    least: Mapping[ColumnPath, Decimal] = field(default_factory=dict)
    demands: Demands = NO_DEMANDS

    def filter_of(self, topic: str) -> RecordFilter:
        """Return which of a topic's records are the table's."""
        return self.filters.get(topic, PASS_ALL)

    def examines(self, at: TopicPartition, offsets: Offsets) -> Mask:
        """Return which offsets of a partition it examines; the others are as if they were not."""
        fresh = ~is_among(self.quarantined, at, offsets)
        if self.only is None:
            return fresh
        return fresh & are_chosen(self.only, at, offsets)

    def converts_like(self, other: TableJob) -> bool:
        """Return whether another table makes the same of a record that is both's."""
        return (
            self.schema == other.schema
            and self.options == other.options
            and self.registry == other.registry
            and self.computed == other.computed
            and self.least == other.least
            and self.demands == other.demands
            and (self.write_target is None) == (other.write_target is None)
        )

    def wants_headers(self, topic: str) -> bool:
        """Return whether it has a column for headers, a filter that reads them, or schemas or
        operations that are named in them.
        """
        keyed = self.options.keyed
        return (
            "headers" in self.options.source_columns
            or (keyed is not None and keyed.operation_header is not None)
            or bool(self.options.header_columns)
            or self.options.schema_id == "headers"
            or self.filter_of(topic).reads_headers
            or self.computed.reads_headers
        )


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one task. A survey only infers schemas; it writes nothing.

    `leader_epochs` are those of the records before lanes, where known: of a lane, for two of one
    partition begin at different places. `poison` are records that killed the process that read
    them: they are refused without what kills. Rows of tables that are `exchanged` go to exchange
    files. Where `rejects_keep_headers`, headers are read of every record.
    """

    pipeline: str
    epoch: int
    number: int
    survey: bool
    prefix: str
    lanes: tuple[Lane, ...]
    tables: Mapping[str, TableJob]
    quarantine: WriteTarget
    timeout_seconds: float
    now_ms: int
    log: Mapping[str, Any]
    leader_epochs: Mapping[Lane, int] = field(default_factory=dict)
    poison: Mapping[Coordinate, PoisonKind] = field(default_factory=dict)
    exchanged: frozenset[str] = frozenset()
    columns_max: int = 2000
    held_bytes_max: int = 512 << 20
    rejects_keep_headers: bool = False
    crash_plan: str = ""


@dataclass(frozen=True, slots=True)
class LaneResult:
    """How far a lane came, and the largest record timestamp in it.

    `unresponsive`: it gave nothing though it was asked, which is not so where others took all the
    time.
    """

    lane: Lane
    reached: Offset
    records: int
    size_bytes: int
    timestamp_max_ms: int | None
    leader_epoch: int | None = None
    unresponsive: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did.

    `exchanged` holds, by table, the rows that are still to be written to files of it. `schemas`
    holds what a survey found, or else what a table's schema should become for the records it
    refused. `requested` holds, by route, the tables that records ask for and that do not exist,
    with what those records show. `failed` names the tables that could not be served here, each with
    its error: the others' work counts. `touched` holds, for keyed tables, the keys that are changed
    (rows/keyed/touched.py); the files of their rows are numbered as `files` has them. `reasons`
    counts, for people, the most frequent messages of a table's rejects. `error` is that of the
    whole task; it is returned, not raised, so that no engine retries in vain.
    """

    number: int
    lanes: tuple[LaneResult, ...] = ()
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    rejects: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    exchanged: Mapping[str, tuple[ExchangeFile, ...]] = field(default_factory=dict)
    tallies: Mapping[str, Mapping[TopicPartition, Tally]] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    requested: Mapping[str, Mapping[str, Schema]] = field(default_factory=dict)
    failed: Mapping[str, PenstockError] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    touched: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    seconds: float = 0.0
    error: PenstockError | None = None
