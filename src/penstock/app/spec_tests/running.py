"""Plays a case: the real coordinator and workers, on a broker, catalogs and a store in memory.

Invariants:
- nothing outside this process is touched, but a schema registry that the spec names;
- each case has a world of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, jitter, this_owner, token
from penstock.app.assembly.worker import work_with
from penstock.app.spec_tests.reading import Case
from penstock.commit.creation import create
from penstock.connectors.memory.cluster import MemoryCluster, Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Row, Warehouse
from penstock.core.errors import PenstockError
from penstock.core.schema import Field, Schema, Struct
from penstock.engines.inline import InlineEngine
from penstock.landing.coordinator import RunResult
from penstock.landing.run import run
from penstock.landing.settings import Environment, Settings, TableLocation, TableTarget
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Engine
from penstock.ports.tables import TableDefinition
from penstock.rows.options import SOURCE_TYPES
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case: rows by table in the order they were sent, rejects' codes, errors."""

    rows: Mapping[str, Sequence[Row]]
    rejected: Mapping[str, Sequence[str]]
    errors: Mapping[str, PenstockError]


def run_case(pipeline: Pipeline, case: Case, tables: Mapping[str, Schema]) -> CaseResult:
    """Send a case's records, land them, and tell what came of them.

    Raises InvalidError for a spec that could not run, such as two topics that make one table.
    """
    here = InMemory(pipeline)
    cluster, topics = here.cluster, {*case.records, *pipeline.kafka.names}
    for topic in sorted(topics):
        samples = case.records.get(topic, ())
        cluster.create(topic, 1 + max((each.partition for each in samples), default=0))
        for each in samples:
            message = Message(each.value, each.key, each.timestamp_ms, each.headers)
            cluster.send(topic, message, partition=each.partition)
    settings = replace(here.settings, start="earliest", stop_above_share=1.0)
    _give(settings, here.catalogs, tables, topics)
    return _outcome(settings, here.warehouses, here.land(settings).parked)


class InMemory:
    """What a pipeline needs, in memory: a broker, a catalog for each of the spec's, a store."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.cluster = MemoryCluster()
        self.warehouses = {name: Warehouse() for name in pipeline.catalogs}
        self.catalogs = {name: MemoryTables(each) for name, each in self.warehouses.items()}
        self.store = MemoryStore()
        self.settings = _settings(pipeline)

    def environment(self, engine: Engine | None = None) -> Environment:
        """Return what a run is given; jobs run in this process where no engine is."""
        return Environment(
            log=MemoryLog(self.cluster, self.settings.log),
            cluster_id=self.cluster.cluster_id(),
            catalogs=self.catalogs,
            store=self.store,
            engine=engine or InlineEngine(self._work),
            observer=UNHEARD,
            clock=SystemClock(),
            owner=this_owner(),
            jitter=jitter,
            token=token,
        )

    def reader(self) -> MemoryReader:
        """Return a reader of the broker's records."""
        return MemoryReader(self.cluster, SystemClock())

    def _work(self, job: str) -> str:
        writers = {name: each.open_writer for name, each in self.catalogs.items()}
        return work_with(job, lambda _: self.reader(), writers.__getitem__)

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

    return replace(
        settings,
        routes=routes,
        quarantine=_placed(settings.quarantine),
    )


def _placed(place: TableLocation) -> TableLocation:
    return replace(place, connector=place.catalog)


def _give(
    settings: Settings,
    catalogs: Mapping[str, MemoryTables],
    tables: Mapping[str, Schema],
    topics: Collection[str],
) -> None:
    """Make the tables that a case's file says are there, with their source columns."""
    targets = {
        each.location.table: each for some in settings.routes(topics).values() for each in some
    }
    for name, schema in tables.items():
        target = targets.get(name)
        if target is None:
            continue
        sources = target.options.source_columns.items()
        added = [
            Field(column, SOURCE_TYPES[role])
            for role, column in sources
            if schema.field(column) is None
        ]
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
    """Sort rows by where they came from, as far as they tell."""

    def place(row: Row) -> tuple[int, int]:
        at = {key: row.get(key) for key in row if key.endswith(("partition", "offset"))}
        partition = at.get("_kafka_partition", at.get("partition"))
        offset = at.get("_kafka_offset", at.get("offset"))
        return int(partition or 0), int(offset or 0)

    return sorted(rows, key=place)
