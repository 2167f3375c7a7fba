"""Phase two beside the loop: prepared commits land in the background, under the run's claim.

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
from penstock.core.claims import Claim
from penstock.core.commits import Chain
from penstock.core.errors import FencedError, InvalidError, UnavailableError
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue, Outcome
from penstock.landing.tables.pipeline_run import Run
from penstock.landing.tables.progress import by_table
from penstock.ownership import fencing
from penstock.ownership.claim import PipelineClaim
from penstock.ports.tables import Table

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits for the tables of a run, and notes with them what came of it."""

    run: Run
    claim: PipelineClaim
    queue: CommitQueue

    def write(self, act: Callable[[CommitContext], Returned]) -> Returned:
        """Act on ledgers, and again as often as we are fenced there and can claim again."""
        while True:
            try:
                return act(self.claim.commit_context)
            except FencedError as error:
                self._reclaim(error)

    def retry_parked(self, *, patient: bool) -> None:
        """Settle what is pending for tables that are parked; they open again when it is done."""
        tables, pipeline = self.run.tables, self.run.settings.pipeline
        due = tables.due_for_retry(self.queue.busy, patient=patient)
        if not due:
            return
        rows = by_table(pipeline, self.run.environment.store.pending(pipeline))
        for name in due:
            work = tables.recovery_work(name, rows.get(name, []))
            if work is not None:
                self.queue.submit(CommitBatch(name, work, recovering=True))

    def collect(self, timeout_seconds: float) -> None:
        """Note with their tables what became of commits that ended meanwhile."""
        for outcome in self.queue.take(timeout_seconds):
            batch = outcome.batch
            if batch.name in self.run.tables.progress and not batch.recovering:
                self.run.tables.update(self.run.tables.progress[batch.name].in_flight(-1))
            self._note(outcome)

    def _note(self, outcome: Outcome) -> None:
        tables, name, recovering = self.run.tables, outcome.batch.name, outcome.batch.recovering
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
        else:
            tables.parked.commit_rejected(name, outcome.landings[-1].reason)

    def _reclaim(self, error: FencedError) -> None:
        tables = self.run.tables
        self.claim.reacquire(self._claims_now(), error)
        self.queue.switch_claim(self.claim.two_phase)
        for name in tables.active:
            tables.parked.reopen(name, error.message)
        tables.take_over(self.claim.commit_context)

    def _claims_now(self) -> list[Claim]:
        """Read afresh the claims that landed last in tables that can be read."""
        chains: list[tuple[Chain, Table]] = []
        with suppress(UnavailableError, InvalidError):
            chains += self.run.tables.rolled_back_chains()
        chains += [(each.chain, each.table) for each in self.run.tables.active_chains]
        return fencing.readable_claims(chains)
