"""Commit prepared epochs in the background, each table in order, tables beside each other.

Invariants:
- at most one thread works on a table, and its commits go in the order they were prepared;
- after an error, or a commit that did not land, a table is halted: what is queued or comes later is
  dropped from memory, stays PENDING in the store, and is recovered from there (protocol.md 6);
- outcomes are taken by the coordinator's thread; nothing here touches a track.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass

from penstock.commit.land import LandResult
from penstock.commit.two_phase import TwoPhase, Work
from penstock.core.claims import Claim
from penstock.core.errors import PenstockError, UnavailableError
from penstock.landing.commit_executor import CommitExecutor
from penstock.landing.foreign_errors import COMMIT, acting_on_table


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

    def __init__(self, two_phase: TwoPhase, hands: CommitExecutor) -> None:
        self._two_phase = two_phase
        self._hands = hands
        self._lock = threading.Lock()
        self._queues: dict[str, deque[CommitBatch]] = {}
        self._outcomes: queue.Queue[Outcome | Future[None]] = queue.Queue()
        self._open: Counter[str] = Counter()
        self._halted: set[str] = set()

    @property
    def open(self) -> int:
        """Count the batches whose outcome was not taken yet."""
        return self._open.total()

    @property
    def busy(self) -> set[str]:
        """Name the tables with batches whose outcome was not taken yet."""
        return {name for name, count in self._open.items() if count}

    def switch_claim(self, two_phase: TwoPhase) -> None:
        """Commit under another claim; what was prepared under the former is left to recovery."""
        with self._lock:
            self._two_phase = two_phase
            waiting = [batch for batches in self._queues.values() for batch in batches]
            self._halted.update(self._queues)
            for batches in self._queues.values():
                batches.clear()
        for batch in waiting:
            self._outcomes.put(self._is_halted(batch))

    def submit(self, batch: CommitBatch) -> None:
        """Queue a batch behind the others of its table."""
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
        self._hands.submit(self._drain, batch.name).add_done_callback(self._outcomes.put)

    def take(self, timeout_seconds: float = 0.0) -> list[Outcome]:
        """Return the outcomes so far, after waiting for the first. Re-raises our own bugs."""
        taken: list[Outcome] = []
        worth_seconds = self._hands.before_wait(timeout_seconds)
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
        self._hands.shutdown(wait=True, cancel_futures=True)

    def _drain(self, name: str) -> None:
        while (taken := self._next(name)) is not None:
            batch, two_phase = taken
            outcome = _done(batch, two_phase)
            went_well = outcome.error is None and all(each.landed for each in outcome.landings)
            dropped = [] if went_well or batch.recovering else self._halt(name)
            self._outcomes.put(outcome)
            for each in dropped:
                self._outcomes.put(self._is_halted(each))

    def _next(self, name: str) -> tuple[CommitBatch, TwoPhase] | None:
        """Take a batch, and with it the claim it is committed under."""
        with self._lock:
            waiting = self._queues[name]
            if not waiting:
                del self._queues[name]
                return None
            return waiting.popleft(), self._two_phase

    def _halt(self, name: str) -> list[CommitBatch]:
        with self._lock:
            self._halted.add(name)
            dropped = list(self._queues[name])
            self._queues[name].clear()
            return dropped

    def _is_halted(self, batch: CommitBatch) -> Outcome:
        message = f"{batch.name}: a commit before it did not land"
        error = UnavailableError(message, code="P460", hint="it is opened again")
        return Outcome(batch, self._two_phase.context.claim, error=error)


def _done(batch: CommitBatch, two_phase: TwoPhase) -> Outcome:
    claim = two_phase.context.claim
    act = two_phase.recover if batch.recovering else two_phase.settle
    try:
        with acting_on_table(batch.name, COMMIT):
            landings = act(batch.work)
    except PenstockError as error:
        return Outcome(batch, claim, error=error)
    for table in {id(table): table for _, table in batch.work}.values():
        two_phase.housekeep(batch.name, table)
    return Outcome(batch, claim, tuple(landings))
