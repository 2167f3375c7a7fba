"""The coordinator: plan → work → prepare → commit, over and over, each epoch as plain data.

Invariants:
- truth is in the tables: everything here can be lost at any moment and is found again by opening;
- the next epoch is planned only when the last one is in the pending store;
- this thread alone changes the progress of tables and talks to the engine; commits run in
  the background and report back.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from penstock.core.commits import EpochNumber
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.core.events import ASKED, EpochPrepared, PipelineStarted, PipelineStopped
from penstock.core.planning import Epoch, plan
from penstock.landing import waiting
from penstock.landing.epoch import runner
from penstock.landing.epoch.committer import Committer
from penstock.landing.epoch.partition_discovery import PartitionDiscovery
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.prepare import Listing, Preparer
from penstock.landing.epoch.runner import EpochRunner
from penstock.landing.epoch.trigger import EpochTrigger, StoppingOffsets
from penstock.landing.foreign_errors import CREATE
from penstock.landing.settings import Until
from penstock.landing.tables import route_creation, schema_evolution
from penstock.landing.tables.credentials import renewed
from penstock.landing.tables.progress import by_table, positions_of, up_to_growths
from penstock.landing.tables.spec_change import CatchUp, catch_up_needed
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult, WriteTarget
from penstock.landing.task.results import (
    aggregate,
    failures,
    tables_over_reject_limit,
    unresponsive_partitions,
)
from penstock.ownership import fencing
from penstock.ports.tables import TableState

TICK_SECONDS = 0.2
CAUGHT_UP = "caught up"


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the tables that are parked with their reasons, and why it stopped."""

    parked: Mapping[str, PenstockError]
    reason: str
    catch_up_first: CatchUp | None = None


