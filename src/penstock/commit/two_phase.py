"""Finish or drop what an earlier life prepared (protocol.md 6, recovery).

Invariants: rows are judged oldest first and each on its own; a row leaves PENDING only landed, or
with the decision that proves it cannot land; files that are gone are fenced before the row is
dropped, so that no attempt in flight can bring dangling files into the table; nothing lands in a
table's own chain behind a quarantine commit that did not land.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.commit.once import Conditions, Landing, examined_ledger, fence, land, require_sound
from penstock.core.commits import Committable
from penstock.core.decide import Commit, decide
from penstock.core.errors import PenstockError
from penstock.core.events import CommitAborted, HousekeepingFailed
from penstock.core.points import Point
from penstock.ports.store import PendingStore
from penstock.ports.tables import Table, TableState

Work = tuple[Committable, Table]


@dataclass(frozen=True, slots=True)
class TwoPhase:
    """Settles the prepared commits of one pipeline against their tables and the store."""

    pipeline: str
    store: PendingStore
    conditions: Conditions

    def settle(self, work: Sequence[Work]) -> list[Landing]:
        """Land prepared commits of one table in order, up to the first that does not land.

        A quarantine commit that cannot land stays PENDING: what follows it in its table's own chain
        would bury the records it holds, and is dropped first, by `recover`.
        Raises what `land` raises.
        """
        landings: list[Landing] = []
        for commit, table in work:
            landing = land(commit, table, self.conditions)
            landings.append(landing)
            if landing.landed or not commit.chain.is_quarantine:
                self._say(commit, landing)
            if not landing.landed:
                break
        return landings

    def recover(self, work: Sequence[Work]) -> list[Landing]:
        """Settle all that is pending for one table, in order; files may be gone by now.

        Raises what `land` raises; then the rest stays PENDING.
        """
        landings: list[Landing] = []
        waiting = deque(work)
        while waiting:
            commit, table = waiting.popleft()
            landing = self._judged(commit, table)
            if commit.chain.is_quarantine and not landing.landed:
                reason = "records before it did not reach the quarantine; its range is read again"
                for follower in [each for each in waiting if not each[0].chain.is_quarantine]:
                    waiting.remove(follower)
                    dropped = self._kept_out(*follower, reason)
                    self._say(follower[0], dropped)
                    landings.append(dropped)
            self._say(commit, landing)
            landings.append(landing)
        return landings

    def tidy(self, name: str, table: Table) -> None:
        """Let a table do its housekeeping; a failure is told and does no harm."""
        try:
            table.housekeep()
        except PenstockError as error:
            self.conditions.observer(HousekeepingFailed(name, error.message))

    def _judged(self, commit: Committable, table: Table) -> Landing:
        gone = table.missing(commit.files)
        if not gone:
            return land(commit, table, self.conditions)
        reason = f"{len(gone)} of its files are gone, {gone[0]} first; its range is read again"
        return self._kept_out(commit, table, reason)

    def _kept_out(self, commit: Committable, table: Table, reason: str) -> Landing:
        """Prove by a fence that a commit cannot land, unless it landed or cannot land anyway."""
        state = table.state(commit.chain)
        if not self._could_land(commit, state):
            return land(commit, table, self.conditions)
        require_sound(commit, state, table, self.conditions)
        fence(commit, state, table, self.conditions)
        if not self._could_land(commit, table.state(commit.chain)):
            return land(commit, table, self.conditions)  # an attempt in flight was faster
        self.conditions.observer(
            CommitAborted(commit.chain.table, commit.chain.name, commit.commit_id, reason)
        )
        return Landing(landed=False, reason=reason)

    def _could_land(self, commit: Committable, state: TableState) -> bool:
        landed = examined_ledger(commit, state)
        return isinstance(decide(commit, landed, self.conditions.claim), Commit)

    def _say(self, commit: Committable, landing: Landing) -> None:
        observer, claim = self.conditions.observer, self.conditions.claim
        observer.reached(Point.SETTLE_BEFORE)
        self.store.settle(
            self.pipeline, claim, commit, landed=landing.landed, reason=landing.reason
        )
        observer.reached(Point.SETTLE_AFTER)
