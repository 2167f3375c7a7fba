"""Commit prepared epochs in the background, each table in order, tables in parallel.

Invariants:
- at most one thread works on a table, and its commits go in the order they were prepared;
- after an error, or a commit that did not land, a table is halted: what is queued or comes later is
  dropped from memory, stays PENDING in the store, and is recovered from there (protocol.md 6);
- what is for a paused table is held back, in its order, and is neither open nor failed meanwhile;
- outcomes are taken by the coordinator's thread; nothing here touches a table's progress.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass

from penstock.commit.land import LandResult
from penstock.commit.pauses import PAUSED, paused
from penstock.commit.two_phase import TwoPhase, Work
from penstock.core.claims import Claim
from penstock.core.errors import PenstockError, UnavailableError
from penstock.landing.foreign_errors import COMMIT, acting_on_table
from penstock.landing.settings import CommitExecutor


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """The commits of one table for one epoch; `recovering` when they are of an earlier attempt."""

    name: str
    work: tuple[Work, ...]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a batch ended, and under which claim: its landings, or the error that stopped it."""

    batch: CommitBatch
    claim: Claim
    landings: tuple[LandResult, ...] = ()
    error: PenstockError | None = None


class CommitQueue:
    """Runs batches in a bounded pool. Close it to wait for what is running."""

    def __init__(self, two_phase: TwoPhase, executor: CommitExecutor) -> None:
        self._two_phase = two_phase
        self._executor = executor
        self._lock = threading.Lock()
        self._queues: dict[str, deque[CommitBatch]] = {}
        self._outcomes: queue.Queue[Outcome | Future[None]] = queue.Queue()
        self._open: Counter[str] = Counter()
        self._halted: set[str] = set()
        self._held: set[str] = set()

    @property
    def open(self) -> int:
        """Count the batches with an outcome not yet collected, but for those held back."""
        with self._lock:
            return self._open.total() - sum(len(self._queues[name]) for name in self._held)

    @property
    def held(self) -> set[str]:
        """Name the tables with batches held back."""
        with self._lock:
            return {*self._held}

    @property
    def busy(self) -> set[str]:
        """Name the tables with batches not yet collected."""
        return {name for name, count in self._open.items() if count}

    def switch_claim(self, two_phase: TwoPhase) -> None:
        """Commit under another claim; what was prepared under the former is left to recovery."""
        with self._lock:
            self._two_phase = two_phase
            waiting = [batch for batches in self._queues.values() for batch in batches]
            self._halted.update(self._queues)
            for batches in self._queues.values():
                batches.clear()
            self._forget_held()
        for batch in waiting:
            self._outcomes.put(self._is_halted(batch))

    def submit(self, batch: CommitBatch) -> None:
        """Queue a batch after the others of its table."""
        self._open[batch.name] += 1
        with self._lock:
            if batch.recovering:
                self._halted.discard(batch.name)
            elif batch.name in self._halted:
                self._outcomes.put(self._is_halted(batch))
                return
            if batch.name in self._queues:
                self._queues[batch.name].append(batch)
                return
            self._queues[batch.name] = deque([batch])
        self._executor.submit(self._drain, batch.name).add_done_callback(self._outcomes.put)

    def go_on(self) -> None:
        """Commit what was held back for tables that are paused no longer."""
        with self._lock:
            over = [name for name in self._held if self._paused(self._queues[name][0]) is None]
            self._held.difference_update(over)
        for name in over:
            self._executor.submit(self._drain, name).add_done_callback(self._outcomes.put)

    def drop_held(self) -> bool:
        """Leave what is held back to a later run: it stays PENDING. Return whether any was."""
        with self._lock:
            held = [batch for name in sorted(self._held) for batch in self._queues[name]]
            self._halted.update(self._held)
            self._forget_held()
        for batch in held:
            error = self._paused(batch) or _halted(batch)
            self._outcomes.put(Outcome(batch, self._two_phase.context.claim, error=error))
        return bool(held)

    def take(self, timeout_seconds: float = 0.0) -> list[Outcome]:
        """Return the outcomes so far, after waiting for the first. Re-raises our own bugs."""
        taken: list[Outcome] = []
        worth_seconds = self._executor.before_wait(timeout_seconds)
        block = worth_seconds > 0
        while True:
            try:
                item = self._outcomes.get(block and not taken, worth_seconds or None)
            except queue.Empty:
                return taken
            if isinstance(item, Outcome):
                taken.append(item)
                self._open[item.batch.name] -= 1
            else:
                item.result()

    def close(self) -> None:
        """Wait for running commits and let go of the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _drain(self, name: str) -> None:
        while (taken := self._next(name)) is not None:
            batch, two_phase = taken
            outcome = _done(batch, two_phase)
            if self._hold(outcome):
                return
            went_well = outcome.error is None and all(each.landed for each in outcome.landings)
            dropped: list[CommitBatch] = []
            if not (went_well or batch.recovering):
                with self._lock:
                    self._halted.add(name)
                    dropped = list(self._queues[name])
                    self._queues[name].clear()
            self._outcomes.put(outcome)
            for each in dropped:
                self._outcomes.put(self._is_halted(each))

    def _next(self, name: str) -> tuple[CommitBatch, TwoPhase] | None:
        with self._lock:
            waiting = self._queues[name]
            if not waiting:
                del self._queues[name]
                return None
            if not waiting[0].recovering and self._paused(waiting[0]) is not None:
                self._held.add(name)
                return None
            return waiting.popleft(), self._two_phase

    def _hold(self, outcome: Outcome) -> bool:
        """Put a batch back whose table was paused in its middle; what of it landed is found."""
        batch, error = outcome.batch, outcome.error
        if error is None or error.code != PAUSED or batch.recovering:
            return False
        with self._lock:
            if batch.name in self._halted:  # the claim was switched meanwhile
                return False
            self._queues[batch.name].appendleft(batch)
            self._held.add(batch.name)
        return True

    def _paused(self, batch: CommitBatch) -> UnavailableError | None:
        """Return the error of a batch for a table that is paused."""
        context = self._two_phase.context
        now_ms = context.clock.now_ms()
        for table in {commit.chain.table for commit, _ in batch.work}:
            until_ms = context.pauses.until_ms(table, now_ms)
            if until_ms is not None:
                return paused(table, until_ms)
        return None

    def _forget_held(self) -> None:
        for name in self._held:
            del self._queues[name]
        self._held.clear()

    def _is_halted(self, batch: CommitBatch) -> Outcome:
        return Outcome(batch, self._two_phase.context.claim, error=_halted(batch))


def _done(batch: CommitBatch, two_phase: TwoPhase) -> Outcome:
    claim = two_phase.context.claim
    act = two_phase.recover if batch.recovering else two_phase.settle
    try:
        with acting_on_table(batch.name, COMMIT):
            landings = act(batch.work)
    except PenstockError as error:
        return Outcome(batch, claim, error=error)
    for name, table in {commit.chain.table: table for commit, table in batch.work}.items():
        two_phase.housekeep(name, table)
    return Outcome(batch, claim, tuple(landings))


def _halted(batch: CommitBatch) -> UnavailableError:
    message = f"{batch.name}: a commit before it did not land"
    return UnavailableError(message, code="P460", hint="it is opened again")
