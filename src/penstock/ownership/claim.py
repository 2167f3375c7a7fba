"""Own a pipeline: claim a generation, show that we are alive, notice that another took over.

Invariants: the heartbeat runs in a thread of its own, so that a long epoch is not taken for death.
It is advisory: every write to the store is guarded by the claim itself (protocol.md 6). It is never
sent for a claim that was just replaced by our own. A pause is confirmed only once every attempt
knows it and none is under way on its table (docs/design/0246).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from penstock.commit.attempt import CommitContext
from penstock.commit.errors import fenced
from penstock.commit.pauses import Pauses
from penstock.commit.rewriting import Rewriting
from penstock.commit.turnstile import Turnstile
from penstock.commit.two_phase import TwoPhase
from penstock.core.claims import Claim, Generation
from penstock.core.crash_points import CrashPoint
from penstock.core.decide import outranks
from penstock.core.errors import FencedError, PenstockError
from penstock.core.events import CoordinatorFenced
from penstock.ports.runtime import Clock, Observer
from penstock.ports.store import Owner, PendingStore

END_SECONDS_MAX = 10.0


class Heartbeat:
    """Calls a function every so many seconds until it returns false, first after one interval."""

    def __init__(self, act: Callable[[], bool], every_seconds: float) -> None:
        self._act = act
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="penstock-heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the current call finish, and start no other."""
        self._ended.set()
        self._thread.join(timeout=END_SECONDS_MAX)

    def _keep(self) -> None:
        while not self._ended.wait(self._every_seconds) and self._act():
            pass


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """What a claim on a pipeline works with.

    `jitter` returns numbers in 0..1, `token` short random texts; `snapshots_kept` is how many of
    its own snapshots a table keeps. An owner that sent no heartbeat for `alive_seconds` is dead.
    In the tables `stop_across_partitions` a key may not be changed by two partitions; of those in
    `rewriting` files are written again where rows go. Shards that meet at
    a table pass through a `turnstile`.
    """

    pipeline: str
    store: PendingStore
    owner: Owner
    observer: Observer
    clock: Clock
    jitter: Callable[[], float]
    token: Callable[[], str]
    start_heartbeat: Callable[[Callable[[], bool], float], Heartbeat]
    snapshots_kept: int
    heartbeat_seconds: float
    alive_seconds: float
    stop_across_partitions: frozenset[str] = frozenset()
    rewriting: Mapping[str, Rewriting] = field(default_factory=dict)
    turnstile: Turnstile = field(default_factory=Turnstile)


