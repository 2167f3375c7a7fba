"""What travels between coordinator and workers: versioned JSON, no rows.

Invariants: a job and its result survive `from_json(to_json(x)) == x`; a result of another version
is refused; settings hold references to secrets (`${file:…}`), never secrets, but for credentials
that a catalog lent for one table (`ports.tables.Lease`), which no representation shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Any

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    FencedError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, schema_from_json, type_to_json
from penstock.core.serialization import (
    file_from_data,
    file_to_data,
    progress_from_json,
    progress_to_json,
)
from penstock.ports.tables import ColumnPath
from penstock.rows.options import RowOptions
from penstock.rows.route.computed_columns import (
    NOTHING,
    ComputedColumns,
    computed_from_data,
    computed_to_data,
)
from penstock.rows.route.filters import PASS_ALL, RecordFilter, filter_from_data, filter_to_data

JOB_VERSION = 5
Coordinate = tuple[str, int, int]


class PoisonKind(StrEnum):
    """Name what kills the process that reads a record: to look at it, or to make a row of it.

    A route and its tables look at a record alike, so the route refuses what kills there. What kills
    where rows are made is refused by the table whose row it would be: the route alone lives on, and
    counts it as that table's.
    """

    LOOKED_AT = "looked-at"
    CONVERTED = "converted"


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where a worker writes: the connector's name and its versioned target JSON, never shown."""

    connector: str
    target: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TableJob:
    """What a worker needs to know of one table.

    `destination` is None while the table does not exist: then nothing can land, and what would is
    rejected (a table is created from the first records that give it columns). `already` are the
    coordinates whose fate is the quarantine, from an earlier reading (data.md 5). `gates` say, by
    topic, which records are the table's. Before a route itself `known` are the tables it may lead
    to. `room` is how many more may be asked for: tables before a route, else columns. `registry`
    are the settings of the schema registry of its records; references to secrets stay references.
    `computed` are the columns that are computed for it, `least` the values below which columns have
    no partition (`TableState.least`).
    """

    schema: Schema
    options: RowOptions
    write_target: WriteTarget | None
    quarantined: frozenset[Coordinate] = frozenset()
    filters: Mapping[str, RecordFilter] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    tables_max: int = 0
    registry: Mapping[str, Any] | None = None
    computed: ComputedColumns = NOTHING
    least: Mapping[ColumnPath, Decimal] = field(default_factory=dict)

    def filter_of(self, topic: str) -> RecordFilter:
        """Return the gate that a topic's records stand before."""
        return self.filters.get(topic, PASS_ALL)

    def is_like(self, other: TableJob) -> bool:
        """Return whether another table gets the same rows from a batch."""
        return (
            self.schema == other.schema
            and self.options == other.options
            and self.quarantined == other.quarantined
            and self.registry == other.registry
            and self.filters == other.filters
            and self.computed == other.computed
            and self.least == other.least
            and (self.write_target is None) == (other.write_target is None)
        )

    def wants_headers(self, topic: str) -> bool:
        """Return whether it has a column for headers, a gate that reads them, or schemas that are
        named in them.
        """
        return (
            "headers" in self.options.source_columns
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
    them: they are refused without what kills.
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
    columns_max: int = 2000
    held_bytes_max: int = 512 << 20
    crash_plan: str = ""


@dataclass(frozen=True, slots=True)
class LaneResult:
    """How far a lane came, and the largest record timestamp in it.

    `silent`: it gave nothing though it was asked, which is not so where others took all the time.
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

    `schemas` holds what a survey found, or else what a table's schema should become for the
    records it refused. `wanted` holds, by route, the tables that records ask for and that do not
    exist, with what those records show. `failed` names the tables that could not be served here,
    each with its error: the others' work counts. `reasons` counts, for people, the most frequent
    messages of a table's rejects. `error` stands for the whole task; it is told instead of raised,
    so that no engine retries in vain.
    """

    number: int
    lanes: tuple[LaneResult, ...] = ()
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    rejects: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    tallies: Mapping[str, Mapping[TopicPartition, Tally]] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    requested: Mapping[str, Mapping[str, Schema]] = field(default_factory=dict)
    failed: Mapping[str, PenstockError] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    error: PenstockError | None = None


def job_to_json(job: Job) -> str:
    """Write a job."""
    return json.dumps(
        {
            "v": JOB_VERSION,
            "pipeline": job.pipeline,
            "epoch": job.epoch,
            "number": job.number,
            "survey": job.survey,
            "prefix": job.prefix,
            "lanes": [[*_lane_to_data(each), job.leader_epochs.get(each)] for each in job.lanes],
            "tables": {name: _table_to_data(table) for name, table in job.tables.items()},
            "quarantine": [job.quarantine.connector, job.quarantine.target],
            "timeout_seconds": job.timeout_seconds,
            "now_ms": job.now_ms,
            "log": dict(job.log),
            "poison": [[*where, kills] for where, kills in sorted(job.poison.items())],
            "columns_max": job.columns_max,
            "held_bytes_max": job.held_bytes_max,
            "faults": job.crash_plan,
        }
    )


def job_from_json(text: str) -> Job:
    """Read a job. Raises InvalidError for another version."""
    data = _load(text, "job")
    lanes = [(_lane_from_data(lane), epoch) for *lane, epoch in data["lanes"]]
    return Job(
        pipeline=data["pipeline"],
        epoch=data["epoch"],
        number=data["number"],
        survey=data["survey"],
        prefix=data["prefix"],
        lanes=tuple(lane for lane, _ in lanes),
        tables={name: _table_from_data(table) for name, table in data["tables"].items()},
        quarantine=WriteTarget(*data["quarantine"]),
        timeout_seconds=data["timeout_seconds"],
        now_ms=data["now_ms"],
        log=data["log"],
        leader_epochs={lane: epoch for lane, epoch in lanes if epoch is not None},
        poison={(t, p, o): PoisonKind(kills) for t, p, o, kills in data["poison"]},
        columns_max=data["columns_max"],
        held_bytes_max=data["held_bytes_max"],
        crash_plan=data["faults"],
    )


def result_to_json(result: TaskResult) -> str:
    """Write a result."""
    return json.dumps(
        {
            "v": JOB_VERSION,
            "number": result.number,
            "lanes": [_lane_result_to_data(each) for each in result.lanes],
            "files": _files_to_data(result.files),
            "rejects": _files_to_data(result.rejects),
            "tallies": {t: _tallies_to_data(tallies) for t, tallies in result.tallies.items()},
            "schemas": {t: type_to_json(schema) for t, schema in result.schemas.items()},
            "wanted": {
                route: {name: type_to_json(schema) for name, schema in tables.items()}
                for route, tables in result.requested.items()
            },
            "failed": {table: _error_to_data(error) for table, error in result.failed.items()},
            "reasons": {table: dict(reasons) for table, reasons in result.reasons.items()},
            "seconds": result.seconds,
            "error": None if result.error is None else _error_to_data(result.error),
        }
    )


def result_from_json(text: str) -> TaskResult:
    """Read a result. Raises InvalidError for another version."""
    data = _load(text, "result")
    return TaskResult(
        number=data["number"],
        lanes=tuple(_lane_result_from_data(each) for each in data["lanes"]),
        files=_files_from_data(data["files"]),
        rejects=_files_from_data(data["rejects"]),
        tallies={table: _tallies_from_data(rows) for table, rows in data["tallies"].items()},
        schemas={table: schema_from_json(schema) for table, schema in data["schemas"].items()},
        requested={
            route: {name: schema_from_json(schema) for name, schema in tables.items()}
            for route, tables in data["wanted"].items()
        },
        failed={table: _error_from_data(error) for table, error in data["failed"].items()},
        reasons=data["reasons"],
        seconds=data["seconds"],
        error=None if data["error"] is None else _error_from_data(data["error"]),
    )


def _load(text: str, what: str) -> dict[str, Any]:
    data = json.loads(text)
    if data.get("v") != JOB_VERSION:
        raise InvalidError(
            f"a {what} of version {data.get('v')} met a penstock that speaks {JOB_VERSION}",
            code="P620",
            hint="give driver and executors the same penstock: rebuild the executors' environment",
        )
    return dict(data)


def _lane_to_data(lane: Lane) -> list[Any]:
    return [*progress_to_json({lane.at: lane.covered}), list(lane.tables)]


def _lane_from_data(data: list[Any]) -> Lane:
    ((at, covered),) = progress_from_json(data[:1]).items()
    return Lane(at, covered, tuple(data[1]))


def _lane_result_to_data(each: LaneResult) -> list[Any]:
    facts = [each.reached, each.records, each.size_bytes, each.timestamp_max_ms]
    facts += [each.leader_epoch, each.unresponsive]
    return [_lane_to_data(each.lane), *facts]


def _lane_result_from_data(data: list[Any]) -> LaneResult:
    lane, reached, *facts = data
    return LaneResult(_lane_from_data(lane), Offset(reached), *facts)


def _table_to_data(table: TableJob) -> dict[str, Any]:
    destination = table.write_target
    return {
        "schema": type_to_json(table.schema),
        "options": {name: getattr(table.options, name) for name in _OPTIONS},
        "destination": None if destination is None else [destination.connector, destination.target],
        "already": sorted(table.quarantined),
        "registry": None if table.registry is None else dict(table.registry),
        "gates": {topic: filter_to_data(gate) for topic, gate in table.filters.items()},
        "known": sorted(table.known),
        "room": table.tables_max,
        "computed": computed_to_data(table.computed),
        "least": [[list(path), str(value)] for path, value in table.least.items()],
    }


def _table_from_data(data: Mapping[str, Any]) -> TableJob:
    return TableJob(
        schema=schema_from_json(data["schema"]),
        options=RowOptions(**{**data["options"], **_tuples(data["options"])}),
        write_target=WriteTarget(*data["destination"]) if data["destination"] else None,
        quarantined=frozenset((str(i), int(p), int(o)) for i, p, o in data["already"]),
        registry=data["registry"],
        filters={topic: filter_from_data(gate) for topic, gate in data["gates"].items()},
        known=frozenset(data["known"]),
        tables_max=data["room"],
        computed=computed_from_data(data["computed"]),
        least={tuple(path): Decimal(value) for path, value in data["least"]},
    )


def _tuples(options: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    names = ("not_empty", "identifiers", "reserved")
    return {name: tuple(options.get(name, ())) for name in names}


def _files_to_data(files: Mapping[str, tuple[DataFile, ...]]) -> dict[str, Any]:
    return {table: [file_to_data(file) for file in each] for table, each in files.items()}


def _files_from_data(data: Mapping[str, Any]) -> dict[str, tuple[DataFile, ...]]:
    return {table: tuple(file_from_data(file) for file in each) for table, each in data.items()}


def _tallies_to_data(tallies: Mapping[TopicPartition, Tally]) -> list[list[Any]]:
    return [
        [at.topic_id, at.partition, at.topic, t.examined, t.landed, t.filtered, t.quarantined]
        for at, t in sorted(tallies.items())
    ]


def _tallies_from_data(rows: list[list[Any]]) -> dict[TopicPartition, Tally]:
    return {TopicPartition(i, p, n): Tally(x, y, f, q) for i, p, n, x, y, f, q in rows}


_OPTIONS = tuple(each.name for each in fields(RowOptions))
_ERRORS = {
    kind.__name__: kind
    for kind in (InvalidError, UnavailableError, DecisionNeededError, FencedError, BugError)
}


def _error_to_data(error: PenstockError) -> list[str]:
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _ERRORS)
    return [kind, error.message, error.code, error.hint]


def _error_from_data(data: list[str]) -> PenstockError:
    kind, message, code, hint = data
    return _ERRORS[kind](message, code=code, hint=hint)
