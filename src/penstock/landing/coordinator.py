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

from penstock.commit.land import CommitContext
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Chain, EpochNumber
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import FencedError, PenstockError
from penstock.core.events import EpochPrepared, PipelineStarted, PipelineStopped
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds, Epoch, Slice, plan
from penstock.landing import waiting
from penstock.landing.epoch import commit_queue, runner
from penstock.landing.epoch.partition_discovery import PartitionDiscovery
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.prepare import Preparer
from penstock.landing.epoch.stopping_offsets import StoppingOffsets
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.ownership import fencing
from penstock.landing.ownership.claim import PipelineClaim
from penstock.landing.settings import Environment, Settings, Until
from penstock.landing.tables import foreign_errors, route_tables, schema_evolution
from penstock.landing.tables.credentials import renew_all, renewed
from penstock.landing.tables.progress import TableProgress, by_table, positions_of
from penstock.landing.tables.spec_change import CatchUp, catch_up_needed
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import WriteTarget
from penstock.landing.task.results import (
    aggregate,
    failures,
    tables_over_reject_limit,
    unresponsive_partitions,
)
from penstock.ports.tables import TableState

TICK_SECONDS = 0.2
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the tables that are parked with their reasons, and why it stopped."""

    parked: Mapping[str, PenstockError]
    reason: str
    catch_up_first: CatchUp | None = None


@dataclass(slots=True)
class Coordinator:
    """Lands topics in tables until it is told to stop. Use it once, from one thread."""

    settings: Settings
    environment: Environment
    stop: threading.Event
    tables: TableSet
    trigger: EpochTrigger
    ownership: PipelineClaim
    stopping_offsets: StoppingOffsets
    _commits: commit_queue.CommitQueue = field(init=False)
    _preparer: Preparer = field(init=False)
    _discovery: PartitionDiscovery = field(init=False)
    _quarantine: TableState = field(init=False)
    _isolation: PoisonIsolation = field(init=False)
    _waits: waiting.Waits = field(init=False)

    def run(self, until: Until, *, takeover: bool = False) -> RunResult:
        """Claim the pipeline, recover, land, and leave all tables level.

        Raises FencedError when another owner took over, UnavailableError when engine, store or
        brokers are gone, DecisionNeededError when a topic was re-created.
        """
        self._start(takeover=takeover)
        try:
            self._recover_all()
            level_first = self._catch_up()
            if level_first is None and self.stopping_offsets.fixed is None:
                self._write(self.tables.adopt_rules)
            reason = "tables are not level" if level_first else self._loop(until)
            self._finish()
            self.ownership.release()
        except BaseException as error:
            code = error.code if isinstance(error, PenstockError) else "P700"
            try:
                self._report_stopped(str(error), clean=False, code=code)
            finally:
                self._shut_down()
            if isinstance(
                error, PenstockError
            ):  # nothing of ours is under way: others need not wait
                with suppress(PenstockError):
                    self.ownership.release()
            raise
        self._shut_down()
        clean = not self.tables.parked
        self._report_stopped(reason, clean=clean)
        parked = {name: aside.error for name, aside in self.tables.parked.items()}
        return RunResult(parked, reason, level_first)

    def _shut_down(self) -> None:
        self.ownership.close()
        self._commits.close()

    def _start(self, *, takeover: bool) -> None:
        self._isolation = PoisonIsolation(self.environment)
        self._waits = waiting.Waits(self.environment.observer)
        self._quarantine = self.tables.quarantine.state(self._any_quarantine_chain())
        self.tables.list_topics(self.environment.log.partitions())
        by_number = [replace(each, owner="") for each in fencing.claims_of_rolled_back(self.tables)]
        self.ownership.acquire([*fencing.last_claims(self.tables), *by_number], takeover=takeover)
        hands = self.environment.commit_executor(self.settings.commit_threads)
        self._commits = commit_queue.CommitQueue(self._two_phase(), hands)
        room = (self.settings, self.environment, self.tables)
        self._preparer = Preparer(*room, self.ownership, self._commits, self.trigger)
        waits = not self.stopping_offsets.keep_first
        self._discovery = PartitionDiscovery(
            *room, self._preparer, self.trigger, self._begin, waits
        )

    def _any_quarantine_chain(self) -> Chain:
        return Chain(f"{self.settings.pipeline}/*", self.settings.quarantine.table)

    def _two_phase(self) -> TwoPhase:
        return TwoPhase(self.settings.pipeline, self.environment.store, self.ownership.conditions)

    def _recover_all(self) -> None:
        pipeline, store = self.settings.pipeline, self.environment.store
        store.keep_rules(pipeline, self.settings.rules_hash, self.settings.rules_text)
        rows = by_table(pipeline, store.pending(pipeline))
        claimed = self.ownership.claim
        self.environment.observer(
            PipelineStarted(
                pipeline,
                claimed.generation,
                claimed.owner,
                len(self.tables.tracks),
                sum(map(len, rows.values())),
            )
        )
        for name in rows:
            if name in self.tables.tracks:
                self.tables.reopen(name, "commits of an earlier run are settled first")
        self._waits.begin(waiting.SETTLED)
        self._retry_parked(patient=True)
        while self._commits.open:
            self._collect_outcomes(TICK_SECONDS)
        self._write(partial(fencing.fence_rollbacks, self.tables))
        if self.ownership.foreign:
            self._write(self.tables.take_over)

    def _begin(self) -> None:
        """Begin what is new; not while tables are leveled, for that is up to the present rules."""
        self._write(partial(fencing.check_rank, self.tables))
        if self.stopping_offsets.fixed is None:
            self._write(self.tables.write_start_positions)
            self._preparer.anchor(route_tables.routes_behind(self.tables))
        self.tables.assign_partitions()

    def _write(self, act: Callable[[CommitContext], Given]) -> Given:
        """Act on ledgers, and again as often as we are fenced there and can claim again."""
        while True:
            try:
                return act(self.ownership.conditions)
            except FencedError as error:
                self._claim_again(error)

    def _retry_parked(self, *, patient: bool) -> None:
        """Settle what is pending for tables that are parked; they open again when it is done."""
        due = self.tables.due_for_retry(self._commits.busy, patient=patient)
        if not due:
            return
        pending = self.environment.store.pending(self.settings.pipeline)
        rows = by_table(self.settings.pipeline, pending)
        for name in due:
            batch = self.tables.recovery_work(name, rows.get(name, []))
            if batch is not None:
                self._commits.submit(batch)

    def _catch_up(self) -> CatchUp | None:
        """Return what must be brought level before the present rules may count."""
        if self.stopping_offsets.fixed is not None:
            return None
        return catch_up_needed(
            list(self.tables.tracks.values()), self.settings, self.environment.store
        )

    def _loop(self, until: Until) -> str:
        self._waits.begin(waiting.LISTED)
        while not self.stop.is_set():
            self.ownership.check()
            self._collect_outcomes(0.0)
            self._retry_parked(patient=until == "stopped")
            self._anchor_idle()
            listed = self._discovery.poll()
            if listed is None:
                self.environment.clock.wait(1.0)
                continue
            ended = self._step(until, listed)
            if ended:
                return ended
        return "asked to stop"

    def _step(self, until: Until, listed: Mapping[TopicPartition, Bounds]) -> str:
        """Open an epoch when one is due; else wait a little. Give the reason to end, or ""."""
        self._write(partial(schema_evolution.apply_requests, self.tables))
        active = self.tables.active
        if not active and self.tables.parked and self._all_parked_for_good():
            return "every table waits for a decision"
        if not self.environment.engine.is_ready(TICK_SECONDS):
            self._waits.begin(waiting.ENGINE)
            self._collect_outcomes(0.0)
            return ""
        epoch = self._plan(active, listed)
        if not epoch.slices:
            idle = not self._commits.open and not self.tables.reopening
            if until != "stopped" and idle and not self._discovery.leaderless(listed):
                return "caught up"
            self._collect_outcomes(TICK_SECONDS)
        elif any(track.commits_in_flight >= self.settings.max_epochs for track in active.values()):
            self._collect_outcomes(TICK_SECONDS)
        elif until == "stopped" and not self.trigger.should_fire(epoch):
            self._collect_outcomes(min(TICK_SECONDS, self.trigger.wait_seconds()))
        elif self._epoch(epoch, listed) and until == "once":
            return "one epoch was landed"
        return ""

    def _anchor_idle(self) -> None:
        """Move the ledgers of tables that got no rows for long (protocol.md 2)."""
        before = self.environment.clock.monotonic() - self.settings.anchor_every_seconds
        active = self.tables.active.values()
        self._preparer.anchor(track for track in active if track.committed_at <= before)

    def _all_parked_for_good(self) -> bool:
        return all(aside.needs_decision for aside in self.tables.parked.values())

    def _plan(
        self, active: Mapping[str, TableProgress], listed: Mapping[TopicPartition, Bounds]
    ) -> Epoch:
        ends = self.stopping_offsets.ends(listed)
        reading = (track for track in active.values() if not track.is_blocked)
        positions = positions_of(reading, self.stopping_offsets.fixed)
        unborn = any(track.position is None for track in active.values())
        budget = self.trigger.budget(self.environment.engine.capacity(), surveying=unborn)
        self.trigger.count(
            positions,
            ends,
            parked=positions_of(self.tables.parked_tables, self.stopping_offsets.fixed),
        )
        self._waits.counted(self.trigger)
        epoch = plan(EpochNumber(self._preparer.epoch + 1), positions, ends, budget)
        return runner.deprioritize(epoch, self._discovery.unresponsive)

    def _epoch(self, epoch: Epoch, listed: Mapping[TopicPartition, Bounds]) -> bool:
        """Run one epoch; false when a part of it is to be read again."""
        world, began = self.environment, self.environment.clock.monotonic()
        self.trigger.started()
        self._preparer.epoch = epoch.number
        self._waits.planned(epoch, self.trigger)
        world.observer.passed(CrashPoint.EPOCH_PLANNED)
        tracks = self.tables.active
        self._renew_credentials()
        if any(tracks[n].position is None for part in epoch.slices for n in _names(part)):
            if not self._create_tables(epoch, tracks):
                return False
            tracks = self.tables.active
            epoch = runner.restrict_to(epoch, tracks)
            if not epoch.slices:
                return False
        self._waits.begin(f"records of epoch {epoch.number}")
        results = runner.run_epoch(
            self.settings, world, epoch, tracks, self._rejects, isolation=self._isolation
        )
        self.trigger.observe_sizes(results)
        if not self._discovery.recheck_failed(results) or not self._discovery.made_progress(
            results
        ):
            return False
        self.ownership.check()
        found = aggregate(results)
        again = schema_evolution.record_requests(self.tables.active, results)
        found = {name: each for name, each in found.items() if name not in again}
        for name, flood in tables_over_reject_limit(found, self.settings.stop_above_share).items():
            self.tables.park(name, flood)
            del found[name]
        usher = route_tables.RouteTableCreator(self.settings, world, self.tables)
        routes = self._write(partial(usher.create_requested, results=results))
        for route in routes:
            found.pop(route.name, None)
        self._preparer.anchor(routes)
        self._preparer.prepare(found, listed)
        records = sum(lane.records for result in results for lane in result.lanes)
        seconds = world.clock.monotonic() - began
        world.observer(EpochPrepared(epoch.number, records, len(found), seconds))
        return not again and not routes

    @property
    def _rejects(self) -> WriteTarget:
        return WriteTarget(self.settings.quarantine.connector, self._quarantine.target)

    def _renew_credentials(self) -> None:
        renew_all(self.tables.active.values())
        self._quarantine = renewed(self._quarantine)

    def _create_tables(self, epoch: Epoch, tracks: Mapping[str, TableProgress]) -> bool:
        """Create the tables that this epoch calls for; false when a survey is to be made again.

        One that cannot be created, or surveyed, is parked.
        """
        self._waits.begin(
            f"a sample of epoch {epoch.number}, which tells the columns of new tables"
        )
        shown, results = runner.infer_schemas(
            self.settings, self.environment, epoch, tracks, self._rejects, isolation=self._isolation
        )
        for name, schema in shown.items():
            table = None
            with self.tables.parking(name, foreign_errors.CREATE):
                table = runner.create_table_for(
                    self.settings, self.environment, self.ownership.claim, tracks[name], schema
                )
            if table is not None:
                self._write(partial(self.tables.table_created, name, table))
        failed, waiting = failures(results), unresponsive_partitions(results)
        if failed:
            self._discovery.recheck_failed(results)
        for name in waiting.keys() - failed.keys():
            self.tables.park(name, runner.not_surveyed(name, waiting[name]))
        return not failed

    def _collect_outcomes(self, timeout_seconds: float) -> None:
        """Take notice of commits that ended meanwhile."""
        for outcome in self._commits.take(timeout_seconds):
            name = outcome.batch.name
            track = self.tables.tracks.get(name)
            if track is not None and not outcome.batch.recovering:
                track.commits_in_flight -= 1
            if isinstance(outcome.error, FencedError):
                self._fenced(outcome, outcome.error)
            elif outcome.error is not None:
                if outcome.batch.recovering or name not in self.tables.parked:
                    self.tables.park(name, outcome.error)
            elif outcome.batch.recovering:
                if outcome.landings and all(landing.landed for landing in outcome.landings):
                    self.tables.commit_succeeded(name)
                self._write(partial(self.tables.recovered, name))
            elif not all(landing.landed for landing in outcome.landings):
                self.tables.commit_rejected(name, outcome.landings[-1].reason)
            else:
                self.tables.commit_succeeded(name)

    def _fenced(self, outcome: commit_queue.Outcome, error: FencedError) -> None:
        """Claim again, unless that was done since this commit was tried for another table's."""
        name = outcome.batch.name
        if outcome.claim == self.ownership.claim:
            self._claim_again(error)
        self.tables.reopen(name, error.message)

    def _claim_again(self, error: FencedError) -> None:
        self.ownership.reacquire(fencing.read_claims(self.tables), error)
        self._commits.switch_claim(self._two_phase())
        for name in self.tables.active:
            self.tables.reopen(name, error.message)
        self.tables.take_over(self.ownership.conditions)

    def _finish(self) -> None:
        """Let commits end, and leave every table level with what was examined."""
        self.environment.observer.passed(CrashPoint.STOPPING)
        self._drain()
        self._preparer.anchor(self.tables.active.values())
        self._drain()

    def _drain(self) -> None:
        while self._commits.open:
            self.ownership.check()
            self._collect_outcomes(TICK_SECONDS)

    def _report_stopped(self, reason: str, *, clean: bool, code: str = "") -> None:
        self.environment.observer(PipelineStopped(self.settings.pipeline, reason, clean, code))


def _names(part: Slice) -> list[str]:
    return [name for lane in part.lanes for name in lane.tables]
