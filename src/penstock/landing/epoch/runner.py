"""One epoch's work: slices to jobs, a survey for tables that do not exist yet, results back.

Invariant: workers never learn of catalogs or credentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core.errors import UnavailableError
from penstock.core.events import PartitionStalled, SliceRead
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Epoch, Lane, Slice
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import known, with_hints
from penstock.landing.epoch.exchange import EpochExchange, exchanges_of
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.chosen_offsets import packed_within
from penstock.landing.task.messages import Job, TableJob, TaskResult, WriteTarget
from penstock.landing.task.results import joined_schemas, valid_results
from penstock.ports.tables import TableState
from penstock.rows.cast.spellings import require_one_column
from penstock.rows.schema.inference import table_schema

TablesByName = Mapping[str, TableProgress]


@dataclass(frozen=True, slots=True)
class EpochRunner:
    """Runs the jobs of epochs; rejected records are written to `quarantine`."""

    settings: Settings
    environment: Environment
    quarantine: WriteTarget
    isolation: PoisonIsolation

    def run(self, epoch: Epoch, tables: TablesByName) -> list[TaskResult]:
        """Run an epoch's slices, and the exchange of their rows; return the results that count.

        Raises a whole task's error.
        """
        exchange = self._exchange(epoch, tables)
        results = self._read(epoch, tables, frozenset(exchange.tables))
        exchanged = exchange.written(results) if exchange.tables else results
        return self._read(epoch, tables, frozenset()) if exchanged is None else exchanged

    def _read(
        self, epoch: Epoch, tables: TablesByName, exchanged: frozenset[str]
    ) -> list[TaskResult]:
        jobs = [self._job(epoch, part, tables, survey=False) for part in epoch.slices]
        results = self.isolation.run([replace(job, exchanged=exchanged) for job in jobs])
        for result in results:
            self._report(epoch, result)
        return valid_results(epoch, results)

    def _exchange(self, epoch: Epoch, tables: TablesByName) -> EpochExchange:
        there = {
            name: WriteTarget(target.location.connector, table.state.target, target.placing)
            for name, table in tables.items()
            if table.state is not None
            for target in (table.target,)
            if not target.is_route and target.options.keyed is None
        }
        found = exchanges_of(self.environment, epoch, there)
        settings = self.settings
        return EpochExchange(self.environment, epoch, settings.pipeline, settings.crash_plan, found)

    def infer_schemas(
        self, epoch: Epoch, tables: TablesByName
    ) -> tuple[dict[str, Schema], list[TaskResult]]:
        """Read the epoch once for the tables that do not exist, and join what their records show.

        Tables are left out if none of their records shows a column that has a type, by a hint where
        records show none, or if they failed: the tasks' results say why.
        """
        missing = {name for name, table in tables.items() if table.position is None}
        parts = restrict_to(epoch, missing).slices
        jobs = [self._job(epoch, part, tables, survey=True) for part in parts]
        results = self.isolation.run(jobs) if jobs else []
        found = {
            name: schema
            for name, schema in joined_schemas(results).items()
            if known(with_hints(schema, tables[name].target.hints)).fields
        }
        return found, results

    def _job(self, epoch: Epoch, part: Slice, tables: TablesByName, *, survey: bool) -> Job:
        names = sorted({name for lane in part.lanes for name in lane.tables})
        settings, environment = self.settings, self.environment
        label = f"{settings.pipeline}-{epoch.number}-{part.number}"
        return Job(
            pipeline=settings.pipeline,
            epoch=epoch.number,
            number=part.number,
            survey=survey,
            prefix=f"{label}-{environment.token()}",
            lanes=part.lanes,
            tables={name: table_job(tables[name], part.lanes) for name in names},
            quarantine=self.quarantine,
            timeout_seconds=settings.timeout_seconds,
            now_ms=environment.clock.now_ms(),
            log=settings.log,
            leader_epochs=leader_epochs(part.lanes, tables),
            columns_max=settings.columns_max,
            held_bytes_max=settings.held_bytes_max,
            rejects_keep_headers=settings.rejects_keep_headers,
            crash_plan=settings.crash_plan,
        )

    def _report(self, epoch: Epoch, result: TaskResult) -> None:
        by_topic: Counter[str] = Counter()
        for lane in result.lanes:
            by_topic[lane.lane.at.topic] += lane.records
            if lane.reached == lane.lane.covered.start:
                reason = "it gave nothing until the epoch's time was up"
                self.environment.observer(PartitionStalled(str(lane.lane.at), reason))
        size_bytes = sum(lane.size_bytes for lane in result.lanes)
        records = by_topic.total()
        self.environment.observer(
            SliceRead(
                epoch.number, result.number, records, size_bytes, result.seconds, dict(by_topic)
            )
        )


def not_surveyed(table: str, at: TopicPartition) -> UnavailableError:
    """Build the error for a table if some of its records could not be read."""
    return UnavailableError(
        f"{table} is not created before {at} was read, which returned nothing",
        code="P250",
        hint="check whether the partition has a leader; the run tries again",
    )


def restrict_to(epoch: Epoch, tables: Collection[str]) -> Epoch:
    """Return what of an epoch is read for tables: others were parked since it was planned."""
    parts = []
    for part in epoch.slices:
        lanes = [
            replace(lane, tables=tuple(name for name in lane.tables if name in tables))
            for lane in part.lanes
        ]
        parts.append(replace(part, lanes=tuple(lane for lane in lanes if lane.tables)))
    return replace(epoch, slices=tuple(part for part in parts if part.lanes))


def deprioritize(epoch: Epoch, unresponsive: Sequence[TopicPartition]) -> Epoch:
    """Let tasks read the partitions last that gave nothing before: to wait costs all the time."""
    place = {at: 1 + number for number, at in enumerate(unresponsive)}
    parts = [
        replace(part, lanes=tuple(sorted(part.lanes, key=lambda lane: place.get(lane.at, 0))))
        for part in epoch.slices
    ]
    return replace(epoch, slices=tuple(parts))


def leader_epochs(lanes: Iterable[Lane], tables: TablesByName) -> dict[Lane, int]:
    """Return the leader epoch of the record before each lane that begins at a table's position."""
    return {
        lane: table.leader_epochs[lane.at]
        for lane in lanes
        for table in map(tables.__getitem__, lane.tables)
        if lane.at in table.leader_epochs and table.examined[lane.at] == lane.covered.start
    }


