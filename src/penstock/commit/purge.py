"""Purge rows of deleted keys: row deletes alone, beside whoever lands (docs/design/0267).

Theory of operation: a row with the flag and an old enough time is looked for in the live rows of a
state and deleted on exactly that state. Whoever commits in between wins: the table is looked at
again, in files that are new or have other rows deleted by now.

Invariants:
- what goes has the flag and the time on the state that is committed on: a row that took its place
  is another row, in another file;
- no position moves, and the claim in the ledger stays that of the owner who landed last, so that
  the commit fences nobody;
- a lost answer is never taken for a failure nor for a success: the next turn finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.attempt import CommitContext, attempt_once, attempts
from penstock.commit.chain_position import (
    NO_EPOCH,
    ChainPosition,
    CommitLabels,
    commit_at,
    position_at,
)
from penstock.commit.errors import rolled_back
from penstock.commit.rewriting import FileRewriter
from penstock.core.commits import Chain, CommitKind, Committable, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.store import Pause
from penstock.ports.tables import Table, TableState, Verdict
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.keyed.soft import are_until

_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class PurgedRows:
    """Rows of deleted keys on one state: how many in how many files, and when they were deleted."""

    rows: int
    files: int
    oldest: datetime | None = None
    newest: datetime | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PurgeableRows:
    """What a purge takes away on one state; `searched` are its live files by path."""

    rows: PurgedRows
    row_deletes: tuple[RowDeletes, ...]
    searched: Mapping[str, LiveFile]


@dataclass(slots=True)
class PurgeSearch:
    """Looks for the rows of keys that were deleted until `through_ms`, state after state.

    `flag` and `time` are the columns of a deleted row.
    """

    flag: str
    time: str
    through_ms: int
    _known: dict[tuple[str, str], _Found] = field(default_factory=dict)

    def find(self, table: Table, state: TableState) -> PurgeableRows:
        """Find the rows in a state. Raises what reading the table raises."""
        examined = {(file.path, file.delete_state): file for file in table.live_files(state)}
        self._known = {at: found for at, found in self._known.items() if at in examined}
        for at, file in examined.items():
            if at not in self._known:
                self._known[at] = self._found(table, state, file)
        hits = {at: found for at, found in self._known.items() if len(found.positions)}
        times = [each for found in hits.values() for each in found.times]
        rows = PurgedRows(
            rows=sum(len(found.positions) for found in hits.values()),
            files=len(hits),
            oldest=min(times, default=None),
            newest=max(times, default=None),
        )
        return PurgeableRows(
            rows,
            tuple(RowDeletes(*at, found.positions) for at, found in hits.items()),
            {file.path: file for file in examined.values()},
        )

    def _found(self, table: Table, state: TableState, file: LiveFile) -> _Found:
        if file.nulls.get(self.time) == file.rows or self._is_later(file.bounds):
            return _NONE
        columns = [self.flag, self.time]
        batches = [*table.read_live(state, file, columns, self._sought)]
        positions = np.concatenate(
            [np.zeros(0, np.int64), *(each.column(POSITION).to_numpy() for each in batches)]
        )
        if not len(positions):
            return _NONE
        times = pa.concat_arrays([each.column(self.time).cast(_TIME) for each in batches])
        return _Found(positions, tuple(each.as_py() for each in pc.min_max(times).values()))

    def _sought(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the places of flagged rows whose time is old enough."""
        flag, time = rows.column(self.flag), rows.column(self.time)
        flagged = mask_of(flag.cast(pa.bool_()).fill_null(False))
        return np.flatnonzero(flagged & are_until(time, self.through_ms))

    def _is_later(self, bounds: Mapping[str, tuple[object, object]]) -> bool:
        least, _ = bounds.get(self.time, (None, None))
        through = datetime.fromtimestamp(self.through_ms / 1000, UTC)
        return isinstance(least, datetime) and least.tzinfo is not None and least > through


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    positions: npt.NDArray[np.int64]
    times: tuple[datetime, ...] = ()


_NONE = _Found(np.zeros(0, np.int64))


def purge_rows(
    search: PurgeSearch,
    chain: Chain,
    table: Table,
    context: CommitContext,
    *,
    attempt: str,
    pauses: Callable[[], Iterable[Pause]],
) -> PurgedRows:
    """Take the rows away in one commit; return them. Where there is none, nothing is committed.

    `attempt` is this purge's own name, `pauses` asks which tables are paused now. Raises
    UnavailableError (P288 others commit all the time, P445 the table is paused), InvalidError
    (P461 nothing has landed), DecisionNeededError (rollback, P265), and what reading and committing
    raise.
    """
    purged: PurgedRows | None = None
    rewriting, rewriter = context.rewriting.get(chain.table), None
    for turn in attempts(context):
        state = table.state(chain)
        landed = sound_ledger(chain, state)
        commit = purge_commit(search, position_at(table, chain, state), landed, attempt=attempt)
        if purged is not None and landed.digest_of(commit.commit_id) is not None:
            return purged
        context.observer.passed(CrashPoint.RESOLVE_BEFORE)
        found = search.find(table, state)
        context.observer.passed(CrashPoint.RESOLVE_AFTER)
        row_deletes = found.row_deletes
        if not row_deletes:
            return found.rows
        if rewriting is not None:
            rewriter = rewriter or FileRewriter(commit, rewriting, context.observer)
            row_deletes = rewriter.rewrite(state, table, row_deletes, found.searched)
        context.pauses.know(pauses())
        attempt_once(commit, state, table, context, turn, row_deletes=row_deletes)
        purged = found.rows
    raise UnavailableError(
        f"{chain.table}: {context.turns_max} attempts to purge met a changed table or no answer",
        code="P288",
        hint="try again; until when the table was purged, says  penstock status",
    )


def purge_commit(
    search: PurgeSearch, position: ChainPosition, landed: Landed, *, attempt: str
) -> Committable:
    """Return the commit of a purge: it moves no position, and keeps the claim of the ledger."""
    labels = CommitLabels(landed.claim, landed.cluster_id, NO_EPOCH, landed.rules_hash, attempt)
    return commit_at(
        position,
        {},
        (),
        labels,
        kind=CommitKind.PURGE,
        nonce=f"purge:{attempt}",
        purged_through_ms=search.through_ms,
    )


def sound_ledger(chain: Chain, state: TableState) -> Landed:
    """Return the ledger of a table whose rows may be purged.

    Raises InvalidError (P461 nothing has landed), DecisionNeededError (P455 rolled back).
    """
    if state.landed is None or state.landed.keyed is None:
        raise no_changes(chain.table)
    if state.verdict is not Verdict.AGREED:
        raise rolled_back(chain.table, state.evidence)
    return state.landed


def no_changes(table: str) -> InvalidError:
    """Return the error of a table in which nothing was changed yet."""
    return InvalidError(
        f"{table} has no changes of this pipeline, so no key was deleted in it",
        code="P461",
        hint="nothing has landed in it yet; see  penstock status",
    )
