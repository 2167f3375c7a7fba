"""Finish or drop what an earlier life prepared (protocol.md 6, recovery).

Invariants: rows are judged oldest first and each on its own; a row leaves PENDING only landed, or
with the decision that proves it cannot land; files that are gone are fenced before the row is
dropped, so that no attempt in flight can bring dangling files into the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.commit.once import Conditions, Landing, examined_ledger, fence, land, require_sound
from penstock.core.commits import Committable
from penstock.core.decide import Commit, decide
from penstock.core.errors import PenstockError
from penstock.core.events import CommitAborted, HousekeepingFailed
from penstock.core.points import Point
from penstock.ports.store import PendingStore
from penstock.ports.tables import Table


@dataclass(frozen=True, slots=True)
class TwoPhase:
    """Settles the prepared commits of one pipeline against their tables and the store."""

    pipeline: str
    store: PendingStore
    conditions: Conditions

    def settle(self, commit: Committable, table: Table) -> Landing:
        """Land one prepared commit and say so in the store. Raises what `land` raises."""
        landing = land(commit, table, self.conditions)
        self._say(commit, landing)
        return landing

    def recover(self, commit: Committable, table: Table) -> Landing:
        """Settle a commit of an earlier life, whose files may be gone by now."""
        gone = self._fenced_for_missing_files(commit, table)
        if not gone:
            return self.settle(commit, table)
        reason = f"{len(gone)} of its files are gone, {gone[0]} first; its range is read again"
        self.conditions.observer(
            CommitAborted(commit.chain.table, commit.chain.name, commit.commit_id, reason)
        )
        landing = Landing(landed=False, reason=reason)
        self._say(commit, landing)
        return landing

    def tidy(self, name: str, table: Table) -> None:
        """Let a table do its housekeeping; a failure is told and does no harm."""
        try:
            table.housekeep()
        except PenstockError as error:
            self.conditions.observer(HousekeepingFailed(name, error.message))

    def _fenced_for_missing_files(self, commit: Committable, table: Table) -> Sequence[str]:
        gone = table.missing(commit.files)
        if not gone:
            return ()
        state = table.state(commit.chain)
        decision = decide(commit, examined_ledger(commit, state), self.conditions.claim)
        if not isinstance(decision, Commit):
            return ()  # it is not going to land; `land` says why
        require_sound(commit, state, table, self.conditions)
        fence(commit, state, table, self.conditions)
        return gone

    def _say(self, commit: Committable, landing: Landing) -> None:
        observer, claim = self.conditions.observer, self.conditions.claim
        observer.reached(Point.SETTLE_BEFORE)
        self.store.settle(
            self.pipeline, claim, commit, landed=landing.landed, reason=landing.reason
        )
        observer.reached(Point.SETTLE_AFTER)