def table_job(table: TableProgress, lanes: Sequence[Lane]) -> TableJob:
    """Describe what a worker needs to know of a table for some lanes."""
    target, state, options = table.target, table.state, table.target.options
    topics = {lane.at.topic for lane in lanes if table.name in lane.tables}
    filters = {topic: each for topic, each in target.filters.items() if topic in topics}
    if target.is_route:
        return TableJob(
            Struct(()),
            options,
            None,
            filters=filters,
            known=table.route_tables or frozenset(),  # a plan does not list them
            tables_max=table.capacity_left,
        )
    if state is None:
        strict = replace(options, columns="quarantine")  # a field shows that there is a column
        schema = table_schema(Struct(()), {}, strict)
        return TableJob(schema, strict, None, filters=filters, registry=target.registry)
    return replace(
        job_of(target, state, topics),
        quarantined=table.quarantined.within(lanes),
        only=None if table.only is None else packed_within(table.only, lanes),
        tables_max=table.capacity_left,
    )


def _names(target: TableTarget, state: TableState) -> dict[str, dict[str, str]]:
    if target.options.match == "name":
        return {}
    return require_one_column(state.other_names or {}, target.location.table)


def job_of(target: TableTarget, state: TableState, topics: Collection[str]) -> TableJob:
    """Describe a table that is there, for records of some topics."""
    options, types = target.options, target.options.types
    if types == "evolve" and not state.can_widen:
        types = "quarantine"
    return TableJob(
        schema=state.schema,
        options=replace(
            options,
            names=_names(target, state),
            not_empty=state.not_empty,
            identifiers=state.identifiers,
            reserved=(*options.reserved, *state.reserved),
            types=types,
        ),
        write_target=WriteTarget(target.location.connector, state.target, target.placing),
        filters={topic: each for topic, each in target.filters.items() if topic in topics},
        registry=target.registry,
        computed=target.computed,
        least=state.least,
        demands=state.demands,
    )
