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
- a change of a keyed table is not landed late: what came after it would be undone;
- of what a route refused for a reason that another read need not find again, nothing is landed in a
  table that has decided on it by itself (docs/design/0240).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.chain_position import ChainPosition, commit_at
from penstock.core.commits import CommitKind, DataFile, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.core.resolutions import Resolution, resolutions_of
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.reconvert import Reconverted, Record, WriteContext, reconverted
from penstock.landing.repair.selection import (
    Selection,
    batched,
    batches,
    read_quarantine_status,
    records_in,
    retryable,
    selected,
)
from penstock.landing.tables.progress import TableProgress
from penstock.ports.tables import TableState
from penstock.rows.quarantine.status import Resolved, resolution_rows


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What a retry did: rows landed by table, and records still refused by code.

    `finished` counts those of the landed that an earlier retry had resolved.
    """

    landed: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0


@dataclass(frozen=True, slots=True)
class QuarantineResolver:
    """Resolves refused records of one table, or of one route, of a pipeline that is held."""

    held: ExclusiveAccess
    context: WriteContext
    name: str

    def retry(self, choice: Selection) -> RetryResult:
        """Land records that fit by now, those first that an earlier retry left unfinished.

        Raises InvalidError (P484) for a keyed table, what keeps a table from being opened, and what
        `commit.land.land` raises.
        """
        progress, quarantine = self.held.settle_pending(self.name), self.held.tables.quarantine
        require_appends(progress)
        followers = [progress]
        if progress.target.is_route:  # then its tables are what these records may become rows of
            names = sorted(progress.route_tables or ())
            followers = [self.held.settle_pending(name) for name in names]
        refused: Counter[str] = Counter()
        finished = self._finish(progress, followers, refused)
        landed = finished.copy()
        statuses = retryable(read_quarantine_status(quarantine, progress), choice)
        for records in batches(statuses):
            found = reconverted(quarantine, progress, followers, records, self.context)
            resolved = [each.resolved(Resolution.RETRIED, into) for each, into in found.landed()]
            refused.update(reject.code for reject in found.rejects.values())
            if resolved:
                self._resolve(progress.quarantine, resolved)
                landed.update(self._land_resolved(progress, followers, found))
        return RetryResult(dict(landed), dict(refused), sum(finished.values()))

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
        self, progress: TableProgress, followers: Sequence[TableProgress], refused: Counter[str]
    ) -> Counter[str]:
        """Land what was resolved and did not land; what fits no more is open again."""
        quarantine = self.held.tables.quarantine
        statuses = read_quarantine_status(quarantine, progress)
        landed: Counter[str] = Counter()
        for follower in followers:
            if not self._unfinished(follower, statuses):
                continue
            # What is in flight can land no more.
            self.held.tables.take_over_chains(follower, self.held.claim.commit_context)
            for records in batched(iter(self._unfinished(follower, statuses))):
                found = reconverted(quarantine, progress, [follower], records, self.context)
                again = [
                    replace(each, code=reject.code).resolved(Resolution.REOPENED, reject.message)
                    for each, reject in found.rejects.items()
                ]
                refused.update(each.code for each in again)
                if again:
                    self._resolve(progress.quarantine, again)
                stop = Offset(records[-1].resolution + 1)
                landed.update(self._land_resolved(progress, [follower], found, stop))
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
        found: Reconverted,
        stop: Offset | None = None,
    ) -> Counter[str]:
        """Land rows of resolutions in their tables; without `stop`, where there are any, of all."""
        upto = _position(progress.quarantine.read(), self._log) if stop is None else stop
        landed: Counter[str] = Counter()
        for each in followers:
            rows = found.rows.get(each.name, ())
            if stop is None and not rows:
                continue
            assert each.position is not None, "rows were made for a table that is there"
            state = each.position.read()
            files = self._written(each.target.location.connector, state, rows) if rows else ()
            self._land(each.position, state, files, upto)
            landed[each.name] += sum(batch.num_rows for batch in rows)
        return landed

    @property
    def _log(self) -> TopicPartition:
        return resolutions_of(self.name)

    def _written(
        self, connector: str, state: TableState, rows: Sequence[pa.RecordBatch]
    ) -> tuple[DataFile, ...]:
        environment = self.held.environment
        prefix = f"{self.held.settings.pipeline}-closing-{environment.token()}"
        writer = self.context.writers[connector](
            state.target, prefix=prefix, observer=environment.observer
        )
        for batch in rows:
            writer.write(batch)
        return tuple(writer.close())

    def _land(
        self, position: ChainPosition, state: TableState, files: tuple[DataFile, ...], stop: int
    ) -> None:
        held, environment, log = self.held, self.held.environment, self._log
        landed = _ledger(position, state)
        covered = {log: span(_position(state, log), stop)}
        commit = commit_at(
            replace(position, schema_id=state.schema_id, segment=landed.segment),
            covered,
            tuple(replace(file, ranges=covered) for file in files),
            # The rules that count for its topics are not touched.
            held.labels(environment.token(), landed.rules_hash),
            kind=CommitKind.APPEND if files else CommitKind.ANCHOR,
            origins={} if log in landed.offsets else {log: Offset(0)},
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


def require_appends(progress: TableProgress) -> None:
    """Raise InvalidError (P484) for a keyed table: a retry may undo later changes."""
    if progress.target.options.keys:
        raise InvalidError(
            f"{progress.name} is a keyed table: later changes of a rejected record's key may have"
            " landed, and it would undo them",
            code="P484",
            hint="let the producer send what is missing again, and give the record up:"
            f"  penstock quarantine drop {progress.name}",
        )


def _position(state: TableState, log: TopicPartition) -> Offset:
    return Offset(0) if state.landed is None else state.landed.offsets.get(log, Offset(0))


def _ledger(position: ChainPosition, state: TableState) -> Landed:
    if state.landed is None:
        raise InvalidError(
            f"nothing has landed in {position.chain.table} for {position.chain.name}",
            code="P492",
            hint="run the pipeline first:  penstock run --until-caught-up",
        )
    return state.landed
