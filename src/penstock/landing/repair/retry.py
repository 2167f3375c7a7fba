"""Resolve refused records: land them after all, once, or give them up (docs/design/0100).

A retry converts the records by the present rules, and lands their resolutions in the quarantine,
numbered on. Then each table lands the rows of the resolutions that it has not applied yet, and its
ledger says up to which number it has.

Invariants:
- a record is landed only where its resolution is in the quarantine; a resolution whose rows did not
  land is found by its number, and finished before anything else;
- nothing of a table is decided before what was pending for it is settled, and an attempt in flight
  is dead before its resolutions are decided on again;
- a record that does not fit is left as it is: refused, and open;
- a change of a keyed table is landed only where it wins against the rows that are there: else it
  stays open (docs/design/0249);
- of what a route refused for a reason that another read need not find again, nothing is landed in a
  table that has decided on it by itself (docs/design/0240).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.chain_position import ChainPosition, commit_at
from penstock.core.commits import CommitKind, DataFile
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.core.resolutions import Resolution, resolutions_of
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.keyed_retry import WORDS, Tried, ledger_of, tried
from penstock.landing.repair.reconvert import Record, WriteContext
from penstock.landing.repair.selection import (
    Selection,
    batched,
    batches,
    read_quarantine_status,
    records_in,
    retryable,
    selected,
)
from penstock.landing.settings import TableTarget
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.changes import touched_by
from penstock.ports.tables import TableState
from penstock.ports.writers import FileWriter
from penstock.rows.keyed.touched import Retry
from penstock.rows.quarantine.status import Resolved, resolution_rows


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What a retry did: rows landed by table, and records still refused by code.

    `finished` counts those of the landed that an earlier retry had resolved, `withheld` by their
    fate the records of a keyed table that do not win: they stay open.
    """

    landed: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0
    withheld: Mapping[str, int] = field(default_factory=dict)


