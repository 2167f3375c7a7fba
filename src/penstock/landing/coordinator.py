"""The coordinator: plan → work → prepare → commit, over and over, each epoch as plain data.

Invariants:
- truth is in the tables: everything here can be lost at any moment and is found again by opening;
- the next epoch is planned only when the last one is in the pending store;
- this thread alone changes tracks and talks to the engine; commits run beside it and report back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from penstock.commit.land import Conditions
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Chain, EpochNumber
from penstock.core.crash_points import Point
from penstock.core.errors import FencedError, PenstockError
from penstock.core.events import EpochPrepared, PipelineStarted, PipelineStopped
from penstock.core.offsets import Positions, TopicPartition
from penstock.core.planning import Bounds, Epoch, Slice, plan
from penstock.landing import waiting
from penstock.landing.epoch import commit_queue, runner
from penstock.landing.epoch.partition_discovery import Lookout
from penstock.landing.epoch.poison_isolation import Isolation
from penstock.landing.epoch.prepare import Desk
from penstock.landing.epoch.stopping_offsets import Horizon
from penstock.landing.epoch.trigger import Pace
from penstock.landing.ownership import fencing
from penstock.landing.ownership.claim import Tenure
from penstock.landing.settings import Settings, Until, World
from penstock.landing.tables import foreign_errors, opening, route_tables, schema_evolution
from penstock.landing.tables.credentials import renew_all, renewed
from penstock.landing.tables.progress import Track, by_table, positions_of
from penstock.landing.tables.spec_change import Leveling, needed
from penstock.landing.tables.table_set import Fleet
from penstock.landing.task.messages import Destination
from penstock.landing.task.results import failures, floods, silent, sums
from penstock.ports.tables import TableState

TICK_SECONDS = 0.2
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the tables that are parked with their reasons, and why it stopped."""

    parked: Mapping[str, PenstockError]
    reason: str
    level_first: Leveling | None = None