@dataclass(slots=True)
class PipelineClaim:
    """One owner's claim on its pipeline.

    A claim is `foreign` when a ledger knew of one that our store did not, or the one before was
    made on another server: another store was lost or is elsewhere, and its owner may hold commits
    that we cannot see (docs/design/0050, 0327). It begins a lineage, and `supersedes` those that
    ledgers and our store knew (docs/design/0225).
    """

    context: ClaimContext
    claim: Claim = field(default_factory=lambda: Claim(Generation(0), ""))
    foreign: bool = False
    supersedes: frozenset[str] = frozenset()
    pauses: Pauses = field(default_factory=Pauses)
    _known: Claim = field(default_factory=lambda: Claim(Generation(0), ""))
    _lineage: str = ""
    _reclaimed: bool = False
    _error: PenstockError | None = None
    _heartbeat: Heartbeat | None = None
    _claiming: threading.RLock = field(default_factory=threading.RLock)

    def acquire(self, seen: Collection[Claim], *, takeover: bool) -> None:
        """Claim the next generation, above all that any ledger has seen; start the heartbeat.

        Raises UnavailableError while another owner is alive, unless `takeover`.
        """
        held = self.context.store.holding(self.context.pipeline)
        self._known = held.claim if held is not None else Claim(Generation(0), "")
        elsewhere = held is not None and held.elsewhere
        self.foreign = elsewhere or any(outranks(each, self._known) for each in seen)
        self._lineage = self._known.line
        self._claim(seen, takeover=takeover)
        self.pauses.know(self.context.store.pauses(self.context.pipeline))
        self._heartbeat = self.context.start_heartbeat(self._beat, self.context.heartbeat_seconds)

    def rise_above(self, seen: Collection[Claim]) -> bool:
        """Claim again where ledgers know of claims that our store did not know of when we claimed.

        Return whether we did: what was looked at before is to be looked at again. Raises
        FencedError where our store knows of another owner by now.
        """
        higher = [each for each in seen if outranks(each, self._known, self.supersedes)]
        if not higher:
            return False
        held = self.context.store.holding(self.context.pipeline)
        if held is not None and held.claim != self.claim:
            raise fenced(higher[0], self.claim)
        self.foreign = True
        self._claim(seen, takeover=True)
        self._known = self.claim
        return True

    def check(self) -> None:
        """Raise what the heartbeat found out: FencedError when another owner took over."""
        if isinstance(self._error, FencedError):
            raise self._error

    def reacquire(self, seen: Collection[Claim], error: FencedError) -> None:
        """Claim again, over what ledgers have seen, when our own store still says that we are the
        owner: so do two hosts with a store each (protocol.md 3).

        Raises the error when the store names another owner, or when this is the second time that a
        ledger has seen a higher claim of a lineage that we knew nothing of. Others may be from long
        ago, of a table that was away; an owner that we fence begins a lineage.
        """
        seen = [*seen, *([error.by] if error.by else [])]
        held = self.context.store.holding(self.context.pipeline)
        mine = held is not None and held.claim == self.claim
        fresh = [each for each in seen if each.line not in self.supersedes]
        higher = any(outranks(each, self.claim, [each.line]) for each in fresh)
        if not mine or (higher and self._reclaimed):
            by = error.by or (held.claim if held is not None else self.claim)
            self.context.observer(CoordinatorFenced(self.claim.generation, by.generation, by.owner))
            raise error
        self._reclaimed |= higher
        self.foreign = True
        self._claim(seen, takeover=True)

    @property
    def commit_context(self) -> CommitContext:
        """Return what landing needs, under our claim."""
        context = self.context
        return CommitContext(
            self.claim,
            context.observer,
            context.clock,
            context.jitter,
            context.snapshots_kept,
            supersedes=self.supersedes,
            pauses=self.pauses,
            stop_across_partitions=context.stop_across_partitions,
            rewriting=context.rewriting,
            turnstile=context.turnstile,
        )

    @property
    def two_phase(self) -> TwoPhase:
        """Return what settles prepared commits, under our claim."""
        return TwoPhase(self.context.pipeline, self.context.store, self.commit_context)

    def release(self) -> None:
        """Report to the store that this owner is done."""
        self.context.observer.passed(CrashPoint.RELEASE_BEFORE)
        self.context.store.release(self.context.pipeline, self.claim)
        self.context.observer.passed(CrashPoint.RELEASE_AFTER)

    def close(self) -> None:
        """End the heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.end()

    def _claim(self, seen: Collection[Claim], *, takeover: bool) -> None:
        context = self.context
        if self.foreign:
            known = {self._lineage, *(each.line for each in seen)} - {""}
            self.supersedes = self.supersedes | known
        if self.foreign or not self._lineage:
            self._lineage = context.token()
        now_ms = context.clock.now_ms()
        context.observer.passed(CrashPoint.CLAIM_BEFORE)
        with self._claiming:
            self.claim = context.store.claim(
                context.pipeline,
                replace(context.owner, id=f"{self._lineage}/{context.owner.id}"),
                above=max((each.generation for each in seen), default=Generation(0)),
                now_ms=now_ms,
                alive_until_ms=now_ms + int(context.alive_seconds * 1000),
                takeover=takeover,
            )
        context.observer.passed(CrashPoint.CLAIM_AFTER)

    def _beat(self) -> bool:
        """Record once that we are alive; false when there is no more need to."""
        context = self.context
        until_ms = context.clock.now_ms() + int(context.alive_seconds * 1000)
        context.observer.passed(CrashPoint.HEARTBEAT_BEFORE)
        try:
            with self._claiming:
                self.pauses.know(
                    context.store.heartbeat(context.pipeline, self.claim, alive_until_ms=until_ms)
                )
                for pause in self.pauses.quiet():
                    if pause.seen_by != self.claim.generation:
                        context.store.confirm_pause(context.pipeline, self.claim, pause)
        except FencedError as error:
            self._error = error
            return False
        except PenstockError as error:  # whatever it is may pass, and we are alive; if it does
            self._error = error  # not pass, the next prepare finds out for good
        context.observer.passed(CrashPoint.HEARTBEAT_AFTER)
        return True


@contextmanager
def exclusive_claim(
    context: ClaimContext, seen: Collection[Claim], *, takeover: bool = False
) -> Iterator[PipelineClaim]:
    """Claim a pipeline as a run does, for a manual change; release it however the change ends.

    Raises UnavailableError (P510) while another owner is alive, unless `takeover`.
    """
    claim = PipelineClaim(context)
    try:
        claim.acquire(seen, takeover=takeover)
        yield claim
    finally:
        claim.close()
        with suppress(PenstockError):  # the pipeline may be another's by now; a claim is advisory
            claim.release()
