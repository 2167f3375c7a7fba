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

from penstock.commit.land import ROLLED_BACK, Conditions
from penstock.core.commits import Committable
from penstock.core.errors import PenstockError
from penstock.core.events import TableLeft, TableParked, TableResumed, TopicUnrouted, WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.landing.epoch.commit_queue import Batch
from penstock.landing.settings import Settings, Target, World
from penstock.landing.tables import opening, route_tables
from penstock.landing.tables.foreign_errors import COMMIT, OPEN, serving
from penstock.landing.tables.parking import OF_ONE_TABLE, Aside, missing, out_of_step, pause_seconds
from penstock.landing.tables.progress import Track, by_table, examined_of, go_on_examined
from penstock.landing.tables.schema_evolution import ColumnBudget
from penstock.landing.tables.spec_change import adopt_rules
from penstock.ports.store import Examined
from penstock.ports.tables import Table
from penstock.rows.schema.inference import columns_in

LOOK_AGAIN_SECONDS = 30.0
TURNED_AWAY_MAX = 3


@dataclass(slots=True)
class Fleet:
    """The tracks of a run. Used by the coordinator's thread only."""

    settings: Settings
    world: World
    quarantine: Table
    tracks: dict[str, Track] = field(default_factory=dict)
    aside: dict[str, Aside] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    _left: set[str] = field(default_factory=set)
    _targets: dict[str, Target] = field(default_factory=dict)
    _wanted: dict[str, list[TopicPartition]] = field(default_factory=dict)
    _unrouted: set[str] = field(default_factory=set)
    _recovering: set[str] = field(default_factory=set)
    _members: dict[str, set[str]] = field(default_factory=dict)
    _look_again_at: dict[str, float] = field(default_factory=dict)
    column_budget: ColumnBudget = field(init=False)
    _ledgered: set[str] = field(default_factory=set)
    _tries: Counter[str] = field(default_factory=Counter)
    _ruling: bool = False
    _distrust: bool = False

    def __post_init__(self) -> None:
        self.column_budget = ColumnBudget(self.settings.new_columns_per_hour)

    @property
    def active(self) -> dict[str, Track]:
        """The tables that take part in epochs."""
        return {name: track for name, track in self.tracks.items() if name not in self.aside}

    @property
    def parked(self) -> list[Track]:
        """The tables that were opened once and get no rows now."""
        return [self.tracks[name] for name in self.aside if name in self.tracks]

    @property
    def stepping(self) -> bool:
        """Return whether a table is about to be opened again without anybody's help."""
        return bool(self._recovering) or any(
            aside.quiet for name, aside in self.aside.items() if name not in self._left
        )

    def list_topics(self, listing: Sequence[TopicPartition]) -> None:
        """Take notice of topics and partitions, and open the tables that are new."""
        if "topic" not in self.settings.accept:
            opening.recreated(self.tracks.values(), listing)
        self.topics = frozenset(at.topic for at in listing)
        self._targets, self._wanted, unrouted = opening.routed(self.settings, listing)
        for topic in sorted(set(unrouted) - self._unrouted):
            self.world.observer(TopicUnrouted(topic))
        self._unrouted = set(unrouted)
        for name in [*self._targets]:
            if name not in self.tracks and name not in self.aside:
                self.open(name)
        self._lead_routes()
        self._leave()

    def _leave(self) -> None:
        """Wait no more for parked tables whose topics are gone; they return only as others do."""
        before, self._left = self._left, self.aside.keys() - self._targets.keys()
        for name in sorted(self._left - before):
            self.world.observer(TableLeft(name))
        for name in sorted((before & self.aside.keys()) - self._left):
            self._tell_parked(name)

    def open(self, name: str) -> None:
        """Read where a table stands, or park it, as while its topics are gone."""
        if name not in self._targets:
            self.unstep(name, "its topics are gone")
            return
        self.world.observer(WaitBegan(f"{name} to open"))
        with self.parking(name, OPEN):
            track = self._opened(self._targets[name])
            go_on_examined(self.settings, self.world.store, track)
            for route in (r for r, led in self._members.items() if name in led):
                track.already |= opening.refused_by(self.tracks[route].rejects, track)
            track.committed_at = self.world.clock.monotonic()
            track.room = self._room(track)
            self.tracks[name] = track
            self.aside.pop(name, None)

    def _opened(self, target: Target) -> Track:
        given = (self.settings, self.world, target, self.quarantine)
        return opening.open_route(*given) if target.is_route else opening.open_track(*given)

    def _lead_routes(self) -> None:
        """Take the tables of routes along, and tell routes of them."""
        now = self.world.clock.monotonic()
        for name in [name for name, target in self._targets.items() if target.is_route]:
            target, wanted = self._targets[name], self._wanted[name]
            for member in sorted(self._members.get(name, ())):
                self._targets[member], self._wanted[member] = target.member(member), wanted
            track = self.active.get(name)
            if track is not None and (
                track.members is None or now >= self._look_again_at.get(name, 0.0)
            ):
                self._look_for_members(track)
            if track is not None and track.members is not None:
                track.members = frozenset(self._members.get(name, ()))
        for track in self.tracks.values():
            track.room = self._room(track)

    def _room(self, track: Track) -> int:
        """Return how many more tables a route may have, or columns a table."""
        if not track.target.is_route:
            left = self.column_budget.left(track.name, self.world.clock.monotonic())
            held = columns_in(track.state.schema) if track.state else 0
            return max(min(self.settings.columns_max - held, left), 0)
        tables = sum(not target.is_route for target in self._targets.values())
        return max(self.settings.tables_max - tables, 0)

    def _look_for_members(self, track: Track) -> None:
        """Find tables of a route that are in the catalog: an earlier life's, or a human's.

        They come in when all that the route refused has landed, for that is not theirs.
        """
        found, failed = route_tables.newcomers(self.settings, self.world, track, self._targets)
        if found and track.waiting:
            track.members = None
            return
        rows = self.world.store.pending(self.settings.pipeline) if found else ()
        pending = by_table(self.settings.pipeline, rows)
        self._ledgered |= {name for name, has_ledger in found.items() if has_ledger}
        for name in found:
            self.join(track, name)
            if name in self.active and (self._distrust or self._ruling or name in pending):
                self.unstep(name, "it was found later, and comes in as at the start")
        if failed is not None:
            self.park(track.name, failed)
            return
        if track.members is None:
            self._leave_refused(track)
        track.members = frozenset()
        self._look_again_at[track.name] = self.world.clock.monotonic() + LOOK_AGAIN_SECONDS

    def _leave_refused(self, route: Track) -> None:
        """Keep from tables what their route refused before it knew of them: its fate is final."""
        for name in sorted(self._members.get(route.name, set()) & set(self.active)):
            with self.parking(name, OPEN):
                self.tracks[name].already |= opening.refused_by(route.rejects, self.tracks[name])

    def has_begun(self, name: str) -> bool:
        """Return whether a table is known to have a ledger that says where it stands."""
        known = name in self.tracks and bool(self.tracks[name].origins)
        return known or name in self._ledgered

    def _goes_on(self, track: Track) -> bool:
        """Return whether a route, if it is one, may count records as its tables'."""
        if not track.target.is_route:
            return True
        known = self._members.get(track.name, ())
        return track.members is not None and all(map(self.has_begun, known))

    def join(self, route: Track, name: str) -> None:
        """Take a table of a route that is there along, from where its ledger or its route stands.

        Raises InvalidError when another rule's route leads to it as well.
        """
        mine = self._members.setdefault(route.name, set())
        if name in self._targets and name not in mine:
            raise route_tables.of_two_routes(route.name, name)
        mine.add(name)
        self._targets[name] = route.target.member(name)
        self._wanted[name] = self._wanted.get(route.name, [])
        self.open(name)

    def joined(self, route: Track, name: str, conditions: Conditions) -> None:
        """Take a table of a route along that was just created.

        Raises FencedError when another owner took the route's chain, by which the table begins.
        """
        self.join(route, name)
        route.rejects.look_again(conditions)
        standing = self.tracks[name].standing if name in self.active else None
        if standing is not None and (self._distrust or standing.seen != conditions.claim):
            self.unstep(name, "it comes in as at the start")

    def _is_led(self, name: str) -> bool:
        return any(name in each for each in self._members.values())

    def route_of(self, name: str) -> Track | None:
        """Return the route that leads to a table, when it takes part."""
        route = next((route for route, each in self._members.items() if name in each), None)
        return None if route is None else self.active.get(route)

    def born(self, name: str, table: Table, conditions: Conditions) -> None:
        """Take a table that was just created; what was examined before stays examined.

        Raises FencedError when another owner took its quarantine chain, which is all there was.
        """
        track = self.tracks[name]
        begun = track.begun
        with self.parking(name, OPEN):
            opening.adopt(track, table, self.world)
            track.rejects.look_again(conditions)
            assert track.standing is not None, "it was adopted"
            if track.standing.expected != begun or track.standing.seen != conditions.claim:
                self.unstep(name, "another created it first")

    def take_over(self, conditions: Conditions) -> None:
        """Read no table before its ledgers have seen our claim: others may have prepared commits
        that our store does not know, from stretches that are read here again.
        """
        self._distrust = True
        for name in self.active:
            self._take_over(name, conditions)

    def _take_over(self, name: str, conditions: Conditions) -> None:
        with self.parking(name, COMMIT):
            while opening.take_over(self.settings, self.world, self.tracks[name], conditions):
                self.open(name)  # it may have been born meanwhile
                if name not in self.active:
                    return

    @property
    def rolled_back(self) -> list[Target]:
        """The targets whose tables were found rolled back: they wait for a human."""
        return [
            self._targets[name]
            for name, aside in self.aside.items()
            if aside.error.code == ROLLED_BACK and name in self._targets
        ]

    def partitions_of(self, name: str) -> list[TopicPartition]:
        """List the partitions that are routed to a table, or to the route that leads to it."""
        return self._wanted.get(name, [])

    def begin(self, conditions: Conditions) -> None:
        """Write start positions for partitions that a ledger does not know yet."""
        for name, track in sorted(
            self.active.items(), key=lambda each: not each[1].target.is_route
        ):
            wanted = self._wanted.get(name, [])
            route = self.route_of(name)
            if self._is_led(name) and (route is None or not (track.origins or route.is_level)):
                continue
            with self.parking(name, COMMIT):
                opening.begin_missing(
                    self.settings, self.world, track, wanted, conditions, route=route
                )

    def follow(self) -> None:
        """Let the active tables take part with all partitions that are routed to them.

        A route waits until all of its tables are known and have begun.
        """
        for name, track in self.active.items():
            track.wanted = tuple(self._wanted.get(name, [])) if self._goes_on(track) else ()

    @contextmanager
    def parking(self, name: str, failing: str) -> Iterator[None]:
        """Park a table for what an act on it raises; `failing` says what cannot be done then, where
        nobody foresaw it.
        """
        try:
            with serving(name, failing):
                yield
        except OF_ONE_TABLE as error:
            self.park(name, error)

    def park(self, name: str, error: PenstockError) -> None:
        """Park a table, loudly; it is tried again after a while unless a human must act.

        The while grows until something of the table lands: that it opened again proves nothing.
        """
        before = self.aside.get(name)
        now = self.world.clock.monotonic()
        since = now if before is None else before.since
        self._tries[name] += 1
        retry_at = now + pause_seconds(self._tries[name])
        self.aside[name] = Aside(error, since, retry_at, self._tries[name], quiet=False)
        self._recovering.discard(name)
        if before is None or before.quiet or before.error.code != error.code:
            self._tell_parked(name)

    def _tell_parked(self, name: str) -> None:
        aside = self.aside[name]
        if not aside.quiet:
            self.world.observer(TableParked(name, aside.error.code, aside.error.message))

    def unstep(self, name: str, reason: str) -> None:
        """Leave a table out until its queue is empty, to open it again where it really stands."""
        self._recovering.discard(name)
        if name not in self.aside:
            now = self.world.clock.monotonic()
            self.aside[name] = Aside(out_of_step(name, reason), now, now, 0, quiet=True)

    def landed(self, name: str) -> None:
        """Take notice that commits of a table landed: it is well."""
        del self._tries[name]
        if name in self.tracks:
            self.tracks[name].committed_at = self.world.clock.monotonic()

    def turned_away(self, name: str, reason: str) -> None:
        """Read a table again whose commit no longer fitted; after a pause when that goes on."""
        self._tries[name] += 1
        if self._tries[name] < TURNED_AWAY_MAX:
            self.unstep(name, reason)
        else:
            self.park(name, out_of_step(name, reason))

    def due(self, busy: Collection[str], *, patient: bool) -> list[str]:
        """List the tables that are to be tried again now and have no commit under way."""
        now = self.world.clock.monotonic()
        return [
            name
            for name, aside in self.aside.items()
            if aside.is_due(now, patient=patient)
            and name in self._targets
            and name not in self._recovering
            and name not in busy
        ]

    def recovery(self, name: str, rows: Sequence[Committable]) -> Batch | None:
        """Make the batch that settles what is pending for a table; None when it cannot be had."""
        batch = None
        with self.parking(name, OPEN):
            work = tuple((commit, self._table(name, commit)) for commit in rows)
            batch = Batch(name, work, recovering=True)
            self._recovering.add(name)
        return batch

    def adopt_rules(self, conditions: Conditions) -> None:
        """Write the present rules into all ledgers, before anything is judged by them.

        Later it can be told what was judged by which rules, though only some tables got rows.
        """
        self._ruling = True
        adopt_rules(self, self.active, conditions)

    def recovered(self, name: str, conditions: Conditions) -> None:
        """Open a table whose pending commits were settled."""
        self._recovering.discard(name)
        before = self.aside.get(name)
        self.open(name)
        if self._distrust and name in self.active:
            self._take_over(name, conditions)
        if self._ruling and name in self.active:
            adopt_rules(self, [name], conditions)
        if name in self.active and before is not None and not before.quiet:
            seconds = self.world.clock.monotonic() - before.since
            self.world.observer(TableResumed(name, seconds))

    def _table(self, name: str, commit: Committable) -> Table:
        if commit.chain.is_quarantine:
            return self.quarantine
        place = self._targets[name].place
        table = self.world.catalogs[place.catalog].load(place.name)
        if table is None:
            raise missing(place)
        return table

    def examined(self) -> dict[str, Examined]:
        """Return what to keep beside the pending commits, of tables that take part."""
        return {
            name: examined_of(track, self.settings.rules_hash)
            for name, track in self.active.items()
        }
