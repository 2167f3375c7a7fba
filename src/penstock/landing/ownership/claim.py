"""Hold a pipeline: claim a generation, say that we are alive, notice that another took over.

Invariants: the beat runs in a thread of its own, so that a long epoch does not look like death; it
is advisory, every write to the store is guarded by the claim itself (protocol.md 6); it never beats
for a claim that was just replaced by our own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock.commit.land import CommitContext
from penstock.core.claims import Claim, Generation
from penstock.core.crash_points import CrashPoint
from penstock.core.decide import outranks
from penstock.core.errors import FencedError, PenstockError
from penstock.core.events import CoordinatorFenced
from penstock.landing.background import Heartbeat
from penstock.landing.settings import Environment, Settings


@dataclass(slots=True)
class PipelineClaim:
    """One run's hold on its pipeline.

    A claim is `strange` when a ledger knew of one that our store did not: another store was lost,
    or is elsewhere, and somebody may hold commits that we cannot see (docs/design/0050). It begins
    a line, `over` those that ledgers and our store knew (docs/design/0225).
    """

    settings: Settings
    environment: Environment
    claim: Claim = field(default_factory=lambda: Claim(Generation(0), ""))
    foreign: bool = False
    supersedes: frozenset[str] = frozenset()
    _lineage: str = ""
    _reclaimed: bool = False
    _error: PenstockError | None = None
    _heartbeat: Heartbeat | None = None
    _claiming: threading.RLock = field(default_factory=threading.RLock)

    def acquire(self, seen: Collection[Claim], *, takeover: bool) -> None:
        """Claim the next generation, above all that any ledger has seen, and begin to beat.

        Raises UnavailableError while another owner is alive, unless `takeover`.
        """
        held = self.environment.store.holding(self.settings.pipeline)
        known = held.claim if held is not None else Claim(Generation(0), "")
        self.foreign = any(outranks(each, known) for each in seen)
        self._lineage = known.line
        self._claim(seen, takeover=takeover)
        self._heartbeat = self.environment.start_heartbeat(
            self._beat, self.settings.heartbeat_seconds
        )

    def check(self) -> None:
        """Raise what the beat found out: FencedError when another owner took over."""
        if isinstance(self._error, FencedError):
            raise self._error

    def reacquire(self, seen: Collection[Claim], error: FencedError) -> None:
        """Claim again, over what ledgers have seen, when our own store still says that we are the
        owner: so do two hosts with a store each (protocol.md 3).

        Raises the error when the store names another owner, or when this is the second time that a
        ledger has seen a higher claim of a line that we knew nothing of. Others may be from long
        ago, of a table that was away; whoever is fenced by us begins a line.
        """
        seen = [*seen, *([error.by] if error.by else [])]
        held = self.environment.store.holding(self.settings.pipeline)
        mine = held is not None and held.claim == self.claim
        fresh = [each for each in seen if each.line not in self.supersedes]
        higher = any(outranks(each, self.claim, supersedes=[each.line]) for each in fresh)
        if not mine or (higher and self._reclaimed):
            by = error.by or (held.claim if held is not None else self.claim)
            self.environment.observer(
                CoordinatorFenced(self.claim.generation, by.generation, by.owner)
            )
            raise error
        self._reclaimed |= higher
        self.foreign = True
        self._claim(seen, takeover=True)

    @property
    def conditions(self) -> CommitContext:
        """Return what landing needs, under our claim."""
        world, retain = self.environment, self.settings.retain
        return CommitContext(
            self.claim,
            world.observer,
            world.clock,
            world.jitter,
            retain,
            supersedes=self.supersedes,
        )

    def release(self) -> None:
        """Record that this run has ended."""
        self.environment.observer.passed(CrashPoint.RELEASE_BEFORE)
        self.environment.store.release(self.settings.pipeline, self.claim)
        self.environment.observer.passed(CrashPoint.RELEASE_AFTER)

    def close(self) -> None:
        """End the beat."""
        if self._heartbeat is not None:
            self._heartbeat.end()

    def _claim(self, seen: Collection[Claim], *, takeover: bool) -> None:
        world, now_ms = self.environment, self.environment.clock.now_ms()
        if self.foreign:
            self.supersedes = self.supersedes.union(
                {self._lineage}, (each.line for each in seen)
            ) - {""}
        if self.foreign or not self._lineage:
            self._lineage = world.token()
        world.observer.passed(CrashPoint.CLAIM_BEFORE)
        with self._claiming:
            self.claim = world.store.claim(
                self.settings.pipeline,
                replace(world.owner, id=f"{self._lineage}/{world.owner.id}"),
                above=max((each.generation for each in seen), default=Generation(0)),
                now_ms=now_ms,
                alive_until_ms=now_ms + int(self.settings.alive_seconds * 1000),
                takeover=takeover,
            )
        world.observer.passed(CrashPoint.CLAIM_AFTER)

    def _beat(self) -> bool:
        """Record once that this run is alive; return False when that is no longer needed."""
        until = self.environment.clock.now_ms() + int(self.settings.alive_seconds * 1000)
        self.environment.observer.passed(CrashPoint.HEARTBEAT_BEFORE)
        try:
            with self._claiming:
                self.environment.store.heartbeat(
                    self.settings.pipeline, self.claim, alive_until_ms=until
                )
        except FencedError as error:
            self._error = error
            return False
        except PenstockError as error:  # whatever it is may pass, and we are alive; if it does
            self._error = error  # not pass, the next prepare finds out for good
        self.environment.observer.passed(CrashPoint.HEARTBEAT_AFTER)
        return True
