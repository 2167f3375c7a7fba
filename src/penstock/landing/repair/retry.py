"""Close refused records: land them after all, once, or give them up (docs/design/0100).

The way of a retry: the records are converted by the present rules; closings are landed in the
quarantine, numbered on; then each table that follows lands the rows of the closings it has not
followed yet, and its ledger says how far it came.

Invariants:
- a record is landed only where its closing is in the quarantine, and a closing whose rows did not
  land is found by its number and finished before anything else;
- nothing of a table is decided before what was pending for it is settled, and an attempt in flight
  is dead before its closings are decided on again;
- a record that does not fit is left as it is: refused, and open;
- of what a route refused for a reason that another look need not find again, nothing is landed in a
  table that has judged it by itself (docs/design/0240).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.chain_position import ChainPosition, commit_at
from penstock.core.commits import CommitKind, Committable, DataFile, Landed
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
from penstock.ports.tables import FileWriter, Table, TableState
from penstock.rows.quarantine.status import (
    Resolved,
    resolution_rows,
)


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What a retry did: rows landed by table, and records still refused by code.

    `finished` counts those of the landed whose closing an earlier retry had made.
    """

    landed: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0


@dataclass(frozen=True, slots=True)
class QuarantineResolver:
    """Closes refused records of one table, or of one route, of a pipeline that is held."""

    held: ExclusiveAccess
    context: WriteContext
    name: str

    def retry(self, choice: Selection) -> RetryResult:
        """Land records that fit by now, those first that an earlier retry left unfinished.

        Raises what keeps a table from being opened, and what `commit.once.land` raises.
        """
        track = self.held.settle_pending(self.name)
        followers = self._followers(track)
        landed: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        finished = self._finish(track, followers, refused)
        landed.update(finished)
        fates = retryable(read_quarantine_status(self.held.tables.quarantine, track), choice)
        for records in batches(fates):
            judged = self._reconverted(track, followers, records)
            closed = [each.resolved(Resolution.RETRIED, into) for each, into in judged.landed()]
            refused.update(reject.code for reject in judged.rejects.values())
            if closed:
                self._resolve(track.quarantine, closed)
                landed.update(self._land_resolved(track, followers, judged))
        return RetryResult(dict(landed), dict(refused), sum(finished.values()))

    def drop(self, choice: Selection) -> int:
        """Drop records; return how many. Raises like `retry`."""
        track = self.held.settle_pending(self.name)
        count = 0
        for records in batches(
            selected(read_quarantine_status(self.held.tables.quarantine, track), choice)
        ):
            closed = [each.resolved(Resolution.DROPPED, "") for each in records]
            self._resolve(track.quarantine, closed)
            count += len(closed)
        return count

    def reopen(self, rejects: ChainPosition, fates: pa.Table, why: str) -> None:
        """Close records anew as open, whatever was decided of them; `rejects` is their chain.

        Nothing else of their table is touched, which may be parked. Raises like `retry`.
        """
        for records in batches(fates):
            self._resolve(rejects, [each.resolved(Resolution.REOPENED, why) for each in records])

    def _followers(self, track: TableProgress) -> list[TableProgress]:
        """Return the tables whose rows these records may become."""
        if not track.target.is_route:
            return [track]
        return [self.held.settle_pending(name) for name in sorted(track.route_tables or ())]

    def _finish(
        self, track: TableProgress, followers: Sequence[TableProgress], refused: Counter[str]
    ) -> Counter[str]:
        """Land what was closed and did not land; what fits no more is open again."""
        fates = read_quarantine_status(self.held.tables.quarantine, track)
        landed: Counter[str] = Counter()
        for follower in followers:
            if not self._unfinished(follower, fates):
                continue
            # What is in flight can land no more.
            self.held.tables.take_over_chains(follower, self.held.claim.commit_context)
            for records in batched(iter(self._unfinished(follower, fates))):
                judged = self._reconverted(track, [follower], records)
                again = [
                    replace(each, code=reject.code).resolved(Resolution.REOPENED, reject.message)
                    for each, reject in judged.rejects.items()
                ]
                refused.update(each.code for each in again)
                if again:
                    self._resolve(track.quarantine, again)
                landed.update(
                    self._land_resolved(track, [follower], judged, upto=records[-1].resolution)
                )
        return landed

    def _unfinished(self, follower: TableProgress, fates: pa.Table) -> list[Record]:
        """List, by number, what was closed into a table that has not followed so far."""
        if follower.position is None:
            return []
        reached = _position(_state(follower.position), self._log)
        mine = pc.and_(
            pc.equal(fates["into"], follower.name), pc.greater_equal(fates["closing"], reached)
        )
        found = fates.filter(pc.fill_null(mine, fill_value=False))
        return sorted(records_in(found), key=lambda each: each.resolution)

    def _reconverted(
        self, track: TableProgress, followers: Sequence[TableProgress], records: Sequence[Record]
    ) -> Reconverted:
        return reconverted(self.held.tables.quarantine, track, followers, records, self.context)

    def _resolve(self, standing: ChainPosition, closed: Sequence[Resolved]) -> None:
        """Land closings in the quarantine, numbered on."""
        world = self.held.environment
        state = _state(standing)
        first = _position(state, self._log)
        rows = resolution_rows(
            closed,
            pipeline=self.held.settings.pipeline,
            table=self.name,
            first=first,
            at_ms=world.clock.now_ms(),
        )
        connector = self.held.settings.quarantine.connector
        files = self._written(connector, state, [rows])
        self._land(self._commit(standing, state, files, first + len(closed)), standing.table)

    def _land_resolved(
        self,
        track: TableProgress,
        followers: Sequence[TableProgress],
        judged: Reconverted,
        upto: int | None = None,
    ) -> Counter[str]:
        """Land the rows of closings in their tables; `upto` is the last number they are of."""
        stop = _position(_state(track.quarantine), self._log) if upto is None else Offset(upto + 1)
        landed: Counter[str] = Counter()
        for each in followers:
            rows = judged.rows.get(each.name, ())
            if upto is None and not rows:
                continue
            assert each.position is not None, "rows were made for a table that is there"
            state = _state(each.position)
            files = self._written(each.target.location.connector, state, rows) if rows else ()
            commit = self._commit(each.position, state, files, stop)
            self._land(commit, each.position.table)
            landed[each.name] += sum(batch.num_rows for batch in rows)
        return landed

    @property
    def _log(self) -> TopicPartition:
        return resolutions_of(self.name)

    def _written(
        self, connector: str, state: TableState, rows: Sequence[pa.RecordBatch]
    ) -> tuple[DataFile, ...]:
        world = self.held.environment
        prefix = f"{self.held.settings.pipeline}-closing-{world.token()}"
        opened = self.context.writers[connector](
            state.target, prefix=prefix, observer=world.observer
        )
        return _all_written(opened, rows)

    def _commit(
        self, standing: ChainPosition, state: TableState, files: tuple[DataFile, ...], stop: int
    ) -> Committable:
        landed, log = _ledger(standing, state), self._log
        start = _position(state, log)
        covered = {log: span(start, stop)}
        # The rules that count for its topics are not touched.
        labels = self.held.labels(self.held.environment.token(), landed.rules_hash)
        at = replace(standing, schema_id=state.schema_id, segment=landed.segment)
        named = tuple(replace(file, ranges=covered) for file in files)
        origins = {} if log in landed.offsets else {log: Offset(0)}
        kind = CommitKind.APPEND if files else CommitKind.ANCHOR
        return commit_at(at, covered, named, labels, kind=kind, origins=origins)

    def _land(self, commit: Committable, table: Table) -> None:
        """Prepare a commit and land it. Raises UnavailableError when another was faster."""
        world, held = self.held.environment, self.held
        world.observer.passed(CrashPoint.PREPARE_BEFORE)
        world.store.prepare(held.settings.pipeline, held.claim.claim, (commit,), {})
        world.observer.passed(CrashPoint.PREPARE_AFTER)
        (landing,) = held.claim.two_phase.recover([(commit, table)])
        if not landing.landed:
            raise UnavailableError(
                f"{self.name}: {landing.reason}",
                code="P491",
                hint="the table changed meanwhile: try again",
            )


def _state(standing: ChainPosition) -> TableState:
    return standing.table.state(standing.chain)


def _position(state: TableState, log: TopicPartition) -> Offset:
    return Offset(0) if state.landed is None else state.landed.offsets.get(log, Offset(0))


def _ledger(standing: ChainPosition, state: TableState) -> Landed:
    if state.landed is None:
        raise InvalidError(
            f"nothing has landed in {standing.chain.table} for {standing.chain.name}",
            code="P492",
            hint="run the pipeline first:  penstock run --until-caught-up",
        )
    return state.landed


def _all_written(writer: FileWriter, rows: Sequence[pa.RecordBatch]) -> tuple[DataFile, ...]:
    for batch in rows:
        writer.write(batch)
    return tuple(writer.close())
