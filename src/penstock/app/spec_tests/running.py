"""Plays a case: the real coordinator and workers, on a broker, catalogs and a store in memory.

Invariants:
- nothing outside this process is touched, but a schema registry that the spec names;
- each case has a world of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, commit_executor, jitter, this_owner, token
from penstock.app.assembly.worker import work_with
from penstock.app.spec_tests.reading import Case
from penstock.commit.creation import create
from penstock.connectors.memory.cluster import MemoryCluster, Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Row, Warehouse
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.schema import Field, Schema, Struct
from penstock.engines.inline import InlineEngine
from penstock.landing.coordinator import RunResult
from penstock.landing.run import run
from penstock.landing.settings import Environment, Settings, TableLocation, TableTarget
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Engine
from penstock.ports.tables import TableDefinition
from penstock.ports.writers import WriterFactory
from penstock.rows.options import SOURCE_TYPES
from penstock.spec.model import Pipeline
from penstock.spec.problems import listed, nearest


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case: rows by table in the order they were sent, rejects' codes, errors, and
    the columns of the key of each keyed table.
    """

    rows: Mapping[str, Sequence[Row]]
    rejected: Mapping[str, Sequence[str]]
    errors: Mapping[str, PenstockError]
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def run_case(pipeline: Pipeline, case: Case, tables: Mapping[str, Schema]) -> CaseResult:
    """Send a case's records, land them, and return what came of them.

    Raises InvalidError for a spec that could not run, such as two topics that make one table, and
    P173 for a topic that no rule takes and a table that no rule makes.
    """
    here = InMemory(pipeline)
    cluster, topics = here.cluster, {*case.records, *pipeline.kafka.names}
    _require_known(case, here.settings.routes(topics))
    for topic in sorted(topics):
        samples = case.records.get(topic, ())
        cluster.create(topic, 1 + max((each.partition for each in samples), default=0))
        for each in samples:
            message = Message(each.value, each.key, each.timestamp_ms, each.headers)
            cluster.send(topic, message, partition=each.partition)
    settings = replace(here.settings, start="earliest", stop_above_share=1.0)
    _give(settings, here.catalogs, tables, topics)
    found = _outcome(settings, here.warehouses, here.land(settings).parked)
    targets = [each for some in settings.routes(topics).values() for each in some]
    return replace(found, keys={each.location.table: each.options.keys for each in targets})


def _require_known(case: Case, routes: Mapping[str, Sequence[TableTarget]]) -> None:
    for topic in sorted(case.records):
        if not routes.get(topic):
            taken = {name for name, targets in routes.items() if targets}
            raise _unknown(case, f"no rule takes topic {topic!r}", topic, taken)
    targets = [each for some in routes.values() for each in some]
    if any(each.is_route for each in targets):
        return  # tables are named by what records hold
    tables = {each.location.table for each in targets}
    for table in sorted({*case.rows, *case.rejected} - tables):
        raise _unknown(case, f"no rule makes table {table!r}", table, tables)


def _unknown(case: Case, fact: str, name: str, known: Collection[str]) -> InvalidError:
    near, there = nearest(name, known), listed(sorted(known))
    return InvalidError(
        f"line {case.line}, {case.name}: {fact}",
        code="P173",
        hint=f"did you mean {near}?" if near else f"known are {there}",
    )


class InMemory:
    """What a pipeline needs, in memory: a broker, a catalog for each of the spec's, a store."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.cluster = MemoryCluster()
        self.warehouses = {name: Warehouse() for name in pipeline.catalogs}
        self.catalogs = {name: MemoryTables(each) for name, each in self.warehouses.items()}
        self.store = MemoryStore()
        self.settings = _settings(pipeline)

    def environment(self, engine: Engine | None = None) -> Environment:
        """Return the environment of a run; without an engine, jobs run in this process."""
        return Environment(
            log=MemoryLog(self.cluster, self.settings.log),
            cluster_id=self.cluster.cluster_id(),
            catalogs=self.catalogs,
            writers=self._writer,
            store=self.store,
            engine=engine or InlineEngine(self._work),
            observer=UNHEARD,
            clock=SystemClock(),
            owner=this_owner(),
            jitter=jitter,
            token=token,
            commit_executor=commit_executor,
        )

    def reader(self) -> MemoryReader:
        """Return a reader of the broker's records."""
        return MemoryReader(self.cluster, SystemClock())

    def _work(self, job: str) -> str:
        return work_with(job, lambda _: self.reader(), self._writer)

    def _writer(self, name: str) -> WriterFactory:
        """Return the writers of a catalog, whose name is that of its connector here."""
        return self.catalogs[name].open_writer

    def land(self, settings: Settings) -> RunResult:
        """Run until caught up. Raises what a run raises."""
        environment = self.environment()
        return run(
            settings,
            environment,
            threading.Event(),
            "caught-up",
            takeover=False,
            former=lambda _: nullcontext((settings, environment.log)),
        )


def _settings(pipeline: Pipeline) -> Settings:
    """Return a run's settings, with connectors named after catalogs: each its own memory."""
    settings = assembly.settings_of(pipeline)

    def routes(topics: Collection[str]) -> dict[str, tuple[TableTarget, ...]]:
        return {
            topic: tuple(replace(each, location=_placed(each.location)) for each in targets)
            for topic, targets in settings.routes(topics).items()
        }

    return replace(settings, routes=routes, quarantine=_placed(settings.quarantine))


def _placed(place: TableLocation) -> TableLocation:
    return replace(place, connector=place.catalog)


def _give(
    settings: Settings,
    catalogs: Mapping[str, MemoryTables],
    tables: Mapping[str, Schema],
    topics: Collection[str],
) -> None:
    targets = {
        each.location.table: each for some in settings.routes(topics).values() for each in some
    }
    for name in tables.keys() & targets.keys():
        target, schema = targets[name], tables[name]
        added = [
            Field(column, SOURCE_TYPES[role])
            for role, column in target.options.source_columns.items()
            if schema.field(column) is None
        ]
        added += [each for each in target.options.soft_columns if schema.field(each.name) is None]
        whole = TableDefinition(Struct((*schema.fields, *added)))
        place = target.location
        create(catalogs[place.catalog], (name, place.name), whole, (), UNHEARD)


def _outcome(
    settings: Settings, warehouses: Mapping[str, Warehouse], errors: Mapping[str, PenstockError]
) -> CaseResult:
    rows: dict[str, Sequence[Row]] = {}
    for catalog, warehouse in warehouses.items():
        for name in warehouse.names():
            rows[f"{catalog}.{name}"] = _in_order(warehouse.rows(name))
    refused = rows.pop(settings.quarantine.table, [])
    rejected: dict[str, list[str]] = {}
    for row in refused:
        rejected.setdefault(str(row["table"]), []).append(str(row["code"]))
    return CaseResult(rows, rejected, errors)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    def place(row: Row) -> tuple[int, int]:
        partition = row.get("_kafka_partition", row.get("partition"))
        offset = row.get("_kafka_offset", row.get("offset"))
        return int(partition or 0), int(offset or 0)

    return sorted(rows, key=place)
