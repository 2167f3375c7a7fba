"""`penstock plan`: what a run would do, and why, before it does anything.

Invariants:
- nothing is written, not even a missing catalog or store (app/inspect/read_only_world.py);
- what is shown of records comes from running the workers' own code over a sample of the backlog;
- a step that gives something up for good is *destructive*, and a run takes it only with --accept;
- the exit code is that of the run that is predicted (docs/design/0236).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.app.assembly import assembly, engines
from penstock.app.inspect.plan.forecast import Plan, TablePlan
from penstock.app.inspect.plan.sample_outcome import SampleOutcome, sampled_for
from penstock.app.inspect.plan.starts import TableStart
from penstock.app.inspect.read_only_world import ReadOnlyWorld, open_world
from penstock.app.inspect.reported import status_file
from penstock.app.inspect.sample.trial import try_sample
from penstock.core.errors import PenstockError
from penstock.core.events import WaitBegan
from penstock.core.hold import Hold
from penstock.landing.epoch.partition_discovery import no_leader, no_records_returned
from penstock.landing.run import FormerSpec, former_rules
from penstock.landing.settings import Consent, TableTarget
from penstock.landing.tables import opening
from penstock.landing.tables.progress import by_table
from penstock.landing.tables.spec_change import CatchUp, catch_up_needed
from penstock.landing.tables.table_set import TableSet
from penstock.observe.fanout import UNHEARD
from penstock.observe.snapshot import Snapshot
from penstock.observe.status import read_status
from penstock.ports.runtime import Observer
from penstock.ports.tables import TableDefinition
from penstock.spec.language.notation import compiled
from penstock.spec.model import Pipeline


def plan(
    pipeline: Pipeline,
    *,
    accept: frozenset[Consent] = frozenset(),
    takeover: bool = False,
    observer: Observer = UNHEARD,
) -> Plan:
    """Return what a run with these consents would do now.

    Raises what such a run raises before it knows its tables: InvalidError, UnavailableError (no
    brokers or store), DecisionNeededError (P251 a topic that was made again).
    """
    with open_world(pipeline, accept=accept, observer=observer) as world:
        stops = _errors_of(lambda: engines.require_engine(pipeline))
        former = assembly.former_of(pipeline, accept=accept)
        last = _last_run(pipeline)
        found = planned(world, former, takeover=takeover, pace=_pace(last), stops=stops)
        topics = {at.topic for at in world.listing}
        unmatched_hints = tuple(
            each
            for each in pipeline.kafka.patterns
            if not any(map(compiled(each).fullmatch, topics))
        )
        hold = world.settings.hold
        sick = _sick(hold, last)
        return replace(found, unmatched_patterns=unmatched_hints, sick=sick, hold=hold.then)


def planned(
    world: ReadOnlyWorld,
    former: FormerSpec,
    *,
    takeover: bool = False,
    pace: float | None = None,
    stops: Sequence[PenstockError] = (),
) -> Plan:
    """Plan what was read; `stops` is what is known to keep a run from starting."""
    settings, environment, table_set = world.settings, world.environment, world.table_set
    targets, _, unrouted = opening.route_topics(settings, world.listing)
    pending = by_table(settings.pipeline, environment.store.pending(settings.pipeline))
    starts = {
        name: TableStart(progress, table_set.partitions_of(name), world, pending.get(name, ()))
        for name, progress in table_set.active.items()
    }
    for start in starts.values():
        start.begin()
    environment.observer(WaitBegan("records of a sample"))
    leveling = catch_up_needed(list(table_set.progress.values()), settings, environment.store)
    waiting = _waiting(table_set)
    read = {n: each for n, each in starts.items() if not each.stops and n not in waiting}
    backlog, sample = sampled_for(world, read, leveling)
    progress = {name: start.progress for name, start in read.items()}
    outcome = SampleOutcome(world, backlog, sample, try_sample(world, sample, progress))
    tables = [outcome.planned(start) for start in starts.values()]
    tables += [
        TablePlan(
            name,
            *_changed_by(targets.get(name)),
            pending=len(pending.get(name, ())),
            problem=parked.error,
        )
        for name, parked in table_set.parked.items()
        if not parked.internal
    ]
    tables += [outcome.asked_for(name) for name in outcome.granted]
    held = environment.store.holding(settings.pipeline)
    alive = held is not None and held.alive_until_ms > environment.clock.now_ms()
    return Plan(
        settings.pipeline,
        tuple(sorted(tables, key=lambda each: each.table)),
        creates_quarantine=settings.quarantine.table if world.quarantine_missing else "",
        owner=f"{held.owner.host}, pid {held.owner.pid}" if held and alive else "",
        level_first=tuple(sorted(leveling.ranges)) if leveling else (),
        unrouted=tuple(unrouted),
        rows_per_second=pace,
        stops=(
            *stops,
            *_startup_errors(world, leveling, former, takeover=takeover),
            *_unreadable(starts.values(), outcome),
        ),
    )


def _changed_by(target: TableTarget | None) -> tuple[str, tuple[str, ...]]:
    """Return mode and keys of a rule; a table that no topic leads to now has none."""
    return ("append", ()) if target is None else (target.options.mode, target.options.keys)


def _waiting(table_set: TableSet) -> set[str]:
    """Name the routes that nothing is read for: a table of theirs is parked before it began."""
    parked = (name for name, parked in table_set.parked.items() if not parked.internal)
    routes = (table_set.route_of(name) for name in parked if not table_set.has_begun(name))
    return {route.name for route in routes if route is not None}


def _startup_errors(
    world: ReadOnlyWorld, leveling: CatchUp | None, former: FormerSpec, *, takeover: bool
) -> list[PenstockError]:
    settings, environment = world.settings, world.environment

    def quarantine() -> None:
        if world.quarantine_missing:
            place, columns = settings.quarantine, settings.quarantine_schema
            catalog = environment.catalogs[place.catalog]
            catalog.preview(place.name, TableDefinition(columns))

    def owner() -> None:
        if not takeover:
            now_ms = environment.clock.now_ms()
            environment.store.require_free(settings.pipeline, environment.owner, now_ms=now_ms)

    def rules() -> None:
        if leveling is not None:
            with former_rules(settings, environment, leveling, former):
                pass

    return _errors_of(quarantine, owner, rules)


def _errors_of(*acts: Callable[[], None]) -> list[PenstockError]:
    found = []
    for act in acts:
        try:
            act()
        except PenstockError as error:
            found.append(error)
    return found


def _unreadable(starts: Iterable[TableStart], outcome: SampleOutcome) -> list[PenstockError]:
    absent = {at for start in starts for at in start.absent}
    unresponsive = {
        at
        for at, tables in outcome.sample.silent.items()
        if any(outcome.trial.progress[name].position is not None for name in tables)
    }
    return [
        *([no_leader(absent)] if absent else []),
        *([no_records_returned(unresponsive)] if unresponsive else []),
    ]


def _last_run(pipeline: Pipeline) -> Snapshot | None:
    reported = read_status(status_file(pipeline))
    return None if reported is None else reported[0]


def _sick(hold: Hold, last: Snapshot | None) -> Mapping[str, int]:
    """Return how many files tables have too many, for which a run would do what `hold` says."""
    known = {} if last is None else last.health
    return {name: known[name].ailing_files for name in sorted(hold.sick(known, ()))}


def _pace(snapshot: Snapshot | None) -> float | None:
    if snapshot is None:
        return None
    rows = sum(table.rows for table in snapshot.tables.values())
    last = [table.last_commit.at_ms for table in snapshot.tables.values() if table.last_commit]
    seconds = (max(last, default=snapshot.started_ms) - snapshot.started_ms) / 1000
    return rows / seconds if rows and seconds > 1 else None
