"""All tables of a run: opened, parked when they fail, recovered and opened again.

Invariants:
- a table that is parked gets no rows and holds up nobody;
- it comes back only through recovery: its pending commits are settled against what it says now,
  and it goes on from there (protocol.md 6);
- start-up is the same path for every table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.commit.land import ROLLED_BACK, CommitContext
from penstock.core.commits import Committable
from penstock.core.errors import PenstockError
from penstock.core.events import TableLeft, TableParked, TableResumed, TopicUnrouted, WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.landing.epoch.commit_queue import CommitBatch
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables import opening, parking, route_tables
from penstock.landing.tables.foreign_errors import COMMIT, OPEN, acting_on_table
from penstock.landing.tables.parking import Parked
from penstock.landing.tables.progress import TableProgress, by_table, examined_of, resume_examined
from penstock.landing.tables.schema_evolution import ColumnBudget
from penstock.landing.tables.spec_change import adopt_rules
from penstock.ports.store import Examined
from penstock.ports.tables import Table
from penstock.rows.schema.inference import columns_in

REDISCOVERY_SECONDS = 30.0
REJECTED_COMMITS_MAX = 3


@dataclass(slots=True)
class TableSet:
    """The tracks of a run. Used by the coordinator's thread only."""

    settings: Settings
    environment: Environment
    quarantine: Table
    tracks: dict[str, TableProgress] = field(default_factory=dict)
    parked: dict[str, Parked] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    _left: set[str] = field(default_factory=set)
    _targets: dict[str, TableTarget] = field(default_factory=dict)
    _wanted: dict[str, list[TopicPartition]] = field(default_factory=dict)
    _unrouted: set[str] = field(default_factory=set)
    _recovering: set[str] = field(default_factory=set)
    _route_tables: dict[str, set[str]] = field(default_factory=dict)
    _rediscover_at: dict[str, float] = field(default_factory=dict)
    column_budget: ColumnBudget = field(init=False)
    _with_ledger: set[str] = field(default_factory=set)
    _tries: Counter[str] = field(default_factory=Counter)
    _spec_adopted: bool = False
    _verify_ledgers: bool = False

    def __post_init__(self) -> None:
        self.column_budget = ColumnBudget(self.settings.new_columns_per_hour)

    @property
    def active(self) -> dict[str, TableProgress]:
        """The tables that take part in epochs."""
        return {name: track for name, track in self.tracks.items() if name not in self.parked}

    @property
    def parked_tables(self) -> list[TableProgress]:
        """The tables that were opened once and get no rows now."""
        return [self.tracks[name] for name in self.parked if name in self.tracks]

    @property
    def reopening(self) -> bool:
        """Return whether a table is about to be opened again without anybody's help."""
        waiting = self.parked.keys() - self._left
        return bool(self._recovering) or any(self.parked[name].internal for name in waiting)

    def list_topics(self, listing: Sequence[TopicPartition]) -> None:
        """Take notice of topics and partitions, and open the tables that are new."""
        if "topic" not in self.settings.accept:
            opening.check_recreated(self.tracks.values(), listing)
        self.topics = frozenset(at.topic for at in listing)
        self._targets, self._wanted, unrouted = opening.route_topics(self.settings, listing)
        for topic in sorted(set(unrouted) - self._unrouted):
            self.environment.observer(TopicUnrouted(topic))
        self._unrouted = set(unrouted)
        for name in [*self._targets]:
            if name not in self.tracks and name not in self.parked:
                self.open(name)
        self._add_route_tables()
        self._leave()

    def _leave(self) -> None:
        """Wait no more for parked tables whose topics are gone; they return only as others do."""
        before, self._left = self._left, self.parked.keys() - self._targets.keys()
        for name in sorted(self._left - before):
            self.environment.observer(TableLeft(name))
        for name in sorted((before & self.parked.keys()) - self._left):
            self._report_parked(name)

    def open(self, name: str) -> None:
        """Read where a table stands, or park it, as while its topics are gone."""
        if name not in self._targets:
            self.reopen(name, "its topics are gone")
            return
        self.environment.observer(WaitBegan(f"{name} to open"))
        with self.parking(name, OPEN):
            track = self._opened(self._targets[name])
            resume_examined(self.settings, self.environment.store, track)
            for route in (r for r, led in self._route_tables.items() if name in led):
                track.quarantined |= opening.quarantined_by(self.tracks[route].quarantine, track)
            track.committed_at = self.environment.clock.monotonic()
            track.capacity_left = self._capacity_left(track)
            self.tracks[name] = track
            self.parked.pop(name, None)

    def _opened(self, target: TableTarget) -> TableProgress:
        given = (self.settings, self.environment, target, self.quarantine)
        return opening.open_route(*given) if target.is_route else opening.open_table(*given)

    def _add_route_tables(self) -> None:
        """Take the tables of routes along, and tell routes of them."""
        now = self.environment.clock.monotonic()
        for name in [name for name, target in self._targets.items() if target.is_route]:
            target, wanted = self._targets[name], self._wanted[name]
            for member in sorted(self._route_tables.get(name, ())):
                self._targets[member], self._wanted[member] = target.route_table(member), wanted
            track = self.active.get(name)
            if track is not None and (
                track.route_tables is None or now >= self._rediscover_at.get(name, 0.0)
            ):
                self._discover_route_tables(track)
            if track is not None and track.route_tables is not None:
                track.route_tables = frozenset(self._route_tables.get(name, ()))
        for track in self.tracks.values():
            track.capacity_left = self._capacity_left(track)

    def _capacity_left(self, track: TableProgress) -> int:
        """Return how many more tables a route may have, or columns a table."""
        if not track.target.is_route:
            left = self.column_budget.left(track.name, self.environment.clock.monotonic())
            held = columns_in(track.state.schema) if track.state else 0
            return max(min(self.settings.columns_max - held, left), 0)
        tables = sum(not target.is_route for target in self._targets.values())
        return max(self.settings.tables_max - tables, 0)

    def _discover_route_tables(self, track: TableProgress) -> None:
        """Find tables of a route that are in the catalog: an earlier life's, or a human's.

        They come in when all that the route refused has landed, for that is not theirs.
        """
        found, failed = route_tables.discover(self.settings, self.environment, track, self._targets)
        if found and track.commits_in_flight:
            track.route_tables = None
            return
        rows = self.environment.store.pending(self.settings.pipeline) if found else ()
        pending = by_table(self.settings.pipeline, rows)
        self._with_ledger |= {name for name, has_ledger in found.items() if has_ledger}
        for name in found:
            self.add_route_table(track, name)
            if name in self.active and (
                self._verify_ledgers or self._spec_adopted or name in pending
            ):
                self.reopen(name, "it was found later, and comes in as at the start")
        if failed is not None:
            self.park(track.name, failed)
            return
        if track.route_tables is None:
            self._exclude_rejected(track)
        track.route_tables = frozenset()
        self._rediscover_at[track.name] = self.environment.clock.monotonic() + REDISCOVERY_SECONDS

    def _exclude_rejected(self, route: TableProgress) -> None:
        """Keep from tables what their route refused before it knew of them: its fate is final."""
        for name in sorted(self._route_tables.get(route.name, set()) & set(self.active)):
            with self.parking(name, OPEN):
                track = self.tracks[name]
                track.quarantined |= opening.quarantined_by(route.quarantine, track)

    def has_begun(self, name: str) -> bool:
        """Return whether a table is known to have a ledger that says where it stands."""
        track = self.tracks.get(name)
        return name in self._with_ledger or (track is not None and bool(track.expected))

    def _may_continue(self, track: TableProgress) -> bool:
        """Return whether a route, if it is one, may count records as its tables'."""
        if not track.target.is_route:
            return True
        known = self._route_tables.get(track.name, ())
        return track.route_tables is not None and all(map(self.has_begun, known))

    def add_route_table(self, route: TableProgress, name: str) -> None:
        """Take a table of a route that is there along, from where its ledger or its route stands.

        Raises InvalidError when another rule's route leads to it as well.
        """
        mine = self._route_tables.setdefault(route.name, set())
        if name in self._targets and name not in mine:
            raise route_tables.ambiguous_table(route.name, name)
        mine.add(name)
        self._targets[name] = route.target.route_table(name)
        self._wanted[name] = self._wanted.get(route.name, [])
        self.open(name)

    def route_table_added(self, route: TableProgress, name: str, conditions: CommitContext) -> None:
        """Take a table of a route along that was just created.

        Raises FencedError when another owner took the route's chain, by which the table begins.
        """
        self.add_route_table(route, name)
        route.quarantine.recheck(conditions)
        own = self.tracks[name].position if name in self.active else None
        if own is not None and (self._verify_ledgers or own.last_claim != conditions.claim):
            self.reopen(name, "it comes in as at the start")

    def _in_route(self, name: str) -> bool:
        return any(name in each for each in self._route_tables.values())

    def route_of(self, name: str) -> TableProgress | None:
        """Return the route that leads to a table, when it takes part."""
        route = next((route for route, each in self._route_tables.items() if name in each), None)
        return None if route is None else self.active.get(route)

    def table_created(self, name: str, table: Table, conditions: CommitContext) -> None:
        """Take a table that was just created; what was examined before stays examined.

        Raises FencedError when another owner took its quarantine chain, which is all there was.
        """
        track = self.tracks[name]
        begun = track.start_offsets
        with self.parking(name, OPEN):
            opening.attach_table(track, table, self.environment)
            track.quarantine.recheck(conditions)
            assert track.position is not None, "it was adopted"
            if track.position.expected != begun or track.position.last_claim != conditions.claim:
                self.reopen(name, "another created it first")

    def take_over(self, conditions: CommitContext) -> None:
        """Read no table before its ledgers have seen our claim: others may have prepared commits
        that our store does not know, from stretches that are read here again.
        """
        self._verify_ledgers = True
        for name in self.active:
            self._take_over(name, conditions)

    def _take_over(self, name: str, conditions: CommitContext) -> None:
        with self.parking(name, COMMIT):
            while opening.take_over_chains(
                self.settings, self.environment, self.tracks[name], conditions
            ):
                self.open(name)  # it may have been born meanwhile
                if name not in self.active:
                    return

    @property
    def rolled_back(self) -> list[TableTarget]:
        """The targets whose tables were found rolled back: they wait for a human."""
        return [
            self._targets[name]
            for name, aside in self.parked.items()
            if aside.error.code == ROLLED_BACK and name in self._targets
        ]

    def partitions_of(self, name: str) -> list[TopicPartition]:
        """List the partitions that are routed to a table, or to the route that leads to it."""
        return self._wanted.get(name, [])

    def write_start_positions(self, conditions: CommitContext) -> None:
        """Write start positions for partitions that a ledger does not know yet."""
        for name, track in sorted(self.active.items(), key=lambda at: not at[1].target.is_route):
            wanted = self._wanted.get(name, [])
            route = self.route_of(name)
            if self._in_route(name) and (route is None or not (track.expected or route.is_level)):
                continue
            with self.parking(name, COMMIT):
                opening.write_missing_starts(
                    self.settings, self.environment, track, wanted, conditions, route=route
                )

    def assign_partitions(self) -> None:
        """Let the active tables take part with all partitions that are routed to them.

        A route waits until all of its tables are known and have begun.
        """
        for name, track in self.active.items():
            track.wanted = tuple(self._wanted.get(name, [])) if self._may_continue(track) else ()

    @contextmanager
    def parking(self, name: str, failing: str) -> Iterator[None]:
        """Park a table for what an act on it raises; `failing` says what cannot be done then, where
        nobody foresaw it.
        """
        try:
            with acting_on_table(name, failing):
                yield
        except parking.OF_ONE_TABLE as error:
            self.park(name, error)

    def park(self, name: str, error: PenstockError) -> None:
        """Park a table, loudly; it is tried again after a while unless a human must act.

        The while grows until something of the table lands: that it opened again proves nothing.
        """
        before = self.parked.get(name)
        now = self.environment.clock.monotonic()
        since = now if before is None else before.since
        self._tries[name] += 1
        retry_at = now + parking.retry_delay_seconds(self._tries[name])
        self.parked[name] = Parked(error, since, retry_at, self._tries[name], internal=False)
        self._recovering.discard(name)
        if before is None or before.internal or before.error.code != error.code:
            self._report_parked(name)

    def _report_parked(self, name: str) -> None:
        aside = self.parked[name]
        if not aside.internal:
            self.environment.observer(TableParked(name, aside.error.code, aside.error.message))

    def reopen(self, name: str, reason: str) -> None:
        """Leave a table out until its queue is empty, to open it again where it really stands."""
        self._recovering.discard(name)
        if name not in self.parked:
            now = self.environment.clock.monotonic()
            self.parked[name] = Parked(
                parking.desynchronized(name, reason), now, now, 0, internal=True
            )

    def commit_succeeded(self, name: str) -> None:
        """Take notice that commits of a table landed: it is well."""
        del self._tries[name]
        if name in self.tracks:
            self.tracks[name].committed_at = self.environment.clock.monotonic()

    def commit_rejected(self, name: str, reason: str) -> None:
        """Read a table again whose commit no longer fitted; after a pause when that goes on."""
        self._tries[name] += 1
        if self._tries[name] < REJECTED_COMMITS_MAX:
            self.reopen(name, reason)
        else:
            self.park(name, parking.desynchronized(name, reason))

    def due_for_retry(self, busy: Collection[str], *, patient: bool) -> list[str]:
        """List the tables that are to be tried again now and have no commit under way."""
        now = self.environment.clock.monotonic()
        return [
            name
            for name, aside in self.parked.items()
            if aside.is_due(now, patient=patient)
            and name in self._targets
            and name not in self._recovering
            and name not in busy
        ]

    def recovery_work(self, name: str, rows: Sequence[Committable]) -> CommitBatch | None:
        """Make the batch that settles what is pending for a table; None when it cannot be had."""
        batch = None
        with self.parking(name, OPEN):
            work = tuple((commit, self._table(name, commit)) for commit in rows)
            batch = CommitBatch(name, work, recovering=True)
            self._recovering.add(name)
        return batch

    def adopt_rules(self, conditions: CommitContext) -> None:
        """Write the present rules into all ledgers, before anything is judged by them.

        Later it can be told what was judged by which rules, though only some tables got rows.
        """
        self._spec_adopted = True
        adopt_rules(self, self.active, conditions)

    def recovered(self, name: str, conditions: CommitContext) -> None:
        """Open a table whose pending commits were settled."""
        self._recovering.discard(name)
        before = self.parked.get(name)
        self.open(name)
        if self._verify_ledgers and name in self.active:
            self._take_over(name, conditions)
        if self._spec_adopted and name in self.active:
            adopt_rules(self, [name], conditions)
        if name in self.active and before is not None and not before.internal:
            seconds = self.environment.clock.monotonic() - before.since
            self.environment.observer(TableResumed(name, seconds))

    def _table(self, name: str, commit: Committable) -> Table:
        if commit.chain.is_quarantine:
            return self.quarantine
        place = self._targets[name].location
        table = self.environment.catalogs[place.catalog].load(place.name)
        if table is None:
            raise parking.table_missing(place)
        return table

    def examined(self) -> dict[str, Examined]:
        """Return what to keep beside the pending commits, of tables that take part."""
        return {
            name: examined_of(track, self.settings.rules_hash)
            for name, track in self.active.items()
        }
