"""Finish or drop what an earlier life prepared (protocol.md 6, recovery).

Invariants:
- rows are decided on oldest first, each on its own, and leave PENDING only landed, or with the
  decision that proves that they cannot land;
- a commit with missing files is fenced before its row is dropped, so that no attempt in flight can
  bring dangling files into the table;
- nothing lands in a table's own chain after a quarantine commit that did not land;
- what was examined counts no more once something that was prepared with it is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.commit.attempt import CommitContext
from penstock.commit.land import LandResult, land
from penstock.core.commits import Committable, target_of
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.core.events import HousekeepingFailed
from penstock.ports.store import Examined, PendingStore
from penstock.ports.tables import Table
from penstock.rows import bisection

Work = tuple[Committable, Table]


@dataclass(frozen=True, slots=True)
class TwoPhase:
    """Settles the prepared commits of one pipeline against their tables and the store.

    Recovery lands nothing that a claim of another line prepared: since then another owner, out of
    our store's sight, may have read its ranges (docs/design/0050).
    """

    pipeline: str
    store: PendingStore
    context: CommitContext

    def settle(self, work: Sequence[Work]) -> list[LandResult]:
        """Land prepared commits of one table in order, up to the first that does not land.

        A quarantine commit that cannot land stays PENDING: what follows it in its table's own chain
        would bury the records it holds, and is dropped first, by `recover`.
        Raises what `land` raises.
        """
        landings: list[LandResult] = []
        for commit, table in work:
            landing = land(commit, table, self.context)
            landings.append(landing)
            if landing.landed or not commit.chain.is_quarantine:
                self._settle_in_store(commit, landing)
            if not landing.landed:
                break
        return landings

    def recover(self, work: Sequence[Work]) -> list[LandResult]:
        """Settle all that is pending for one table, in order; files may be missing by now.

        Raises what `land` raises; then the rest stays PENDING.
        """
        landings: list[LandResult] = []
        waiting = deque(work)
        while waiting:
            commit, table = waiting.popleft()
            landing = self._recover_one(commit, table)
            if commit.chain.is_quarantine and not landing.landed:
                reason = "records before it did not reach the quarantine; its range is read again"
                for follower in [each for each in waiting if not each[0].chain.is_quarantine]:
                    waiting.remove(follower)
                    dropped = land(*follower, self.context, abort_reason=reason)
                    self._settle_in_store(follower[0], dropped)
                    landings.append(dropped)
            self._settle_in_store(commit, landing)
            landings.append(landing)
        return landings

    def housekeep(self, name: str, table: Table) -> None:
        """Let a table do its housekeeping; a failure is reported and does no harm.

        A table that is paused does it after a later commit.
        """
        observer, context = self.context.observer, self.context
        now_ms = context.clock.now_ms()
        if context.pauses.until_ms(name, now_ms) is not None:
            return
        observer.passed(CrashPoint.HOUSEKEEP_BEFORE)
        try:
            with context.pauses.passing(name, now_ms):
                table.housekeep()
        except PenstockError as error:
            observer(HousekeepingFailed(name, error.message))
        except MemoryError:
            raise
        except bisection.FOREIGN as error:
            observer(HousekeepingFailed(name, bisection.describe(error)))
        observer.passed(CrashPoint.HOUSEKEEP_AFTER)

    def _recover_one(self, commit: Committable, table: Table) -> LandResult:
        abort_reason = ""
        if missing := table.missing_files(commit.files):
            abort_reason = (
                f"{len(missing)} of its files are missing, {missing[0]} first; "
                "its range is read again"
            )
        elif commit.claim.line != self.context.claim.line:
            abort_reason = "another owner may have read its range meanwhile; it is read again"
        return land(commit, table, self.context, abort_reason=abort_reason)

    def _settle_in_store(self, commit: Committable, landing: LandResult) -> None:
        observer, claim = self.context.observer, self.context.claim
        if not landing.landed:  # what was examined with it is to be read again
            nothing = {target_of(self.pipeline, commit.chain): Examined({}, {}, {})}
            self.store.prepare(self.pipeline, claim, (), nothing)
        observer.passed(CrashPoint.SETTLE_BEFORE)
        self.store.settle(
            self.pipeline, claim, commit, landed=landing.landed, reason=landing.reason
        )
        observer.passed(CrashPoint.SETTLE_AFTER)
