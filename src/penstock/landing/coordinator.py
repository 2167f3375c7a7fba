"""The coordinator: plan → work → prepare → commit, over and over, each epoch as plain data.

Invariants:
- truth is in the tables: everything here can be lost at any moment and is found again by opening;
- the next epoch is planned only when the last one is in the pending store;
- this thread alone changes tracks and talks to the engine; commits run beside it and report back.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.commit.once import Conditions
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Chain, Claim, Committable, EpochNumber, Generation
from penstock.core.errors import (
    DecisionNeededError,
    FencedError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.events import (
    CoordinatorFenced,
    EpochPlanned,
    EpochPrepared,
    FilesWritten,
    PartitionStalled,
    PipelineStarted,
    PipelineStopped,
    RecordsQuarantined,
)
from penstock.core.offsets import Positions, TopicPartition, stops
from penstock.core.planning import Bounds, Epoch, Slice, plan
from penstock.core.points import Point
from penstock.landing import epochs, opening
from penstock.landing.adding_up import TableSum, failures, require_few_rejects, sums
from penstock.landing.committing import Batch, CommitLine, Outcome
from penstock.landing.fleet import Fleet, by_table, positions_of
from penstock.landing.jobs import Destination
from penstock.landing.leveling import Leveling, needed
from penstock.landing.ownership import Heartbeat, claim
from penstock.landing.pace import Pace
from penstock.landing.settings import Settings, Until, World
from penstock.landing.tracks import (
    Issue,
    Track,
    advance,
    anchor_for,
    commits_for,
    gap_for,
    watch_through,
)
from penstock.ports.tables import Table

BROKER_PATIENCE_SECONDS = 120.0
TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: the tables that stand aside with their reasons, and why it stopped."""

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
    ends: Positions | None = None
    _claim: Claim = field(default_factory=lambda: Claim(Generation(0), ""))
    _line: CommitLine = field(init=False)
    _beat: Heartbeat = field(init=False)
    _quarantine: Destination = field(init=False)
    _number: int = 0
    _reclaimed: bool = False
    _silent_since: float | None = None

    def run(self, until: Until, *, takeover: bool = False) -> Ended:
        """Claim the pipeline, recover, land, and leave all tables level.

        Raises FencedError when another owner took over, UnavailableError when engine, store or
        brokers are gone, DecisionNeededError when a topic was re-created.
        """
        self._start(takeover=takeover)
        try:
            self._recover_all()
            level_first = self._leveling()
            reason = "tables are not level" if level_first else self._loop(until)
            self._finish()
            self.world.store.release(self.settings.pipeline, self._claim)
        except BaseException as error:
            code = error.code if isinstance(error, PenstockError) else "P700"
            self._tell_stopped(str(error), clean=False, code=code)
            raise
        finally:
            self._beat.stop()
            self._line.close()
        clean = not self.fleet.aside
        self._tell_stopped(reason, clean=clean)
        parked = {name: aside.error for name, aside in self.fleet.aside.items()}
        return Ended(parked, reason, level_first)

    def _start(self, *, takeover: bool) -> None:
        state = self.fleet.quarantine.state(self._any_quarantine_chain())
        self._quarantine = Destination(self.settings.quarantine.connector, state.target)
        self.fleet.list_topics(self.world.log.partitions())
        above = self.fleet.generation()
        self._claim = claim(self.settings, self.world, above=above, takeover=takeover)
        self._line = CommitLine(self._two_phase(), self.settings.commit_threads)
        self._beat = Heartbeat(self.settings, self.world, self._claim)
        self._beat.start()

    def _any_quarantine_chain(self) -> Chain:
        return Chain(f"{self.settings.pipeline}/*", self.settings.quarantine.table)

    def _conditions(self) -> Conditions:
        world = self.world
        return Conditions(
            self._claim, world.observer, world.clock, world.jitter, self.settings.retain
        )

    def _two_phase(self) -> TwoPhase:
        return TwoPhase(self.settings.pipeline, self.world.store, self._conditions())

    def _recover_all(self) -> None:
        pipeline, store = self.settings.pipeline, self.world.store
        store.keep_rules(pipeline, self.settings.rules_hash, self.settings.rules_text)
        rows = by_table(pipeline, store.pending(pipeline))
        claimed = self._claim
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
        self._retry_aside()
        while self._line.open:
            self._absorb(TICK_SECONDS)
        self.fleet.begin(self._conditions())

    def _retry_aside(self) -> None:
        """Settle what is pending for tables that stand aside; they open again when it is done."""
        due = self.fleet.due(self._line.busy)
        if not due:
            return
        pending = self.world.store.pending(self.settings.pipeline)
        rows = by_table(self.settings.pipeline, pending)
        for name in due:
            batch = self.fleet.recovery(name, rows.get(name, []))
            if batch is not None:
                self._line.submit(batch)

    def _leveling(self) -> Leveling | None:
        """Tell what must be brought level before the present rules may count."""
        if self.ends is not None or "rules" in self.settings.accept:
            return None
        tracks = list(self.fleet.tracks.values())
        return needed(tracks, self.settings.rules_hash)

    def _loop(self, until: Until) -> str:
        while not self.stop.is_set():
            self._beat.check()
            self._absorb(0.0)
            self._retry_aside()
            listed = self._listed()
            if listed is None:
                self.world.clock.wait(1.0)
                continue
            ended = self._turn(until, listed)
            if ended:
                return ended
        return "asked to stop"

    def _turn(self, until: Until, listed: Mapping[TopicPartition, Bounds]) -> str:
        """Open an epoch when one is due; else wait a little. Give the reason to end, or ""."""
        active = self.fleet.active
        if not active and self.fleet.aside and self._only_humans_help():
            return "every table waits for a decision"
        epoch = self._plan(active, listed)
        if not epoch.slices:
            if until != "stopped" and not self._line.open and not self.fleet.stepping:
                return "caught up"
            self._absorb(TICK_SECONDS)
        elif any(track.waiting >= self.settings.max_epochs for track in active.values()):
            self._absorb(TICK_SECONDS)
        elif until == "stopped" and not self.pace.due(epoch):
            self._absorb(min(TICK_SECONDS, self.pace.wait_seconds()))
        else:
            self._epoch(epoch, listed)
            if until == "once":
                return "one epoch was landed"
        return ""

    def _only_humans_help(self) -> bool:
        return all(aside.final for aside in self.fleet.aside.values())

    def _listed(self) -> Mapping[TopicPartition, Bounds] | None:
        """List topics and bounds; None while no broker answers. Raises when that lasts."""
        now = self.world.clock.monotonic()
        try:
            listing = self.world.log.partitions()
            self.fleet.list_topics(listing)
            self.fleet.begin(self._conditions())
            self.pace.listed_at_ms = self.world.clock.now_ms()
            bounds = self.world.log.bounds(listing)
        except UnavailableError as error:
            self._silent_since = now if self._silent_since is None else self._silent_since
            if now - self._silent_since > BROKER_PATIENCE_SECONDS:
                raise
            self.world.observer(PartitionStalled("all", error.message))
            return None
        self._silent_since = None
        for name, track in self.fleet.active.items():
            found = opening.overtaken(track, bounds)
            if found is not None:
                self._overtaken(name, track, bounds, found)
        return bounds

    def _overtaken(
        self,
        name: str,
        track: Track,
        bounds: Mapping[TopicPartition, Bounds],
        error: DecisionNeededError,
    ) -> None:
        if "gap" not in self.settings.accept or error.code != opening.RETENTION:
            self.fleet.park(name, error)
            return
        found = gap_for(track, bounds)
        self._prepare({name: found}, bounds, gap=True)

    def _plan(self, active: Mapping[str, Track], listed: Mapping[TopicPartition, Bounds]) -> Epoch:
        ends = {at: bounds.stop for at, bounds in listed.items()}
        if self.ends is not None:
            ends = {at: min(end, self.ends[at]) for at, end in ends.items() if at in self.ends}
        positions = positions_of(active.values(), self.ends)
        budget = self.pace.budget(self.world.engine.capacity())
        self.pace.lag = opening.lag_of(positions, ends)
        self.pace.behind = opening.behind(positions, ends)
        return plan(EpochNumber(self._number + 1), positions, ends, budget)

    def _epoch(self, epoch: Epoch, listed: Mapping[TopicPartition, Bounds]) -> None:
        world, began = self.world, self.world.clock.monotonic()
        self.pace.opened()
        self._number = epoch.number
        slices = len(epoch.slices)
        lag, behind = dict(self.pace.lag), dict(self.pace.behind)
        world.observer(EpochPlanned(epoch.number, slices, epoch.records, lag, behind))
        world.observer.reached(Point.EPOCH_PLANNED)
        tracks = self.fleet.active
        if any(tracks[n].standing is None for part in epoch.slices for n in _names(part)):
            self._give_birth(epoch, tracks)
        results = epochs.run(self.settings, world, epoch, tracks, self._quarantine)
        self.pace.learn(results)
        self.fleet.list_topics(world.log.partitions())  # a topic re-created meanwhile: stop here
        for name, error in failures(results).items():
            self.fleet.park(name, error)
        self._beat.check()
        found = sums(results)
        require_few_rejects(found, self.settings.stop_above_share)
        self._prepare(found, listed)
        records = sum(lane.records for result in results for lane in result.lanes)
        seconds = world.clock.monotonic() - began
        world.observer(EpochPrepared(epoch.number, records, len(found), seconds))

    def _give_birth(self, epoch: Epoch, tracks: Mapping[str, Track]) -> None:
        """Create the tables that this epoch calls for. One that cannot be created stands aside."""
        shown = epochs.survey(self.settings, self.world, epoch, tracks, self._quarantine)
        for name, schema in shown.items():
            try:
                table = epochs.give_birth(
                    self.settings, self.world, self._claim, tracks[name], schema
                )
            except (UnavailableError, InvalidError) as error:
                self.fleet.park(name, error)
                continue
            self.fleet.born(name, table)

    def _prepare(
        self,
        found: Mapping[str, TableSum],
        listed: Mapping[TopicPartition, Bounds],
        *,
        gap: bool = False,
    ) -> None:
        """Put an epoch's commits into the pending store in one act, then let them be committed."""
        issue = self._issue()
        made: dict[str, list[Committable]] = {}
        for name, track in self.fleet.active.items():
            if name not in found:
                continue
            watch_through(track, found[name], listed, self.pace.listed_at_ms)
            made[name] = commits_for(track, found[name], issue)
            advance(track, made[name], found[name])
            self._tell(issue.epoch, name, found[name])
            if gap and track.trailing:
                made[name] = self._anchors(track, issue)
        self._put(made)

    def _anchors(self, track: Track, issue: Issue) -> list[Committable]:
        anchor = anchor_for(track, issue)
        assert track.standing is not None, "only a table can be anchored"
        track.standing.expected = {**track.standing.expected, **stops(anchor.progress)}
        track.waiting += 1
        return [anchor]

    def _put(self, made: Mapping[str, list[Committable]]) -> None:
        observer = self.world.observer
        commits = [commit for each in made.values() for commit in each]
        observer.reached(Point.PREPARE_BEFORE)
        self.world.store.prepare(
            self.settings.pipeline, self._claim, commits, self.fleet.examined()
        )
        observer.reached(Point.PREPARE_AFTER)
        for name, each in made.items():
            if each:
                self._line.submit(Batch(name, tuple((c, self._table_of(name, c)) for c in each)))

    def _table_of(self, name: str, commit: Committable) -> Table:
        track = self.fleet.tracks[name]
        standing = track.rejects if commit.chain.is_quarantine else track.standing
        assert standing is not None, "a commit has a table"
        return standing.table

    def _issue(self) -> Issue:
        return Issue(
            self._claim,
            self.world.log.cluster_id(),
            EpochNumber(self._number),
            self.settings.rules_hash,
            self.world.token(),
        )

    def _tell(self, epoch: int, name: str, found: TableSum) -> None:
        total = found.total
        if total.quarantined_total:
            self.world.observer(RecordsQuarantined(epoch, name, dict(total.quarantined)))
        if found.files:
            size = sum(file.size_bytes for file in found.files)
            self.world.observer(FilesWritten(epoch, name, len(found.files), total.landed, size))

    def _absorb(self, timeout_seconds: float) -> None:
        """Take notice of commits that ended meanwhile."""
        for outcome in self._line.take(timeout_seconds):
            name = outcome.batch.name
            track = self.fleet.tracks.get(name)
            if track is not None and not outcome.batch.recovering:
                track.waiting -= 1
            if isinstance(outcome.error, FencedError):
                self._fenced(outcome)
            elif outcome.error is not None:
                if outcome.batch.recovering or name not in self.fleet.aside:
                    self.fleet.park(name, outcome.error)
            elif outcome.batch.recovering:
                self.fleet.recovered(name)
                self.fleet.begin(self._conditions())
            elif not all(landing.landed for landing in outcome.landings):
                self.fleet.unstep(name, outcome.landings[-1].reason)
            elif track is not None:
                track.committed_at = self.world.clock.monotonic()

    def _fenced(self, outcome: Outcome) -> None:
        """Claim again once when our own store still says that we are the owner (protocol.md 3)."""
        error = outcome.error
        assert error is not None, "a fence is an error"
        held = self.world.store.holding(self.settings.pipeline)
        mine = held is not None and held.claim == self._claim
        if self._reclaimed or not mine:
            by = held.claim if held is not None else self._claim
            self.world.observer(CoordinatorFenced(self._claim.generation, by.generation, by.owner))
            raise error
        self._reclaimed = True
        self.fleet.unstep(outcome.batch.name, error.message)
        above = max(self.fleet.generation_in(outcome.batch.name), self._claim.generation)
        self._claim = claim(self.settings, self.world, above=above, takeover=False)
        self._beat.claim = self._claim
        self._line.follow(self._two_phase())

    def _finish(self) -> None:
        """Let commits end, and leave every table level with what was examined."""
        self.world.observer.reached(Point.STOPPING)
        self._drain()
        issue = self._issue()
        trailing = [track for track in self.fleet.active.values() if track.trailing]
        if trailing:
            self._put({track.name: self._anchors(track, issue) for track in trailing})
            self._drain()

    def _drain(self) -> None:
        while self._line.open:
            self._beat.check()
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
    return Coordinator(settings, world, stop, fleet, pace, ends).run(until, takeover=takeover)
