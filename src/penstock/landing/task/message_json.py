"""Jobs and results as versioned JSON.

Invariants: a job and its result survive `from_json(to_json(x)) == x`; a result of another version
is refused.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields
from decimal import Decimal
from typing import Any

from penstock.core.commits import DataFile
from penstock.core.demands import demands_from_data, demands_to_data
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    FencedError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.exchange import Block, ExchangeFile
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import schema_from_json, type_to_json
from penstock.core.serialization import (
    file_from_data,
    file_to_data,
    progress_from_json,
    progress_to_json,
    tallies_from_json,
    tallies_to_json,
)
from penstock.landing.task.messages import (
    Job,
    LaneResult,
    PoisonKind,
    TableJob,
    TaskResult,
    WriteTarget,
)
from penstock.ports.writers import Distribution, Placing
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.rows.route.filters import (
    computed_from_data,
    computed_to_data,
    filter_from_data,
    filter_to_data,
)

JOB_VERSION = 10
_PLAIN = (
    *("pipeline", "epoch", "number", "survey", "prefix", "timeout_seconds", "now_ms"),
    *("columns_max", "held_bytes_max", "rejects_keep_headers"),
)
"""The fields of a job that are written as they are."""


def job_to_json(job: Job) -> str:
    """Write a job."""
    return json.dumps(
        {
            "v": JOB_VERSION,
            **{name: getattr(job, name) for name in _PLAIN},
            "lanes": [[*_lane_to_data(each), job.leader_epochs.get(each)] for each in job.lanes],
            "tables": {name: _table_to_data(table) for name, table in job.tables.items()},
            "quarantine": [job.quarantine.connector, job.quarantine.target],
            "log": dict(job.log),
            "poison": [[*where, kills] for where, kills in sorted(job.poison.items())],
            "exchanged": sorted(job.exchanged),
            "faults": job.crash_plan,
        }
    )


def job_from_json(text: str) -> Job:
    """Read a job. Raises InvalidError for another version."""
    return job_from_data(load(text, "job"))


def job_from_data(data: Mapping[str, Any]) -> Job:
    """Read a job that was loaded."""
    lanes = [(_lane_from_data(lane), epoch) for *lane, epoch in data["lanes"]]
    return Job(
        **{name: data[name] for name in _PLAIN},
        lanes=tuple(lane for lane, _ in lanes),
        tables={name: _table_from_data(table) for name, table in data["tables"].items()},
        quarantine=WriteTarget(*data["quarantine"]),
        log=data["log"],
        leader_epochs={lane: epoch for lane, epoch in lanes if epoch is not None},
        poison={(t, p, o): PoisonKind(kills) for t, p, o, kills in data["poison"]},
        exchanged=frozenset(data["exchanged"]),
        crash_plan=data["faults"],
    )


def result_to_json(result: TaskResult) -> str:
    """Write a result."""
    return json.dumps(
        {
            "v": JOB_VERSION,
            "number": result.number,
            "lanes": [
                [_lane_to_data(each.lane), *(getattr(each, name) for name in _LANE_FACTS)]
                for each in result.lanes
            ],
            "files": _files_to_data(result.files),
            "rejects": _files_to_data(result.rejects),
            "exchanged": {
                table: [exchange_file_to_data(each) for each in files]
                for table, files in result.exchanged.items()
            },
            "tallies": {t: tallies_to_json(tallies) for t, tallies in result.tallies.items()},
            "schemas": {t: type_to_json(schema) for t, schema in result.schemas.items()},
            "wanted": {
                route: {name: type_to_json(schema) for name, schema in tables.items()}
                for route, tables in result.requested.items()
            },
            "failed": {table: error_to_data(error) for table, error in result.failed.items()},
            "reasons": {table: dict(reasons) for table, reasons in result.reasons.items()},
            "touched": {
                table: [b64encode(part).decode() for part in parts]
                for table, parts in result.touched.items()
            },
            "seconds": result.seconds,
            "error": None if result.error is None else error_to_data(result.error),
        }
    )


def result_from_json(text: str) -> TaskResult:
    """Read a result. Raises InvalidError for another version."""
    data = load(text, "result")
    return TaskResult(
        number=data["number"],
        lanes=tuple(LaneResult(_lane_from_data(lane), *facts) for lane, *facts in data["lanes"]),
        files=_files_from_data(data["files"]),
        rejects=_files_from_data(data["rejects"]),
        exchanged={
            table: tuple(exchange_file_from_data(each) for each in files)
            for table, files in data["exchanged"].items()
        },
        tallies={table: tallies_from_json(rows) for table, rows in data["tallies"].items()},
        schemas={table: schema_from_json(schema) for table, schema in data["schemas"].items()},
        requested={
            route: {name: schema_from_json(schema) for name, schema in tables.items()}
            for route, tables in data["wanted"].items()
        },
        failed={table: error_from_data(error) for table, error in data["failed"].items()},
        reasons=data["reasons"],
        touched={table: tuple(map(b64decode, parts)) for table, parts in data["touched"].items()},
        seconds=data["seconds"],
        error=None if data["error"] is None else error_from_data(data["error"]),
    )


def load(text: str, what: str) -> dict[str, Any]:
    """Read a job or a result as data. Raises InvalidError (P620) for another version."""
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


def destination_to_data(target: WriteTarget) -> list[Any]:
    """Return the plain-data form of where a worker writes."""
    placing = target.placing
    return [target.connector, target.target, placing.distribution, placing.is_sorted]


def destination_from_data(data: Sequence[Any]) -> WriteTarget:
    """Read it back."""
    connector, target, distribution, is_sorted = data
    return WriteTarget(connector, target, Placing(Distribution(distribution), is_sorted))


def _table_to_data(table: TableJob) -> dict[str, Any]:
    return {
        "schema": type_to_json(table.schema),
        "options": _options_to_data(table.options),
        "destination": table.write_target and destination_to_data(table.write_target),
        "quarantined": sorted(table.quarantined),
        "only": None if table.only is None else [[*at, each] for at, each in table.only.items()],
        "registry": None if table.registry is None else dict(table.registry),
        "filters": {topic: filter_to_data(each) for topic, each in table.filters.items()},
        "known": sorted(table.known),
        "tables_max": table.tables_max,
        "computed": computed_to_data(table.computed),
        "least": [[list(path), str(value)] for path, value in table.least.items()],
        "demands": demands_to_data(table.demands),
    }


def _table_from_data(data: Mapping[str, Any]) -> TableJob:
    return TableJob(
        schema=schema_from_json(data["schema"]),
        options=_options_from_data(data["options"]),
        write_target=destination_from_data(data["destination"]) if data["destination"] else None,
        quarantined=frozenset((str(i), int(p), int(o)) for i, p, o in data["quarantined"]),
        only=None if data["only"] is None else {(i, p): text for i, p, text in data["only"]},
        registry=data["registry"],
        filters={topic: filter_from_data(each) for topic, each in data["filters"].items()},
        known=frozenset(data["known"]),
        tables_max=data["tables_max"],
        computed=computed_from_data(data["computed"]),
        least={tuple(path): Decimal(value) for path, value in data["least"]},
        demands=demands_from_data(data["demands"]),
    )


def _options_to_data(options: RowOptions) -> dict[str, Any]:
    keyed = None if options.keyed is None else asdict(options.keyed)
    return {**{name: getattr(options, name) for name in _OPTIONS}, "keyed": keyed}


def _options_from_data(data: Mapping[str, Any]) -> RowOptions:
    keyed = None if data["keyed"] is None else KeyedOptions(**_frozen(data["keyed"]))
    return RowOptions(**{**_frozen(data), "keyed": keyed})


def _frozen(data: Mapping[str, Any]) -> dict[str, Any]:
    """Make tuples of the lists, which are such in JSON alone."""
    return {name: tuple(each) if isinstance(each, list) else each for name, each in data.items()}


def _files_to_data(files: Mapping[str, tuple[DataFile, ...]]) -> dict[str, Any]:
    return {table: [file_to_data(file) for file in each] for table, each in files.items()}


def _files_from_data(data: Mapping[str, Any]) -> dict[str, tuple[DataFile, ...]]:
    return {table: tuple(file_from_data(file) for file in each) for table, each in data.items()}


def exchange_file_to_data(file: ExchangeFile) -> list[Any]:
    """Return the plain-data form of an exchange file."""
    return [file.path, [astuple(each) for each in file.blocks], progress_to_json(file.ranges)]


def exchange_file_from_data(data: Sequence[Any]) -> ExchangeFile:
    """Read it back."""
    path, blocks, ranges = data
    return ExchangeFile(path, tuple(Block(*each) for each in blocks), progress_from_json(ranges))


_OPTIONS = tuple(each.name for each in fields(RowOptions))
_LANE_FACTS = tuple(each.name for each in fields(LaneResult))[1:]
_ERRORS = {
    kind.__name__: kind
    for kind in (InvalidError, UnavailableError, DecisionNeededError, FencedError, BugError)
}


def error_to_data(error: PenstockError) -> list[Any]:
    """Return the plain-data form of an error."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _ERRORS)
    at = error.at if isinstance(error, DecisionNeededError) else None
    place = None if at is None else (at[0].topic_id, at[0].partition, at[0].topic, at[1])
    return [kind, error.message, error.code, error.hint, place]


def error_from_data(data: list[Any]) -> PenstockError:
    """Read it back."""
    kind, message, code, hint, place = data
    error = _ERRORS[kind](message, code=code, hint=hint)
    if isinstance(error, DecisionNeededError) and place is not None:
        error.at = (TopicPartition(*place[:3]), Offset(place[3]))
    return error