@dataclass(slots=True)
class Coordinator:
    """Lands topics in tables until it is asked to stop. Use it once, from one thread.

    An epoch is planned (`_plan`), read by the engine (`_work`) and prepared (`_prepare`); `commits`
    lands it while the next one is read.
    """

    tables: TableSet
    stop: threading.Event
    commits: Committer
    preparer: Preparer
    discovery: PartitionDiscovery
    trigger: EpochTrigger
    stopping_offsets: StoppingOffsets
    isolation: PoisonIsolation
    waits: waiting.Waits
    quarantine: TableState

    def land(self, until: Until) -> RunResult:
        """Recover, land, and leave all tables level.

        Raises FencedError when another owner took over, UnavailableError when engine, store or
        brokers do not answer, DecisionNeededError when a topic was re-created.
        """
        pipeline = self.tables.settings.pipeline
        try:
            self._recover()
            catch_up = None
            if self.stopping_offsets.fixed is None:  # else these are the former rules
                tables, store = self.tables, self.tables.environment.store
                catch_up = catch_up_needed([*tables.progress.values()], tables.settings, store)
                if catch_up is None:
                    self.commits.write(tables.adopt_spec)
            reason = "tables are not level" if catch_up else self._loop(until)
            self._finish()
            self.commits.claim.release()
        except BaseException as error:
            code = error.code if isinstance(error, PenstockError) else "P700"
            try:
                self.tables.environment.observer(
                    PipelineStopped(pipeline, str(error), clean=False, code=code)
                )
            finally:
                self._shut_down()
            if isinstance(error, PenstockError):  # nothing is under way: others need not wait
                with suppress(PenstockError):
                    self.commits.claim.release()
            raise
        self._shut_down()
        parked = {name: each.error for name, each in self.tables.parked.items()}
        described = self._described(reason) if parked else reason
        self.tables.environment.observer(PipelineStopped(pipeline, described, clean=not parked))
        return RunResult(parked, reason, catch_up)

    def _described(self, reason: str) -> str:
        """Return why a run ended, for people, with how many tables are parked."""
        parked = self.tables.parked.keys()
        known = len(parked | self.tables.progress.keys())
        tables, verb = "table" if known == 1 else "tables", "is" if len(parked) == 1 else "are"
        text = f"{len(parked)} of {known} {tables} {verb} parked"
        return text if reason == CAUGHT_UP else f"{reason}; {text}"

    def _loop(self, until: Until) -> str:
        self.waits.begin(waiting.LISTED)
        while not self.stop.is_set():
            self.commits.claim.check()
            self.commits.collect(0.0)
            self.commits.stop_sick()
            self.trigger.every_seconds = self.commits.hold.every_seconds
            self.commits.retry_parked(patient=until == "stopped")
            self._anchor_idle()
            listing = self.discovery.poll(self._begin)
            if listing is None:
                self.tables.environment.clock.wait(1.0)
                continue
            ended = self._step(until, listing)
            if ended:
                return ended
        return ASKED

    def _step(self, until: Until, listing: Listing) -> str:
        """Plan an epoch and land it when it is due; else wait a little, and collect what commits
        came to. Return the reason to end, or "".
        """
        tables = self.tables
        self.commits.write(partial(schema_evolution.apply_requests, tables))
        if (
            not tables.active
            and tables.parked
            and all(each.needs_decision for each in tables.parked.values())
        ):
            return "every table waits for a decision"
        if not self.tables.environment.engine.is_ready(TICK_SECONDS):
            self.waits.begin(waiting.ENGINE)
            self.commits.collect(0.0)
            return ""
        epoch = self._plan(listing)
        if not epoch.slices:
            idle = not self.commits.queue.open and not tables.parked.reopening
            if until != "stopped" and idle and not self.discovery.leaderless(listing):
                return CAUGHT_UP
            self.commits.collect(TICK_SECONDS)
        elif self._full - self.commits.queue.held:
            self.commits.collect(TICK_SECONDS)
        elif until == "stopped" and not self.trigger.should_fire(epoch):
            self.commits.collect(min(TICK_SECONDS, self.trigger.wait_seconds()))
        elif self._land(epoch, listing) and until == "once":
            return "one epoch was landed"
        return ""

    def _land(self, epoch: Epoch, listing: Listing) -> bool:
        """Land one epoch; false when a part of it is to be read again."""
        clock = self.tables.environment.clock
        began = clock.monotonic()
        results = self._work(epoch)
        if results is None or not self.discovery.recheck_failed(results):
            return False
        if not self.discovery.made_progress(results):
            return False
        self.commits.claim.check()
        prepared, again = self._prepare(results, listing)
        records = sum(lane.records for result in results for lane in result.lanes)
        seconds = clock.monotonic() - began
        self.tables.environment.observer(EpochPrepared(epoch.number, records, prepared, seconds))
        return not again

    def _plan(self, listing: Listing) -> Epoch:
        tables, fixed = self.tables, self.stopping_offsets.fixed
        waiting_for_pause = self._full & self.commits.queue.held
        active = [each for name, each in tables.active.items() if name not in waiting_for_pause]
        ends = self.stopping_offsets.ends(listing.bounds)
        positions = positions_of((each for each in active if not each.is_blocked), fixed)
        creating = any(table.position is None for table in active)
        capacity = self.tables.environment.engine.capacity()
        budget = self.trigger.budget(capacity, surveying=creating)
        left_out = waiting_for_pause.union(tables.parked) & tables.progress.keys()
        known = [tables.progress[name] for name in left_out]
        parked = positions_of(known, fixed)
        self.waits.counted(waiting.backlog_of(positions, ends, parked=parked))
        readable, stops = up_to_growths(positions, active, listing.bounds)
        for at, offsets in self.discovery.stops.items():
            stops.setdefault(at, set()).update(offsets)
        epoch = plan(EpochNumber(self.preparer.epoch + 1), readable, ends, budget, stops)
        return runner.deprioritize(epoch, self.discovery.unresponsive)

    @property
    def _full(self) -> set[str]:
        """Name the tables for which as many epochs are prepared as may be."""
        at_most = self.tables.settings.max_epochs
        active = self.tables.active.items()
        return {name for name, table in active if table.commits_in_flight >= at_most}

    def _work(self, epoch: Epoch) -> list[TaskResult] | None:
        """Let the engine read an epoch; None when tables that it calls for are not there yet."""
        tables = self.tables
        self.trigger.started()
        self.preparer.epoch = epoch.number
        self.waits.planned(epoch)
        self.tables.environment.observer.passed(CrashPoint.EPOCH_PLANNED)
        tables.renew()
        self.quarantine = renewed(self.quarantine)
        engine = EpochRunner(
            self.tables.settings,
            self.tables.environment,
            WriteTarget(self.tables.settings.quarantine.connector, self.quarantine.target),
            self.isolation,
        )
        read = {name for part in epoch.slices for lane in part.lanes for name in lane.tables}
        if any(tables.progress[name].position is None for name in read):
            if not self._create_tables(engine, epoch):
                return None
            epoch = runner.restrict_to(epoch, tables.active)
            if not epoch.slices:
                return None
        self.waits.begin(f"records of epoch {epoch.number}")
        results = engine.run(epoch, tables.active)
        self.trigger.observe_sizes(results)
        return results

    def _prepare(self, results: list[TaskResult], listing: Listing) -> tuple[int, bool]:
        """Put the commits of an epoch into the pending store, from where they go on to land.

        Return for how many tables, and whether others are to read the epoch again.
        """
        tables = self.tables
        found = aggregate(results)
        again = schema_evolution.record_requests(tables, results)
        found = {name: each for name, each in found.items() if name not in again}
        over = tables_over_reject_limit(found, tables.settings.stop_above_share)
        for name, error in over.items():
            tables.parked.park(name, error)
            del found[name]
        routes = self.commits.write(
            lambda context: route_creation.create_requested(tables, context, results)
        )
        for route in routes:
            found.pop(route, None)
        self.preparer.anchor(routes)
        self.preparer.prepare(found, listing)
        return len(found), bool(again or routes)

    def _create_tables(self, engine: EpochRunner, epoch: Epoch) -> bool:
        """Create the tables that this epoch calls for; false when a survey is to be made again."""
        tables = self.tables
        self.waits.begin(f"a sample of epoch {epoch.number}, for the columns of new tables")
        shown, results = engine.infer_schemas(epoch, tables.active)
        for name, schema in shown.items():
            progress, table = tables.progress[name], None
            with tables.parked.parking(name, CREATE):
                table = tables.opener.create_table(
                    progress.target,
                    schema,
                    progress.start_offsets,
                    self.commits.claim.claim,
                    progress.grown,
                )
            if table is not None:
                self.commits.write(partial(tables.table_created, name, table))
        failed, waiting_for = failures(results), unresponsive_partitions(results)
        if failed:
            self.discovery.recheck_failed(results)
        for name in waiting_for.keys() - failed.keys():
            tables.parked.park(name, runner.not_surveyed(name, waiting_for[name]))
        return not failed

    def _recover(self) -> None:
        settings, environment, tables = self.tables.settings, self.tables.environment, self.tables
        pipeline, store, commits = settings.pipeline, environment.store, self.commits
        store.keep_rules(pipeline, settings.rules_hash, settings.rules_text)
        rows = by_table(pipeline, store.pending(pipeline))
        claimed = commits.claim.claim
        environment.observer(
            PipelineStarted(
                pipeline,
                claimed.generation,
                claimed.owner,
                len(tables.progress),
                sum(map(len, rows.values())),
            )
        )
        for name in rows:
            if name in tables.progress:
                tables.parked.reopen(name, "commits of an earlier run are settled first")
        self.waits.begin(waiting.SETTLED)
        commits.retry_parked(patient=True)
        while commits.queue.open:
            commits.collect(TICK_SECONDS)
        commits.write(lambda context: fencing.fence_rollbacks(tables.rolled_back_chains(), context))
        if commits.claim.foreign:
            commits.write(tables.take_over)

    def _begin(self) -> None:
        """Begin what is new; not while tables catch up: only the present rules decide on that."""
        tables = self.tables
        self.commits.write(lambda context: fencing.check_rank(tables.active_chains, context))
        if self.stopping_offsets.fixed is None:
            self.commits.write(tables.write_start_positions)
            self.preparer.anchor(route_creation.routes_behind(tables))
        tables.assign_partitions()

    def _anchor_idle(self) -> None:
        """Move the ledgers of tables that got no rows for long (protocol.md 2)."""
        now = self.tables.environment.clock.monotonic()
        before, paused = now - self.tables.settings.anchor_every_seconds, self.commits.paused
        active = self.tables.active.items()
        old = [name for name, table in active if table.committed_at <= before]
        self.preparer.anchor(name for name in old if name not in paused)

    def _finish(self) -> None:
        self.tables.environment.observer.passed(CrashPoint.STOPPING)
        self._drain()
        self.preparer.anchor(self.tables.active.keys() - self.commits.paused)
        self._drain()
        self.commits.landed.tell(at_once=True)

    def _drain(self) -> None:
        """Wait for what is being committed; what is held back stays PENDING."""
        while self.commits.queue.drop_held() or self.commits.queue.open:
            self.commits.claim.check()
            self.commits.collect(TICK_SECONDS)

    def _shut_down(self) -> None:
        self.commits.claim.close()
        self.commits.queue.close()
