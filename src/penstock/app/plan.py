"""`penstock plan`: what a run would do, and why, before it does anything.

Invariants:
- nothing is written, not even a missing catalog or store (app/view.py);
- what is told of records comes from running the workers' own code over a sample of the backlog;
- a step that gives something up for good is *destructive*, and a run takes it only with --accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from penstock.app.shown import arrow, html, plan_rows
from penstock.app.status import status_file
from penstock.app.view import View, imagined, new_columns, open_view
from penstock.core.errors import DecisionNeededError, PenstockError, gravest
from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition
from penstock.core.planning import Lane, lanes_of
from penstock.core.schema import Schema, Struct
from penstock.landing import members, opening
from penstock.landing.adding_up import failures
from penstock.landing.jobs import Result
from penstock.landing.leveling import needed
from penstock.landing.tracks import Track, by_table
from penstock.observe.status import read_status
from penstock.rows.spelling import spelled_as
from penstock.spec.model import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_LANES_MAX = 64
SAMPLED_RECORDS_MAX = 1000
NOTHING, CHANGES, DESTRUCTIVE = 0, 10, 11


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where one table begins in one partition, why there, and how much lies before it."""

    topic: str
    partition: int
    start: int
    stop: int
    why: str

    @property
    def records(self) -> int:
        """Count the positions to read, an upper bound of the records."""
        return max(self.stop - self.start, 0)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What became of the sampled records of a table, when the workers' code was run on them."""

    records: int = 0
    landed: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a run would do with one table.

    `columns` are those of a table to create; `missing` the fields of sampled records for which an
    existing table has no column, and `fate` what becomes of them. `destructive` are steps that give
    something up, `problem` is what stands in the way. `pending` counts commits to settle first.
    """

    table: str
    create: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    fate: str = ""
    beginnings: tuple[Beginning, ...] = ()
    size_bytes: int | None = None
    sampled: Sampled = field(default_factory=Sampled)
    pending: int = 0
    destructive: tuple[PenstockError, ...] = ()
    problem: PenstockError | None = None

    @property
    def records(self) -> int:
        """Count the positions to read."""
        return sum(each.records for each in self.beginnings)

    @property
    def adds_columns(self) -> bool:
        """Tell whether a run would add the missing columns."""
        return bool(self.missing) and self.fate == "evolve"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan. `rows_per_second` is the last run's pace, where there is one to tell of.

    `owner` is who runs the pipeline now; `former_rules` names tables that are first brought level
    under the rules they were fed with; `unrouted` are topics that no table takes.
    """

    pipeline: str
    tables: tuple[TablePlan, ...]
    creates_quarantine: str = ""
    owner: str = ""
    former_rules: tuple[str, ...] = ()
    unrouted: tuple[str, ...] = ()
    rows_per_second: float | None = None

    def to_arrow(self) -> pa.Table:
        """Give a row for each table, as Arrow."""
        return arrow(plan_rows(self))

    def _repr_html_(self) -> str:
        return html(plan_rows(self))

    @property
    def change(self) -> int:
        """Give 0 for nothing to do, 10 for changes, 11 for destructive ones."""
        if any(table.destructive for table in self.tables):
            return DESTRUCTIVE
        busy = any(each.create or each.records or each.pending for each in self.tables)
        return CHANGES if busy or self.former_rules else NOTHING

    @property
    def problem_code(self) -> int:
        """Give the exit code of the gravest problem, 0 when there is none."""
        return gravest(each.problem.exit_code for each in self.tables if each.problem)

    @property
    def seconds(self) -> float | None:
        """Estimate the time to catch up, at the pace of the last run."""
        rows = sum(table.records for table in self.tables)
        return rows / self.rows_per_second if rows and self.rows_per_second else None


def plan(pipeline: Pipeline) -> Plan:
    """Tell what a run would do now. Raises UnavailableError when brokers or store are gone."""
    with ExitStack() as stack:
        return _plan(pipeline, open_view(pipeline, stack))


