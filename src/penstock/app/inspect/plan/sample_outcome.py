"""What a sample of the backlog shows of each table: its columns, rejects, and whether it is parked.

Invariant: what is said of a table is what became of its records when the workers' code was run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from penstock.app.assembly.worker import exchange
from penstock.app.inspect.creation_settings import creation_only, ignored_hints
from penstock.app.inspect.plan.forecast import (
    Adoption,
    RejectGroup,
    Sampled,
    SampledChanges,
    TablePlan,
)
from penstock.app.inspect.plan.starts import TableStart
from penstock.app.inspect.read_only_world import ReadOnlyWorld, new_columns
from penstock.app.inspect.sample.backlog import Backlog, would_trip
from penstock.app.inspect.sample.sampling import Sample, sampled
from penstock.app.inspect.sample.trial import Row, TrialResult
from penstock.commit.errors import keys_across_partitions
from penstock.core.accounting import Tally
from penstock.core.errors import DecisionNeededError, PenstockError
from penstock.core.names import folded
from penstock.core.schema import Struct
from penstock.core.schema_join import paths_in
from penstock.landing.epoch.runner import not_surveyed
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.spec_change import CatchUp
from penstock.landing.task.messages import WriteTarget
from penstock.landing.task.results import FLOODED
from penstock.landing.task.share import exchange_of
from penstock.observe.fanout import UNHEARD
from penstock.ports.writers import Distribution
from penstock.rows.cast.spellings import spelled_as
from penstock.rows.keyed.touched import touched_from_bytes
from penstock.rows.reject_codes import field_of
from penstock.spec.problems import nearest

_EXCHANGED = {Distribution.HASH, Distribution.AUTO}


def is_exchanged(progress: TableProgress) -> bool:
    """Return whether rows of a table meet by partition, where several tasks read an epoch.

    Raises InvalidError when a reference in the settings of its storage is not there.
    """
    target, state = progress.target, progress.state
    distribution = target.placing.distribution
    if target.is_route or target.options.keyed is not None or distribution not in _EXCHANGED:
        return False
    if state is None or progress.position is None:
        return distribution is Distribution.HASH and bool(target.partition_by)
    there = WriteTarget(target.location.connector, state.target, target.placing)
    return exchange_of(there, exchange, UNHEARD) is not None


def sampled_for(
    world: ReadOnlyWorld, starts: Mapping[str, TableStart], leveling: CatchUp | None = None
) -> tuple[Backlog, Sample]:
    """Read a sample of what a run would read for tables by the present rules."""
    level = leveling.ends if leveling else {}
    trailing = leveling.ranges if leveling else {}
    positions = {
        name: start.reads_from(level if name in trailing else {}) for name, start in starts.items()
    }
    ends = {at: bounds.stop for at, bounds in world.bounds.items()}
    progress = {name: start.progress for name, start in starts.items()}
    clock, surveying = world.environment.clock, any(t.position is None for t in progress.values())
    backlog = Backlog.of(world.settings, clock, positions, ends, surveying=surveying)
    return backlog, sampled(backlog, progress, world.reader, clock)


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """What a sample of the backlog showed of tables."""

    world: ReadOnlyWorld
    backlog: Backlog
    sample: Sample
    trial: TrialResult

    def planned(self, start: TableStart) -> TablePlan:
        """Return the plan of a table that was sampled."""
        progress, name = start.progress, start.progress.name
        own = self._sampled(name, name)
        ranges = start.ranges
        records = sum(each.records for each in ranges)
        shown = name in self.trial.shown
        there = progress.state if progress.position is not None else None
        again = self.world.settings.rewritten.get(name)
        return TablePlan(
            name,
            mode=progress.target.options.mode,
            keys=progress.target.options.keys,
            sequence_by=progress.target.options.sequence,
            flag=next((each.name for each in progress.target.options.soft_columns), ""),
            rewrite_bytes_max=None if again is None else again.bytes_max,
            adopts=adoption(progress),
            create=progress.position is None and bool(records) and (shown or not own.complete),
            columns=self._columns(name) if progress.position is None and shown else (),
            missing=self._missing(start),
            unmatched_hints=self._unmatched_hints(progress),
            ignored_hints=() if there is None else ignored_hints(progress.target, there),
            creation_only=() if there is None else creation_only(progress.target, there),
            exchanged=is_exchanged(progress),
            columns_policy=str(progress.target.options.columns),
            ranges=ranges,
            size_bytes=self._bytes_of(start),
            sampled=own,
            pending=len(start.pending),
            destructive=tuple(start.destructive),
            problem=start.problem or self._problem(name, own),
        )

    def _unmatched_hints(self, progress: TableProgress) -> tuple[tuple[str, str], ...]:
        shown = self.trial.shown.get(progress.name)
        if shown is None or progress.position is not None or progress.target.is_route:
            return ()
        options = progress.target.options
        extra = {*options.header_columns, *options.source_columns.values()}
        fold = str if options.case_sensitive else folded
        seen = {fold(path): path for path in paths_in(shown)}
        own = [each for each in progress.target.hints if each.partition(".")[0] not in extra]
        return tuple((each, nearest(each, seen.values())) for each in own if fold(each) not in seen)

    def asked_for(self, name: str) -> TablePlan:
        """Return the plan of a table that sampled records ask for, and that is created for them."""
        own = self._sampled(name, self._route_of(name))
        return TablePlan(
            name,
            create=True,
            columns=self._columns(name),
            sampled=own,
            problem=self._problem(name, own),
        )

    @property
    def granted(self) -> list[str]:
        """Name the tables that are created for records that ask for them.

        A route with too many rejects gets none, because it is parked before.
        """
        routes = {name: self._route_of(name) for name in self.trial.granted}
        flooded = {route for route in routes.values() if self._sampled(route, route).would_park}
        return [name for name, route in routes.items() if route not in flooded]

    def _route_of(self, name: str) -> str:
        chain = self.trial.progress[name].quarantine.chain
        found = (n for n, t in self.trial.progress.items() if t.target.is_route)
        return next(n for n in found if self.trial.progress[n].quarantine.chain == chain)

    def _sampled(self, name: str, source: str) -> Sampled:
        books = self.trial.books.get(name, {})
        if name in self.trial.failed or not books:
            return Sampled()
        found = sum(books.values(), Tally())
        share = self.world.settings.stop_above_share
        read = sum(piece.covered.count for piece in self.sample.pieces if source in piece.tables)
        return Sampled(
            found.examined,
            found.landed + found.superseded,
            found.filtered,
            found.quarantined,
            group_rejects(self.trial.rejects.get(name, ())),
            self._changes(name),
            complete=read >= self.backlog.records(source),
            would_park=would_trip(source, books, self.backlog, share),
        )

    def _changes(self, name: str) -> SampledChanges | None:
        whole = self.trial.whole.get(name)
        if whole is None or whole.merged is None:
            return None
        deletes = touched_from_bytes(whole.merged.touched).deletes
        return SampledChanges(
            upserts=int((~deletes).sum()),
            deletes=int(deletes.sum()),
            superseded=whole.total.superseded,
            across=whole.merged.across,
        )

    def _problem(self, name: str, own: Sampled) -> PenstockError | None:
        if name in self.trial.failed:
            return self.trial.failed[name]
        silent = [at for at, tables in self.sample.silent.items() if name in tables]
        if silent and self.trial.progress[name].position is None:
            return not_surveyed(name, silent[0])
        across = 0 if own.changes is None else own.changes.across
        if own.complete and across and name in self.world.settings.stop_across_partitions:
            return keys_across_partitions(name, across)
        if not own.would_park:
            return None
        there = self.trial.progress[name].position is not None
        return _tripped(name, own, self.world.settings.stop_above_share, there=there)

    def _columns(self, name: str) -> tuple[tuple[str, str], ...]:
        state = self.trial.progress[name].state
        return tuple((each.name, str(each.type)) for each in state.schema.fields) if state else ()

    def _missing(self, start: TableStart) -> tuple[tuple[str, str], ...]:
        state, target = start.progress.state, start.progress.target
        if state is None or start.progress.position is None or target.is_route:
            return ()
        shown = self.trial.shown.get(start.progress.name, Struct(()))
        return tuple(new_columns(spelled_as(shown, state.schema, target.options), state.schema))

    def _bytes_of(self, start: TableStart) -> int | None:
        sizes = self.trial.record_bytes
        if not sizes:
            return None
        mean = sum(sizes.values()) / len(sizes)
        bounds = self.world.bounds
        return int(
            sum(
                max(bounds[at].stop - start, 0) * sizes.get(at, mean)
                for at, start in start.positions.items()
                if at in bounds
            )
        )


def adoption(progress: TableProgress) -> Adoption | None:
    """Return that a table becomes keyed which has appended, by whatever writer; else None."""
    state, position = progress.state, progress.position
    if position is None or state is None or not progress.target.options.keys:
        return None
    if state.landed is not None and state.landed.keyed is not None:
        return None
    try:
        return Adoption(position.table.describe().rows)
    except PenstockError:
        return Adoption(None)


def group_rejects(rejects: Iterable[Row]) -> tuple[RejectGroup, ...]:
    """Sort rows of the quarantine by code and field, the most frequent first."""

    def reason(row: Row) -> tuple[str, str]:
        return row["code"], field_of(row["stage"], row["message"])

    found = []
    for (code, path), rows in groupby(sorted(rejects, key=reason), reason):
        first, *others = rows
        place = (first["topic"], first["partition"], first["offset"])
        group = RejectGroup(code, path, 1 + len(others), first["message"], *place, first["value"])
        found.append(group)
    return tuple(sorted(found, key=lambda each: (-each.count, each.code, each.field)))


def _tripped(name: str, own: Sampled, share_max: float, *, there: bool) -> DecisionNeededError:
    """Build the error of a breaker that would trip; hints count until the table is `there`."""
    codes = ", ".join(f"{code} {count}" for code, count in own.quarantined.items())
    hint = (
        "correct hints or source for what does not fit, or raise quarantine.stop_above to "
        "quarantine it"
    )
    if there:
        hint = FLOODED
    return DecisionNeededError(
        f"{name}: of {own.records} sampled records {own.landed} fit ({codes}); "
        f"quarantine.stop_above ({share_max:.1%}) would stop this table",
        code="P345",
        hint=hint,
    )
