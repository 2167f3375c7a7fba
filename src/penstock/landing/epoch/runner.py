"""One epoch's work: slices to jobs, a survey for tables that do not exist yet, results back.

Invariants: a table is created with its ledger before anything of the epoch that called for it is
prepared (failure-modes.md W8); workers never learn of catalogs or credentials.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.commit.creation import create
from penstock.core.claims import Claim
from penstock.core.commits import Landed, first_ledger
from penstock.core.errors import UnavailableError
from penstock.core.events import PartitionStalled, SliceRead
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Epoch, Lane, Slice
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import known
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import Job, TableJob, TaskResult, WriteTarget
from penstock.landing.task.results import joined_schemas, valid_results
from penstock.ports.tables import Table, TableDefinition
from penstock.rows.options import Policy
from penstock.rows.route.filters import RecordFilter
from penstock.rows.schema.inference import table_schema

TablesByName = Mapping[str, TableProgress]


def run_epoch(
    settings: Settings,
    world: Environment,
    epoch: Epoch,
    tracks: TablesByName,
    quarantine: WriteTarget,
    *,
    isolation: PoisonIsolation | None = None,
) -> list[TaskResult]:
    """Run an epoch's slices; give the results that count. Raises the error of a whole task."""
    desk = _JobFactory(settings, world, epoch, tracks, quarantine)
    jobs = [desk.job(part, survey=False) for part in epoch.slices]
    results = (isolation or PoisonIsolation(world)).run(jobs)
    for result in results:
        for lane in result.lanes:
            if lane.reached == lane.lane.covered.start:
                reason = "it gave nothing until the epoch's time was up"
                world.observer(PartitionStalled(str(lane.lane.at), reason))
        records = sum(lane.records for lane in result.lanes)
        size_bytes = sum(lane.size_bytes for lane in result.lanes)
        world.observer(
            SliceRead(
                epoch.number,
                result.number,
                records,
                size_bytes,
                result.seconds,
                _by_topic(result),
            )
        )
    return valid_results(epoch, results)


def _by_topic(result: TaskResult) -> dict[str, int]:
    found: dict[str, int] = {}
    for lane in result.lanes:
        found[lane.lane.at.topic] = found.get(lane.lane.at.topic, 0) + lane.records
    return found


def infer_schemas(
    settings: Settings,
    world: Environment,
    epoch: Epoch,
    tracks: TablesByName,
    quarantine: WriteTarget,
    *,
    isolation: PoisonIsolation | None = None,
) -> tuple[dict[str, Schema], list[TaskResult]]:
    """Read the epoch once for the tables that do not exist, and join what their records show.

    Tables none of whose records shows a column are left out, and those that failed: the tasks'
    results tell why.
    """
    unborn = {name for name, track in tracks.items() if track.position is None}
    desk = _JobFactory(settings, world, epoch, tracks, quarantine)
    parts = [_only(part, unborn) for part in epoch.slices]
    jobs = [desk.job(part, survey=True) for part in parts if part.lanes]
    results = (isolation or PoisonIsolation(world)).run(jobs) if jobs else []
    found = joined_schemas(results).items()
    return {name: shown for name, schema in found if (shown := known(schema)).fields}, results


def not_surveyed(table: str, at: TopicPartition) -> UnavailableError:
    """Build the error for a table that is not created yet: some records could not be read."""
    return UnavailableError(
        f"{table} is not created before {at} was looked at, which gave nothing",
        code="P250",
        hint="check whether the partition has a leader; the run tries again",
    )


def restrict_to(epoch: Epoch, tables: Collection[str]) -> Epoch:
    """Return what of an epoch is read for tables: the others were parked since it was planned."""
    parts = [_only(part, tables) for part in epoch.slices]
    return replace(epoch, slices=tuple(part for part in parts if part.lanes))


def deprioritize(epoch: Epoch, mute: Sequence[TopicPartition]) -> Epoch:
    """Let tasks read the partitions last that gave nothing before: to wait costs all the time."""
    place = {at: 1 + number for number, at in enumerate(mute)}
    parts = [
        replace(part, lanes=tuple(sorted(part.lanes, key=lambda lane: place.get(lane.at, 0))))
        for part in epoch.slices
    ]
    return replace(epoch, slices=tuple(parts))