def _plan(pipeline: Pipeline, view: View) -> Plan:
    _, _, unrouted = opening.routed(view.settings, view.listing)
    drafts = {
        name: _Draft(track, view.fleet.partitions_of(name), view)
        for name, track in view.fleet.tracks.items()
    }
    for draft in drafts.values():
        draft.begin()
    samples = _Samples.taken(view, {n: d for n, d in drafts.items() if not d.stops})
    pending = by_table(pipeline.name, view.world.store.pending(pipeline.name))
    counts = {name: len(commits) for name, commits in pending.items()}
    tables = [draft.planned(samples, counts.get(name, 0)) for name, draft in drafts.items()]
    tables += [
        TablePlan(name, pending=counts.get(name, 0), problem=aside.error)
        for name, aside in view.fleet.aside.items()
        if not aside.quiet
    ]
    tables += _asked_for(view, samples)
    held = view.world.store.holding(pipeline.name)
    alive = held is not None and held.alive_until_ms > view.world.clock.now_ms()
    leveling = needed(list(view.fleet.tracks.values()), view.settings, view.world.store)
    return Plan(
        pipeline.name,
        tuple(sorted(tables, key=lambda each: each.table)),
        creates_quarantine=view.settings.quarantine.table if view.quarantine_missing else "",
        owner=f"{held.owner.host}, pid {held.owner.pid}" if held and alive else "",
        former_rules=tuple(sorted(leveling.stretches)) if leveling else (),
        unrouted=tuple(unrouted),
        rows_per_second=_pace(pipeline),
    )


def _asked_for(view: View, samples: _Samples) -> list[TablePlan]:
    """Tell of the tables that sampled records ask for, and that a run would create for them."""
    found = []
    for route, asked in samples.asked.items():
        track = view.fleet.tracks[route]
        for name in sorted(asked)[: track.room]:
            schema = track.target.schema_for(asked[name])
            columns = tuple((each.name, str(each.type)) for each in schema.fields)
            found.append(TablePlan(name, create=True, columns=columns))
    return found


@dataclass(slots=True)
class _Draft:
    """One table of the plan while it is made."""

    track: Track
    wanted: opening.Listing
    view: View
    positions: dict[TopicPartition, Offset] = field(default_factory=dict)
    whys: dict[TopicPartition, str] = field(default_factory=dict)
    destructive: list[PenstockError] = field(default_factory=list)
    problem: PenstockError | None = None

    @property
    def stops(self) -> bool:
        """Tell whether a run would not read for this table."""
        return self.problem is not None or bool(self.destructive)

    def begin(self) -> None:
        """Find where the table would begin in every partition; note what stands in the way."""
        track, settings, world = self.track, self.view.settings, self.view.world
        self.positions = {at: track.examined[at] for at in self.wanted if at in track.examined}
        self.whys = {at: self._why_there(at) for at in self.positions}
        fresh = [at for at in self.wanted if at not in track.origins]
        try:
            if fresh:
                opening.refuse_strangers(track.name, track.origins, self.wanted)
                opening.recreated([track], fresh)
            chosen = opening.start_positions(settings, world, track.origins, fresh)
        except DecisionNeededError as error:
            self.destructive.append(error)
            return
        except PenstockError as error:
            self.problem = error
            return
        topics = {at.topic_id for at in track.origins}
        for at, offset in chosen.items():
            self.positions[at] = offset
            self.whys[at] = _why_new(at, topics, settings.start)
        overtaken = opening.overtaken(track, self.view.bounds)
        if overtaken is not None and overtaken.code == opening.RETENTION:
            self.destructive.append(overtaken)
        else:
            self.problem = overtaken

    def planned(self, samples: _Samples, pending: int) -> TablePlan:
        """Give the plan of the table."""
        name, target = self.track.name, self.track.target
        create = self.track.standing is None
        shown = samples.shown.get(name, Struct(()))
        state = imagined(self.track, shown).state
        columns = [(each.name, str(each.type)) for each in state.schema.fields] if state else []
        known = state is not None and not create and not target.is_route
        missing = []
        if state is not None and known:
            spelled = spelled_as(shown, state.schema, target.options)
            missing = new_columns(spelled, state.schema)
        beginnings = tuple(self._beginning(at) for at in sorted(self.positions))
        return TablePlan(
            name,
            create=create and bool(sum(each.records for each in beginnings)),
            columns=tuple(columns) if create and shown.fields else (),
            missing=tuple(missing),
            fate=str(target.options.columns),
            beginnings=beginnings,
            size_bytes=samples.bytes_of(self.positions, self.view),
            sampled=samples.told.get(name, Sampled()),
            pending=pending,
            destructive=tuple(self.destructive),
            problem=self.problem or samples.failed.get(name),
        )

    def _beginning(self, at: TopicPartition) -> Beginning:
        bounds = self.view.bounds.get(at)
        start = self.positions[at]
        stop = start if bounds is None else max(bounds.stop, start)
        why = self.whys[at] if bounds is not None else "its partition has no leader now"
        return Beginning(at.topic, at.partition, start, stop, why)

    def _why_there(self, at: TopicPartition) -> str:
        if self.track.standing is None:
            return "where its quarantine stands"
        if self.track.examined[at] > self.track.standing.expected.get(at, Offset(0)):
            return "where it was looked at last; nothing before is for this table"
        return "where the table stands"


