"""Phase two: prepared commits land in the background of the loop, under the run's claim.

Invariants:
- what became of a commit is noted with its table by the coordinator's thread alone;
- fenced by a claim that our store does not know, we claim again, and open all tables again;
- a parked table comes back only once its pending commits are settled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from penstock.commit.attempt import CommitContext
from penstock.core.commits import Chain
from penstock.core.errors import FencedError, InvalidError, UnavailableError
from penstock.core.hold import held
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue, Outcome
from penstock.landing.epoch.hold import EpochHold
from penstock.landing.epoch.landed_offsets import LandedOffsets
from penstock.landing.epoch.pause_watch import PauseWatch
from penstock.landing.tables.progress import by_table
from penstock.landing.tables.table_set import TableSet
from penstock.ownership import fencing
from penstock.ownership.claim import PipelineClaim
from penstock.ports.tables import Table

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits for the tables of a run, and notes with them what came of it."""

    tables: TableSet
    claim: PipelineClaim
    queue: CommitQueue
    pauses: PauseWatch
    hold: EpochHold
    landed: LandedOffsets

    @property
    def paused(self) -> set[str]:
        """Name the tables that are paused now."""
        watch = self.pauses
        return {*watch.pauses.current(watch.clock.now_ms())}

    def write(self, act: Callable[[CommitContext], Returned]) -> Returned:
        """Act on ledgers, and again as often as we are fenced there and can claim again."""
        while True:
            try:
                return act(self.claim.commit_context)
            except FencedError as error:
                self._reclaim(error)

    def retry_parked(self, *, patient: bool) -> None:
        """Settle what is pending for tables that are parked; they open again when it is done."""
        tables, pipeline = self.tables, self.tables.settings.pipeline
        paused, rejects = self.paused, tables.settings.quarantine.table
        due = [
            name
            for name in tables.due_for_retry(self.queue.busy, patient=patient)
            if not (tables.parked[name].is_paused and paused & {name, rejects})
            and not (tables.parked[name].is_held and name in self.hold.stopped)
        ]
        if not due:
            return
        rows = by_table(pipeline, self.tables.environment.store.pending(pipeline))
        for name in due:
            work = tables.recovery_work(name, rows.get(name, []))
            if work is not None:
                self.queue.submit(CommitBatch(name, work, recovering=True))

    def stop_sick(self) -> None:
        """Park tables with too many files, where the spec says so; they open when they are well."""
        self.hold.look()
        for name, excess_files in self.hold.stopped.items():
            if name in self.tables.active:
                self.tables.parked.park(name, held(name, excess_files, self.hold.hold))

    def collect(self, timeout_seconds: float) -> None:
        """Note with their tables what became of commits that ended meanwhile.

        What was held back for a table goes on once it is paused no longer.
        """
        self.pauses.check()
        self.queue.go_on()
        for outcome in self.queue.take(timeout_seconds):
            self._note(outcome)
        self.landed.tell()

    def _note(self, outcome: Outcome) -> None:
        tables, name, recovering = self.tables, outcome.batch.name, outcome.batch.recovering
        if name in tables.progress and not recovering:
            tables.update(tables.progress[name].in_flight(-1))
        landed = all(each.landed for each in outcome.landings)
        if isinstance(outcome.error, FencedError):
            if outcome.claim == self.claim.claim:  # else that was done since, for another table's
                self._reclaim(outcome.error)
            tables.parked.reopen(name, outcome.error.message)
        elif outcome.error is not None:
            if recovering or name not in tables.parked:
                tables.parked.park(name, outcome.error)
        elif recovering:
            if outcome.landings and landed:
                tables.commit_succeeded(name)
            self.write(lambda context: tables.recovered(name, context))
        elif landed:
            tables.commit_succeeded(name)
            self.landed.note(name, outcome.batch.work)
        else:
            tables.parked.commit_rejected(name, outcome.landings[-1].reason)

    def _reclaim(self, error: FencedError) -> None:
        tables = self.tables
        chains: list[tuple[Chain, Table]] = []
        with suppress(UnavailableError, InvalidError):
            chains += tables.rolled_back_chains()
        chains += [(each.chain, each.table) for each in tables.active_chains]
        self.claim.reacquire(fencing.readable_claims(chains), error)
        self.queue.switch_claim(self.claim.two_phase)
        for name in tables.active:
            tables.parked.reopen(name, error.message)
        tables.take_over(self.claim.commit_context)