@dataclass(slots=True)
class Coordinator:
    """Lands topics in tables until it is told to stop. Use it once, from one thread."""

    settings: Settings
    world: World
    stop: threading.Event
    fleet: Fleet
    pace: Pace
    tenure: Tenure
    horizon: Horizon
    _line: commit_queue.CommitLine = field(init=False)
    _desk: Desk = field(init=False)
    _lookout: Lookout = field(init=False)
    _quarantine: TableState = field(init=False)
    _isolation: Isolation = field(init=False)
    _waits: waiting.Waits = field(init=False)

    def run(self, until: Until, *, takeover: bool = False) -> Ended:
        """Claim the pipeline, recover, land, and leave all tables level.

        Raises FencedError when another owner took over, UnavailableError when engine, store or
        brokers are gone, DecisionNeededError when a topic was re-created.
        """
        self._start(takeover=takeover)
        try:
            self._recover_all()
            level_first = self._leveling()
            if level_first is None and self.horizon.given is None:
                self._write(self.fleet.adopt_rules)
            reason = "tables are not level" if level_first else self._loop(until)
            self._finish()
            self.tenure.release()
        except BaseException as error:
            code = error.code if isinstance(error, PenstockError) else "P700"
            try:
                self._tell_stopped(str(error), clean=False, code=code)
            finally:
                self._let_go()
            if isinstance(
                error, PenstockError
            ):  # nothing of ours is under way: others need not wait
                with suppress(PenstockError):
                    self.tenure.release()
            raise
        self._let_go()
        clean = not self.fleet.aside
        self._tell_stopped(reason, clean=clean)
        parked = {name: aside.error for name, aside in self.fleet.aside.items()}
        return Ended(parked, reason, level_first)

    def _let_go(self) -> None:
        self.tenure.close()
        self._line.close()

    def _start(self, *, takeover: bool) -> None:
        self._isolation = Isolation(self.world)
        self._waits = waiting.Waits(self.world.observer)
        self._quarantine = self.fleet.quarantine.state(self._any_quarantine_chain())
        self.fleet.list_topics(self.world.log.partitions())
        by_number = [replace(each, owner="") for each in fencing.claims_of_rolled_back(self.fleet)]
        self.tenure.take([*fencing.claims(self.fleet), *by_number], takeover=takeover)
        hands = self.world.hands(self.settings.commit_threads)
        self._line = commit_queue.CommitLine(self._two_phase(), hands)
        room = (self.settings, self.world, self.fleet)
        self._desk = Desk(*room, self.tenure, self._line, self.pace)
        waits = not self.horizon.stays
        self._lookout = Lookout(*room, self._desk, self.pace, self._begin, waits)

    def _any_quarantine_chain(self) -> Chain:
        return Chain(f"{self.settings.pipeline}/*", self.settings.quarantine.table)

    def _two_phase(self) -> TwoPhase:
        return TwoPhase(self.settings.pipeline, self.world.store, self.tenure.conditions)

    def _recover_all(self) -> None:
        pipeline, store = self.settings.pipeline, self.world.store
        store.keep_rules(pipeline, self.settings.rules_hash, self.settings.rules_text)
        rows = by_table(pipeline, store.pending(pipeline))
        claimed = self.tenure.claim
        self.world.observer(
            PipelineStarted(
                pipeline,
                claimed.generation,
                claimed.owner,
                len(self.fleet.tracks),
                sum(map(len, rows.values())),
            )
        )
        for name in rows:
            if name in self.fleet.tracks:
                self.fleet.unstep(name, "commits of an earlier run are settled first")
        self._waits.begin(waiting.SETTLED)
        self._retry_aside(patient=True)
        while self._line.open:
            self._absorb(TICK_SECONDS)
        self._write(partial(fencing.fence_rollbacks, self.fleet))
        if self.tenure.strange:
            self._write(self.fleet.take_over)

    def _begin(self) -> None:
        """Begin what is new; not while tables are leveled, for that is up to the present rules."""
        self._write(partial(fencing.require_rank, self.fleet))
        if self.horizon.given is None:
            self._write(self.fleet.begin)
            self._desk.anchor(route_tables.unlevel(self.fleet))
        self.fleet.follow()

    def _write(self, act: Callable[[Conditions], Given]) -> Given:
        """Act on ledgers, and again as often as we are fenced there and can claim again."""
        while True:
            try:
                return act(self.tenure.conditions)
            except FencedError as error:
                self._claim_again(error)

    def _retry_aside(self, *, patient: bool) -> None:
        """Settle what is pending for tables that are parked; they open again when it is done."""
        due = self.fleet.due(self._line.busy, patient=patient)
        if not due:
            return
        pending = self.world.store.pending(self.settings.pipeline)
        rows = by_table(self.settings.pipeline, pending)
        for name in due:
            batch = self.fleet.recovery(name, rows.get(name, []))
            if batch is not None:
                self._line.submit(batch)

    def _leveling(self) -> Leveling | None:
        """Return what must be brought level before the present rules may count."""
        if self.horizon.given is not None:
            return None
        return needed(list(self.fleet.tracks.values()), self.settings, self.world.store)

    def _loop(self, until: Until) -> str:
        self._waits.begin(waiting.LISTED)
        while not self.stop.is_set():
            self.tenure.check()
            self._absorb(0.0)
            self._retry_aside(patient=until == "stopped")
            self._anchor_quiet()
            listed = self._lookout.listed()
            if listed is None:
                self.world.clock.wait(1.0)
                continue
            ended = self._turn(until, listed)
            if ended:
                return ended
        return "asked to stop"

    def _turn(self, until: Until, listed: Mapping[TopicPartition, Bounds]) -> str:
        """Open an epoch when one is due; else wait a little. Give the reason to end, or ""."""
        self._write(partial(schema_evolution.fulfil, self.fleet))
        active = self.fleet.active
        if not active and self.fleet.aside and self._only_humans_help():
            return "every table waits for a decision"
        if not self.world.engine.is_ready(TICK_SECONDS):
            self._waits.begin(waiting.ENGINE)
            self._absorb(0.0)
            return ""
        epoch = self._plan(active, listed)
        if not epoch.slices:
            idle = not self._line.open and not self.fleet.stepping
            if until != "stopped" and idle and not self._lookout.unlisted(listed):
                return "caught up"
            self._absorb(TICK_SECONDS)
        elif any(track.waiting >= self.settings.max_epochs for track in active.values()):
            self._absorb(TICK_SECONDS)
        elif until == "stopped" and not self.pace.due(epoch):
            self._absorb(min(TICK_SECONDS, self.pace.wait_seconds()))
        elif self._epoch(epoch, listed) and until == "once":
            return "one epoch was landed"
        return ""

    def _anchor_quiet(self) -> None:
        """Move the ledgers of tables that got no rows for long (protocol.md 2)."""
        before = self.world.clock.monotonic() - self.settings.anchor_every_seconds
        active = self.fleet.active.values()
        self._desk.anchor(track for track in active if track.committed_at <= before)

    def _only_humans_help(self) -> bool:
        return all(aside.final for aside in self.fleet.aside.values())

    def _plan(self, active: Mapping[str, Track], listed: Mapping[TopicPartition, Bounds]) -> Epoch:
        ends = self.horizon.ends(listed)
        reading = (track for track in active.values() if not track.waits)
        positions = positions_of(reading, self.horizon.given)
        unborn = any(track.standing is None for track in active.values())
        budget = self.pace.budget(self.world.engine.capacity(), surveying=unborn)
        self.pace.count(positions, ends, parked=positions_of(self.fleet.parked, self.horizon.given))
        self._waits.counted(self.pace)
        epoch = plan(EpochNumber(self._desk.epoch + 1), positions, ends, budget)
        return runner.put_last(epoch, self._lookout.mute)

    def _epoch(self, epoch: Epoch, listed: Mapping[TopicPartition, Bounds]) -> bool:
        """Run one epoch; false when a part of it is to be read again."""
        world, began = self.world, self.world.clock.monotonic()
        self.pace.opened()
        self._desk.epoch = epoch.number
        self._waits.planned(epoch, self.pace)
        world.observer.reached(Point.EPOCH_PLANNED)
        tracks = self.fleet.active
        self._renew_leases()
        if any(tracks[n].standing is None for part in epoch.slices for n in _names(part)):
            if not self._give_birth(epoch, tracks):
                return False
            tracks = self.fleet.active
            epoch = runner.left_to(epoch, tracks)
            if not epoch.slices:
                return False
        self._waits.begin(f"records of epoch {epoch.number}")
        results = runner.run(
            self.settings, world, epoch, tracks, self._rejects, isolation=self._isolation
        )
        self.pace.learn(results)
        if not self._lookout.still_there(results) or not self._lookout.moved(results):
            return False
        self.tenure.check()
        found = sums(results)
        again = schema_evolution.keep(self.fleet.active, results)
        found = {name: each for name, each in found.items() if name not in again}
        for name, flood in floods(found, self.settings.stop_above_share).items():
            self.fleet.park(name, flood)
            del found[name]
        usher = route_tables.Usher(self.settings, world, self.fleet)
        routes = self._write(partial(usher.welcome, results=results))
        for route in routes:
            found.pop(route.name, None)
        self._desk.anchor(routes)
        self._desk.prepare(found, listed)
        records = sum(lane.records for result in results for lane in result.lanes)
        seconds = world.clock.monotonic() - began
        world.observer(EpochPrepared(epoch.number, records, len(found), seconds))
        return not again and not routes

    @property
    def _rejects(self) -> Destination:
        return Destination(self.settings.quarantine.connector, self._quarantine.target)

    def _renew_leases(self) -> None:
        renew_all(self.fleet.active.values())
        self._quarantine = renewed(self._quarantine)

    def _give_birth(self, epoch: Epoch, tracks: Mapping[str, Track]) -> bool:
        """Create the tables that this epoch calls for; false when a survey is to be made again.

        One that cannot be created, or surveyed, is parked.
        """
        self._waits.begin(
            f"a sample of epoch {epoch.number}, which tells the columns of new tables"
        )
        shown, results = runner.survey(
            self.settings, self.world, epoch, tracks, self._rejects, isolation=self._isolation
        )
        for name, schema in shown.items():
            table = None
            with self.fleet.parking(name, foreign_errors.CREATE):
                table = runner.give_birth(
                    self.settings, self.world, self.tenure.claim, tracks[name], schema
                )
            if table is not None:
                self._write(partial(self.fleet.born, name, table))
        failed, waiting = failures(results), silent(results)
        if failed:
            self._lookout.still_there(results)
        for name in waiting.keys() - failed.keys():
            self.fleet.park(name, runner.not_surveyed(name, waiting[name]))
        return not failed

    def _absorb(self, timeout_seconds: float) -> None:
        """Take notice of commits that ended meanwhile."""
        for outcome in self._line.take(timeout_seconds):
            name = outcome.batch.name
            track = self.fleet.tracks.get(name)
            if track is not None and not outcome.batch.recovering:
                track.waiting -= 1
            if isinstance(outcome.error, FencedError):
                self._fenced(outcome, outcome.error)
            elif outcome.error is not None:
                if outcome.batch.recovering or name not in self.fleet.aside:
                    self.fleet.park(name, outcome.error)
            elif outcome.batch.recovering:
                if outcome.landings and all(landing.landed for landing in outcome.landings):
                    self.fleet.landed(name)
                self._write(partial(self.fleet.recovered, name))
            elif not all(landing.landed for landing in outcome.landings):
                self.fleet.turned_away(name, outcome.landings[-1].reason)
            else:
                self.fleet.landed(name)

    def _fenced(self, outcome: commit_queue.Outcome, error: FencedError) -> None:
        """Claim again, unless that was done since this commit was tried for another table's."""
        name = outcome.batch.name
        if outcome.claim == self.tenure.claim:
            self._claim_again(error)
        self.fleet.unstep(name, error.message)

    def _claim_again(self, error: FencedError) -> None:
        self.tenure.again(fencing.claims_now(self.fleet), error)
        self._line.follow(self._two_phase())
        for name in self.fleet.active:
            self.fleet.unstep(name, error.message)
        self.fleet.take_over(self.tenure.conditions)

    def _finish(self) -> None:
        """Let commits end, and leave every table level with what was examined."""
        self.world.observer.reached(Point.STOPPING)
        self._drain()
        self._desk.anchor(self.fleet.active.values())
        self._drain()

    def _drain(self) -> None:
        while self._line.open:
            self.tenure.check()
            self._absorb(TICK_SECONDS)

    def _tell_stopped(self, reason: str, *, clean: bool, code: str = "") -> None:
        self.world.observer(PipelineStopped(self.settings.pipeline, reason, clean, code))


def _names(part: Slice) -> list[str]:
    return [name for lane in part.lanes for name in lane.tables]


def coordinate(
    settings: Settings,
    world: World,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool = False,
    ends: Positions | None = None,
) -> Ended:
    """Run one pipeline. `ends` bounds what is read, for leveling tables under former rules.

    Raises what `Coordinator.run` raises.
    """
    fleet = Fleet(settings, world, opening.open_quarantine(settings, world))
    pace = Pace(settings, world.clock)
    tenure = Tenure(settings, world)
    horizon = Horizon(ends, stays=until != "stopped")
    coordinator = Coordinator(settings, world, stop, fleet, pace, tenure, horizon)
    return coordinator.run(until, takeover=takeover)