def _why_new(at: TopicPartition, topics: set[str], start: object) -> str:
    if at.topic_id in topics:
        return "a new partition of a known topic"
    if topics:
        return "a topic found later: its first record"
    if isinstance(start, str):
        return f"kafka.start: {start}"
    return "kafka.start: its offsets" if isinstance(start, Mapping) else "kafka.start: its time"


@dataclass(frozen=True, slots=True)
class _Samples:
    """What a sample of the backlog showed: columns and fates by table, sizes by partition."""

    shown: Mapping[str, Schema] = field(default_factory=dict)
    told: Mapping[str, Sampled] = field(default_factory=dict)
    failed: Mapping[str, PenstockError] = field(default_factory=dict)
    record_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    asked: Mapping[str, Mapping[str, Schema]] = field(default_factory=dict)

    @classmethod
    def taken(cls, view: View, drafts: Mapping[str, _Draft]) -> _Samples:
        """Read the first records of the backlog of tables and do what a run would do with them."""
        positions = {name: draft.positions for name, draft in drafts.items()}
        ends = {at: bounds.stop for at, bounds in view.bounds.items()}
        lanes = tuple(islice(_sampled(lanes_of(positions, ends)), SAMPLED_LANES_MAX))
        if not lanes:
            return cls()
        tracks = {name: draft.track for name, draft in drafts.items()}
        try:
            shown = view.survey(lanes, tracks)
            born = {
                name: imagined(track, shown[name]) if name in shown else track
                for name, track in tracks.items()
            }
            results = view.attempt(lanes, born)
        except PenstockError as error:
            return cls(failed=dict.fromkeys(drafts, error))
        asked = members.asked_for(results)
        return cls(shown, _fates(results), failures(results), _sizes(results), asked)

    def bytes_of(self, positions: Positions, view: View) -> int | None:
        """Estimate the bytes to read from the sizes of sampled records; None when none is known."""
        if not self.record_bytes:
            return None
        mean = sum(self.record_bytes.values()) / len(self.record_bytes)
        return int(
            sum(
                max(view.bounds[at].stop - start, 0) * self.record_bytes.get(at, mean)
                for at, start in positions.items()
                if at in view.bounds
            )
        )


def _sampled(lanes: Sequence[Lane]) -> Iterator[Lane]:
    share = max(SAMPLED_RECORDS_MAX // max(len(lanes), 1), 1)
    for lane in lanes:
        start = lane.covered.start
        yield Lane(
            lane.at, OffsetRange(start, Offset(min(lane.covered.stop, start + share))), lane.tables
        )


def _fates(results: Sequence[Result]) -> dict[str, Sampled]:
    found: dict[str, Sampled] = {}
    for result in results:
        for table, tallies in result.tallies.items():
            for tally in tallies.values():
                before = found.get(table, Sampled())
                found[table] = Sampled(
                    before.records + tally.examined,
                    before.landed + tally.landed,
                    _added(before.filtered, tally.filtered),
                    _added(before.quarantined, tally.quarantined),
                )
    return found


def _added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in sorted({*first, *second})}


def _sizes(results: Sequence[Result]) -> dict[TopicPartition, float]:
    return {
        lane.lane.at: lane.size_bytes / lane.records
        for result in results
        for lane in result.lanes
        if lane.records
    }


def _pace(pipeline: Pipeline) -> float | None:
    """Read from the last run's status how many rows a second it landed, over all tables."""
    told = read_status(status_file(pipeline))
    if told is None:
        return None
    snapshot, _ = told
    rows = sum(table.rows for table in snapshot.tables.values())
    last = [table.last_commit.at_ms for table in snapshot.tables.values() if table.last_commit]
    seconds = (max(last, default=snapshot.started_ms) - snapshot.started_ms) / 1000
    return rows / seconds if rows and seconds > 1 else None