def create_table_for(
    settings: Settings, world: Environment, claim: Claim, track: TableProgress, shown: Schema
) -> Table:
    """Create a table of the joined schema, its ledger at `TableProgress.start_offsets`."""
    chain, target = track.chain, track.target
    ledger = first_ledger(chain, claim, world.cluster_id, settings.rules_hash, track.start_offsets)
    return create_table(world, target, shown, ledger)


def create_table(world: Environment, target: TableTarget, shown: Schema, ledger: Landed) -> Table:
    """Create a target's table for what its records show, with a ledger."""
    place = target.location
    catalog, definition = world.catalogs[place.catalog], definition_of(target, shown)
    return create(catalog, (place.table, place.name), definition, (ledger,), world.observer)


def definition_of(target: TableTarget, shown: Schema) -> TableDefinition:
    """Describe the table to create for what a target's records show."""
    return TableDefinition(
        target.schema_for(shown),
        target.partition_by,
        target.properties,
        identifier_fields=target.identifier_fields,
        sort_by=target.sort_by,
    )


def _only(part: Slice, tables: Collection[str]) -> Slice:
    lanes = [
        replace(lane, tables=tuple(name for name in lane.tables if name in tables))
        for lane in part.lanes
    ]
    return Slice(part.number, tuple(lane for lane in lanes if lane.tables))


@dataclass(frozen=True, slots=True)
class _JobFactory:
    """Writes the jobs of one epoch."""

    settings: Settings
    world: Environment
    epoch: Epoch
    tracks: TablesByName
    quarantine: WriteTarget

    def job(self, part: Slice, *, survey: bool) -> Job:
        """Describe the work on a slice; with `survey` its records are looked at only."""
        names = sorted({name for lane in part.lanes for name in lane.tables})
        pipeline, number = self.settings.pipeline, self.epoch.number
        return Job(
            pipeline=pipeline,
            epoch=number,
            number=part.number,
            survey=survey,
            prefix=f"{pipeline}-{number}-{part.number}-{self.world.token()}",
            lanes=part.lanes,
            tables={name: table_job(self.tracks[name], part) for name in names},
            quarantine=self.quarantine,
            timeout_seconds=self.settings.timeout_seconds,
            now_ms=self.world.clock.now_ms(),
            log=self.settings.log,
            leader_epochs=leader_epochs(part.lanes, self.tracks),
            columns_max=self.settings.columns_max,
            held_bytes_max=self.settings.held_bytes_max,
            crash_plan=self.settings.crash_plan,
        )


def leader_epochs(lanes: Iterable[Lane], tracks: TablesByName) -> dict[Lane, int]:
    """Return the leader epochs of the records before each lane that begins where a table stands."""
    return {
        lane: track.leader_epochs[lane.at]
        for lane in lanes
        for track in map(tracks.__getitem__, lane.tables)
        if lane.at in track.leader_epochs and track.examined[lane.at] == lane.covered.start
    }


def table_job(track: TableProgress, part: Slice) -> TableJob:
    """Return what a worker needs to know about a table for a slice."""
    options = track.target.options
    gates = _filters(track, part)
    if track.target.is_route:
        tables = track.route_tables or frozenset()  # a plan is made without a look
        return TableJob(
            Struct(()), options, None, filters=gates, known=tables, tables_max=track.capacity_left
        )
    if track.state is None:
        strict = replace(options, columns="quarantine")  # a field shows that there is a column
        schema = table_schema(Struct(()), {}, strict)
        return TableJob(schema, strict, None, filters=gates, registry=track.target.registry)
    widens = track.state.can_widen or options.types != "evolve"
    types: Policy = options.types if widens else "quarantine"
    connector = track.target.location.connector
    return TableJob(
        schema=track.state.schema,
        options=replace(
            options,
            not_empty=track.state.not_empty,
            identifiers=track.state.identifiers,
            reserved=(*options.reserved, *track.state.reserved),
            types=types,
        ),
        write_target=WriteTarget(connector, track.state.target),
        quarantined=track.quarantined.within(part.lanes),
        filters=gates,
        registry=track.target.registry,
        tables_max=track.capacity_left,
        computed=track.target.computed,
        least=track.state.least,
    )


def _filters(track: TableProgress, part: Slice) -> dict[str, RecordFilter]:
    topics = {lane.at.topic for lane in part.lanes if track.name in lane.tables}
    return {topic: gate for topic, gate in track.target.filters.items() if topic in topics}