class RowDelta(NamedTuple):
    """The keys that a commit touches, and the columns of the key and of the sequence."""

    touched: bytes
    keys: tuple[str, ...]
    sequence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuarantineResolver:
    """Resolves refused records of one table, or of one route, of a pipeline that is held."""

    held: ExclusiveAccess
    context: WriteContext
    name: str

    def retry(self, choice: Selection, retry: Retry = Retry.REPLACES) -> RetryResult:
        """Land records that fit by now, those first that an earlier retry left unfinished.

        `retry` says whether a change of a keyed table may bring a row for a key that has none.
        Raises InvalidError (P267 that was asked of a table that appends), what keeps a table from
        being opened, and what `commit.land.land` raises.
        """
        progress, quarantine = self.held.settle_pending(self.name), self.held.tables.quarantine
        require_keys_to_insert(progress, retry)
        followers = [progress]
        if progress.target.is_route:  # then its tables are what these records may become rows of
            names = sorted(progress.route_tables or ())
            followers = [self.held.settle_pending(name) for name in names]
        refused, withheld = Counter[str](), Counter[str]()
        finished = self._finish(progress, followers, refused, retry)
        landed = finished.copy()
        statuses = retryable(read_quarantine_status(quarantine, progress), choice)
        for records in batches(statuses):
            done = tried(quarantine, progress, followers, records, self.context, retry=retry)
            found = done.found
            resolved = [each.resolved(Resolution.RETRIED, into) for each, into in found.landed()]
            refused.update(reject.code for reject in found.rejects.values())
            withheld.update(fate.name.lower() for fate in done.withheld.values())
            if resolved:
                self._resolve(progress.quarantine, resolved)
                landed.update(self._land_resolved(progress, followers, done, retry))
        return RetryResult(dict(landed), dict(refused), sum(finished.values()), dict(withheld))

    def drop(self, choice: Selection) -> int:
        """Drop records; return how many. Raises like `retry`."""
        progress = self.held.settle_pending(self.name)
        statuses = read_quarantine_status(self.held.tables.quarantine, progress)
        count = 0
        for records in batches(selected(statuses, choice)):
            resolved = [each.resolved(Resolution.DROPPED, "") for each in records]
            self._resolve(progress.quarantine, resolved)
            count += len(resolved)
        return count

    def reopen(self, rejects: ChainPosition, statuses: pa.Table, reason: str) -> None:
        """Resolve records anew as open, whatever was decided of them; `rejects` is their chain.

        Nothing else of their table is touched, which may be parked. Raises like `retry`.
        """
        for records in batches(statuses):
            self._resolve(rejects, [each.resolved(Resolution.REOPENED, reason) for each in records])

    def _finish(
        self,
        progress: TableProgress,
        followers: Sequence[TableProgress],
        refused: Counter[str],
        retry: Retry,
    ) -> Counter[str]:
        """Land what was resolved and did not land; what fits or wins no more is open again."""
        quarantine = self.held.tables.quarantine
        statuses = read_quarantine_status(quarantine, progress)
        landed: Counter[str] = Counter()
        for follower in followers:
            if not self._unfinished(follower, statuses):
                continue
            # What is in flight can land no more.
            self.held.tables.take_over_chains(follower, self.held.claim.commit_context)
            for records in batched(iter(self._unfinished(follower, statuses))):
                done = tried(quarantine, progress, [follower], records, self.context, retry=retry)
                again = [
                    replace(each, code=reject.code).resolved(Resolution.REOPENED, reject.message)
                    for each, reject in done.found.rejects.items()
                ]
                refused.update(each.code for each in again)
                again += [
                    each.resolved(Resolution.REOPENED, WORDS[fate])
                    for each, fate in done.withheld.items()
                ]
                if again:
                    self._resolve(progress.quarantine, again)
                stop = Offset(records[-1].resolution + 1)
                landed.update(self._land_resolved(progress, [follower], done, retry, stop))
        return landed

    def _unfinished(self, follower: TableProgress, statuses: pa.Table) -> list[Record]:
        if follower.position is None:
            return []
        reached = _position(follower.position.read(), self._log)
        mine = pc.and_(
            pc.equal(statuses["into"], follower.name),
            pc.greater_equal(statuses["closing"], reached),
        )
        found = statuses.filter(pc.fill_null(mine, fill_value=False))
        return sorted(records_in(found), key=lambda each: each.resolution)

    def _resolve(self, rejects: ChainPosition, resolved: Sequence[Resolved]) -> None:
        settings, state = self.held.settings, rejects.read()
        first = _position(state, self._log)
        rows = resolution_rows(
            resolved,
            pipeline=settings.pipeline,
            table=self.name,
            first=first,
            at_ms=self.held.environment.clock.now_ms(),
        )
        files = self._written(settings.quarantine.connector, state, [rows])
        self._land(rejects, state, files, first + len(resolved))

    def _land_resolved(
        self,
        progress: TableProgress,
        followers: Sequence[TableProgress],
        done: Tried,
        retry: Retry,
        stop: Offset | None = None,
    ) -> Counter[str]:
        """Land rows of resolutions in their tables; without `stop`, where there are any, of all."""
        upto = _position(progress.quarantine.read(), self._log) if stop is None else stop
        landed: Counter[str] = Counter()
        for each in followers:
            rows, changes = done.found.rows.get(each.name, ()), done.changes
            if stop is None and not rows and changes is None:
                continue
            assert each.position is not None, "rows were made for a table that is there"
            state, connector = each.position.read(), each.target.location.connector
            files: tuple[DataFile, ...] = ()
            delta = None
            if changes is not None:
                files, delta = self._written_changes(each.target, state, done, retry)
            elif rows:
                files = self._written(connector, state, rows)
            self._land(each.position, state, files, upto, delta)
            landed[each.name] += len(done.found.coordinates.get(each.name, ()))
        return landed

    @property
    def _log(self) -> TopicPartition:
        return resolutions_of(self.name)

    def _written(
        self, connector: str, state: TableState, rows: Sequence[pa.RecordBatch]
    ) -> tuple[DataFile, ...]:
        writer = self._writer(connector, state)
        for batch in rows:
            writer.write(batch)
        return tuple(writer.close())

    def _written_changes(
        self, target: TableTarget, state: TableState, done: Tried, retry: Retry
    ) -> tuple[tuple[DataFile, ...], RowDelta]:
        """Write the rows of changes, and what keys they touch."""
        changes, options = done.changes, target.options
        assert changes is not None, "there is something to write"
        count, upserts = len(changes.offset), changes.upsert
        file, row = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
        files: tuple[DataFile, ...] = ()
        if upserts.any():
            writer = self._writer(target.location.connector, state, places=True)
            writer.write(changes.rows.filter(pa.array(upserts)))
            files = tuple(writer.close())
            file[upserts], row[upserts] = writer.places()
        touched = touched_by(changes, options, done.found.lanes, (file, row), retry)
        return files, RowDelta(touched, options.keys, options.sequence)

    def _writer(self, connector: str, state: TableState, *, places: bool = False) -> FileWriter:
        environment = self.held.environment
        prefix = f"{self.held.settings.pipeline}-closing-{environment.token()}"
        return self.context.writers[connector](
            state.target, prefix=prefix, observer=environment.observer, places=places
        )

    def _land(
        self,
        position: ChainPosition,
        state: TableState,
        files: tuple[DataFile, ...],
        stop: int,
        delta: RowDelta | None = None,
    ) -> None:
        held, environment, log = self.held, self.held.environment, self._log
        landed = ledger_of(position, state)
        covered = {log: span(_position(state, log), stop)}
        commit = commit_at(
            replace(position, schema_id=state.schema_id, segment=landed.segment),
            covered,
            tuple(replace(file, ranges=covered) for file in files),
            # The rules that count for its topics are not touched.
            held.labels(environment.token(), landed.rules_hash),
            kind=(
                CommitKind.ROW_DELTA if delta else CommitKind.APPEND if files else CommitKind.ANCHOR
            ),
            origins={} if log in landed.offsets else {log: Offset(0)},
            touched=delta.touched if delta else None,
            keys=delta.keys if delta else (),
            sequence=delta.sequence if delta else (),
        )
        environment.observer.passed(CrashPoint.PREPARE_BEFORE)
        environment.store.prepare(held.settings.pipeline, held.claim.claim, (commit,), {})
        environment.observer.passed(CrashPoint.PREPARE_AFTER)
        (landing,) = held.claim.two_phase.recover([(commit, position.table)])
        if not landing.landed:
            raise UnavailableError(
                f"{self.name}: {landing.reason}",
                code="P491",
                hint="the table changed meanwhile: try again",
            )


def require_keys_to_insert(progress: TableProgress, retry: Retry) -> None:
    """Raise InvalidError (P267) where rows are to be inserted by key in a table that appends."""
    if retry is Retry.INSERTS and progress.target.options.keyed is None:
        raise InvalidError(
            f"{progress.name} appends: it lands every record as a row, whatever rows it has",
            code="P267",
            hint=f"leave --insert away:  penstock quarantine retry {progress.name}",
        )


def _position(state: TableState, log: TopicPartition) -> Offset:
    return Offset(0) if state.landed is None else state.landed.offsets.get(log, Offset(0))
