"""What would become of a sample: the workers' own code is run on it, and nothing is written.

Invariants:
- tables are created, widened and requested as a run does it, but in memory alone: their progress
  is a copy, and their definitions are checked by the catalog that would create them;
- what is shown of a record is what its last trial said, when all tables were as they will be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.app.inspect.read_only_world import QUARANTINE, ReadOnlyWorld
from penstock.app.inspect.sample.backlog import Piece
from penstock.app.inspect.sample.sampling import Sample
from penstock.core.accounting import Tally
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema
from penstock.landing.tables import route_creation, schema_evolution
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import TaskResult
from penstock.landing.task.results import TableResult, aggregate, failures
from penstock.rows.schema.inference import columns_in

ROUNDS_MAX = 20
"""How often tables are widened or requested, and the sample tried again."""

Row = Mapping[str, Any]


@dataclass(slots=True)
class TrialResult:
    """What came of a sample.

    `progress` is that of each table as a run would leave it; `granted` are the tables that
    records request. `shown` are the columns that records show, also of tables that are there.
    `books` are by table and piece; `rejects` are rows of the quarantine, by table; `whole` is, by
    table, what a run would prepare if the sample were an epoch.
    """

    progress: dict[str, TableProgress]
    shown: dict[str, Schema] = field(default_factory=dict)
    granted: list[str] = field(default_factory=list)
    books: dict[str, dict[Piece, Tally]] = field(default_factory=dict)
    rejects: dict[str, list[Row]] = field(default_factory=dict)
    whole: Mapping[str, TableResult] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    record_bytes: dict[TopicPartition, float] = field(default_factory=dict)

    @property
    def active(self) -> dict[str, TableProgress]:
        """The tables without a failure."""
        return {name: each for name, each in self.progress.items() if name not in self.failed}


def try_sample(
    world: ReadOnlyWorld, sample: Sample, progress: Mapping[str, TableProgress]
) -> TrialResult:
    """Try a sample on tables, again as long as the outcome changes them."""
    found = TrialResult({name: replace(each) for name, each in progress.items()})
    found.failed.update({name: sample.failed[name] for name in progress if name in sample.failed})
    world.dry_run.batches = sample.batches
    pieces = sample.pieces
    try:
        create_tables(world, found, pieces)
        for _ in range(ROUNDS_MAX):
            lanes = _lanes(pieces, found.active)
            if not lanes:
                break
            results = world.attempt([lane for _, lane in lanes], found.active)
            found.failed.update(failures(results))
            widened = widen(found, results)
            pieces = _granted(world, found, pieces, results)
            if not widened and pieces is sample.pieces:
                break
            sample.pieces = pieces
    except PenstockError as error:
        found.failed.update(dict.fromkeys(found.active, error))
        return found
    if lanes:
        _keep(world, found, lanes, results)
    return found


def create_tables(world: ReadOnlyWorld, found: TrialResult, pieces: Sequence[Piece]) -> None:
    """Survey pieces, and add the tables that a run would create for them, in memory alone.

    A table is created for its first epoch, where that shows columns; else for what comes later.
    """
    progress = found.active
    first = [replace(each, tables=tuple(sorted(each.first))) for each in pieces]
    found.shown = _surveyed(world, first, progress)
    absent = {n: t for n, t in progress.items() if t.position is None and n not in found.shown}
    found.shown |= _surveyed(world, pieces, absent)
    for name, schema in found.shown.items():
        if progress[name].position is None:
            _create(world, found, name, schema)


def _create(world: ReadOnlyWorld, found: TrialResult, name: str, shown: Schema) -> None:
    progress = found.progress[name]
    place = progress.target.location
    try:
        catalog = world.environment.catalogs[place.catalog]
        state = catalog.preview(place.name, progress.target.definition_for(shown))
    except (UnavailableError, InvalidError) as error:
        found.failed[name] = error
        return
    found.progress[name] = replace(progress, state=state)


def _surveyed(
    world: ReadOnlyWorld, pieces: Iterable[Piece], progress: Mapping[str, TableProgress]
) -> dict[str, Schema]:
    lanes = [lane for _, lane in _lanes(pieces, progress)]
    return world.survey(lanes, progress) if lanes else {}


def _lanes(pieces: Iterable[Piece], tables: Collection[str]) -> list[tuple[Piece, Lane]]:
    """List what is read for tables in the order in which a task of a run reads it: which column is
    first, and which spelling of a name is kept, depend on it.
    """
    in_order = sorted(pieces, key=lambda piece: (piece.at, piece.covered))
    lanes = ((piece, piece.lane(tables)) for piece in in_order)
    return [each for each in lanes if each[1].tables]


def widen(found: TrialResult, results: Sequence[TaskResult]) -> bool:
    """Add the columns and types that rejected records ask for; return whether there were any."""
    changed = False
    for name, wide in schema_evolution.requested_schemas(found.active, results).items():
        progress = found.progress[name]
        assert progress.state is not None, "a table with a requested schema exists"
        before = progress.state.schema
        room = max(progress.capacity_left - (columns_in(wide) - columns_in(before)), 0)
        state = replace(progress.state, schema=wide)
        found.progress[name] = replace(progress, state=state, capacity_left=room)
        changed = changed or wide != before
    return changed


def _granted(
    world: ReadOnlyWorld, found: TrialResult, pieces: list[Piece], results: Sequence[TaskResult]
) -> list[Piece]:
    for route, asked in route_creation.requested_tables(results).items():
        if route in found.failed:
            continue
        progress = found.progress[route]
        granted = [
            name for name in sorted(asked)[: progress.capacity_left] if name not in found.progress
        ]
        for name in granted:
            target = progress.target.route_table(name)
            chain = Chain(world.settings.pipeline, name)
            found.progress[name] = TableProgress(target, chain, progress.quarantine)
            _create(world, found, name, asked[name])
            if name in found.failed:  # the route cannot go on without it
                found.failed[route] = found.failed[name]
        found.granted += granted
        known = (progress.route_tables or frozenset()) | frozenset(granted)
        found.progress[route] = replace(progress, route_tables=known)
        for name, other in found.progress.items():
            if other.target.is_route:
                room = max(other.capacity_left - len(granted), 0)
                found.progress[name] = replace(other, capacity_left=room)
        pieces = [_led(piece, route, granted) for piece in pieces] if granted else pieces
    return pieces


def _led(piece: Piece, route: str, granted: Sequence[str]) -> Piece:
    if route not in piece.tables:
        return piece
    first = piece.first | frozenset(granted if route in piece.first else ())
    return replace(piece, tables=(*piece.tables, *granted), first=first)


def _keep(
    world: ReadOnlyWorld,
    found: TrialResult,
    lanes: Sequence[tuple[Piece, Lane]],
    results: Sequence[TaskResult],
) -> None:
    found.whole = aggregate(results, {name: each.grown for name, each in found.progress.items()})
    for result in results:
        piece, _ = lanes[result.number]
        for table, tallies in result.tallies.items():
            for tally in tallies.values():
                found.books.setdefault(table, {})[piece] = tally
        for lane in result.lanes:
            if lane.records:
                found.record_bytes[lane.lane.at] = lane.size_bytes / lane.records
    for row in world.dry_run.rows.pop(QUARANTINE, []):
        if row["table"] not in found.failed:
            found.rejects.setdefault(row["table"], []).append(row)
