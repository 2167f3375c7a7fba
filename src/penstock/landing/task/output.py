"""The files that a job writes, and its counts, by table.

Invariants:
- a table that fails gets nothing from this job, and the others go on;
- all writers together hold at most `held_bytes_max` and one portion of a batch: the fullest is
  finished early; so do the changes of keyed tables (changes.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.exchange import ExchangeFile
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.landing.foreign_errors import WRITE, converting, failing_rows, range_text, ranges_text
from penstock.landing.task.changes import ChangeBuffers
from penstock.landing.task.context import TaskContext
from penstock.landing.task.convert import Converted
from penstock.landing.task.coordinates import offsets_of
from penstock.landing.task.messages import Job, LaneResult, WriteTarget
from penstock.landing.task.share import exchange_of
from penstock.landing.task.writer_pool import WriterPool
from penstock.ports.exchange import ExchangeWriter
from penstock.ports.writers import FileWriter
from penstock.rows import bisection
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.keyed.changes import ChangeBatch
from penstock.rows.quarantine.rows import quarantine_rows
from penstock.rows.route.router import Router

Closed = TypeVar("Closed")
Described = TypeVar("Described", DataFile, ExchangeFile)
Files = dict[str, tuple[DataFile, ...]]
PARKS = (UnavailableError, InvalidError, DecisionNeededError, BugError)
"""The errors that keep one table from being served."""
REASONS_MAX = 20
"""How many different messages of a table's rejects are counted in one job, the most frequent."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a job wrote, by table: rows, rejects, rows that are to be exchanged, and the keys that
    it changes in keyed tables.
    """

    files: Files
    rejects: Files
    exchanged: Mapping[str, tuple[ExchangeFile, ...]]
    touched: Mapping[str, tuple[bytes, ...]]


@dataclass(slots=True)
class TaskOutput:
    """The open writers of one job, and what it counts."""

    job: Job
    context: TaskContext
    tallies: dict[str, dict[TopicPartition, Tally]] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    _rows: WriterPool[DataFile] = field(init=False)
    _exchanged: WriterPool[ExchangeFile] = field(init=False)
    _changes: ChangeBuffers = field(init=False)
    _rejects: WriterPool[DataFile] = field(init=False)

    def __post_init__(self) -> None:
        self._rows = WriterPool(self._writer, self.job.held_bytes_max)
        self._exchanged = WriterPool(self._exchange_writer, self.job.held_bytes_max)
        self._changes = ChangeBuffers(
            self.job, lambda name: self._writer(name, places=True), self._superseded
        )
        self._rejects = WriterPool(
            lambda _: self._opened(self.job.quarantine, "-q"), self.job.held_bytes_max
        )

    def count(self, name: str, at: TopicPartition, tally: Tally) -> None:
        """Add to the counts of a table and partition."""
        books = self.tallies.setdefault(name, {})
        books[at] = books.get(at, Tally()) + tally

    def write(self, name: str, at: TopicPartition, converted: Converted) -> int:
        """Take what a table gets of a portion; return how many records land, as far as is known.

        Raises what writers raise; unexpected errors with the rows that raise them. To find those,
        they are written again, to files that no commit knows.
        """
        match converted:
            case ConvertedBatch():
                if len(converted.offsets):
                    self._write_rows(name, at, converted)
                return len(converted.offsets)
            case ChangeBatch(changes=changes):
                self._changes.append(name, changes)
                self._shrink_changes(name)
                return int(changes.counts.sum())
            case _:
                assert_never(converted)

    def _shrink_changes(self, name: str) -> None:
        while full := self._changes.too_full:
            try:
                self._changes.shrink(full)
            except PARKS as error:
                if full == name:
                    raise
                self.fail(full, error)

    def _superseded(self, name: str, at: TopicPartition, count: int) -> None:
        self.count(name, at, Tally(landed=-count, superseded=count))

    def _write_rows(self, name: str, at: TopicPartition, converted: ConvertedBatch) -> None:
        try:
            pool = self._exchanged if name in self.job.exchanged else self._rows
            pool.write(name, converted.rows)
        except bisection.UNEXPECTED_ERRORS:

            def attempt(rows: pa.RecordBatch) -> None:
                writer = self._writer(name)
                try:
                    writer.write(rows)
                finally:
                    writer.abandon()

            first, last = failing_rows(converted.rows, attempt)
            with converting(name, WRITE, range_text(at, converted.offsets[[first, last]])):
                raise

    def write_rejects(self, name: str, router: Router, rejects: list[Reject]) -> None:
        """Write the rejected records of a table to the quarantine."""
        if not rejects:
            return
        reasons = self.reasons.get(name, Counter()) + Counter(each.message for each in rejects)
        self.reasons[name] = Counter(dict(reasons.most_common(REASONS_MAX)))
        rows = quarantine_rows(
            router.batch,
            rejects,
            pipeline=self.job.pipeline,
            table=name,
            at=router.at,
            epoch=self.job.epoch,
            at_ms=self.job.now_ms,
        )
        with converting(name, WRITE, range_text(router.at, offsets_of(router.batch))):
            self._rejects.write(name, rows)

    def fail(self, name: str, error: PenstockError) -> None:
        """Give up on one table in this job: what it wrote is left over, the others go on."""
        self.failed.setdefault(name, error)
        self.tallies.pop(name, None)
        self.reasons.pop(name, None)
        for held in (self._rows, self._exchanged, self._changes, self._rejects):
            held.abandon(name)

    def finish(self, lanes: list[LaneResult]) -> Written:
        """Close all files and note the source ranges of the rows that they may hold."""
        ranges: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for result in lanes:
            if result.reached > result.lane.covered.start:
                for name in result.lane.tables:
                    covered = OffsetRange(result.lane.covered.start, result.reached)
                    ranges[name][result.lane.at] = covered
        rows = self._finished(self._rows.names, self._rows.close, ranges)
        exchanged = self._finished(self._exchanged.names, self._exchanged.close, ranges)
        changes = self._finished(self._changes.names, self._changes.close, ranges)
        rejects = self._finished(self._rejects.names, self._rejects.close, ranges)
        files = {**rows, **{name: each.files for name, each in changes.items()}}
        return Written(
            {name: _of_ranges(each, ranges[name]) for name, each in self._whole(files).items()},
            {name: _of_ranges(each, ranges[name]) for name, each in self._whole(rejects).items()},
            {name: _of_ranges(each, ranges[name]) for name, each in self._whole(exchanged).items()},
            {name: each.touched for name, each in self._whole(changes).items()},
        )

    def _finished(
        self,
        names: Iterable[str],
        close: Callable[[str], Closed],
        ranges: Mapping[str, Mapping[TopicPartition, OffsetRange]],
    ) -> dict[str, Closed]:
        closed = {}
        for name in names:
            try:
                with converting(name, WRITE, ranges_text(ranges[name])):
                    closed[name] = close(name)
            except PARKS as error:
                self.fail(name, error)
        return closed

    def _whole(self, found: Mapping[str, Closed]) -> dict[str, Closed]:
        """Leave out the tables that failed, perhaps after they were closed."""
        return {name: each for name, each in found.items() if name not in self.failed}

    def _writer(self, name: str, *, places: bool = False) -> FileWriter:
        target = self.job.tables[name].write_target
        assert target is not None, "rows without a table are rejected before"
        return self._opened(target, places=places)

    def _exchange_writer(self, name: str) -> ExchangeWriter:
        target = self.job.tables[name].write_target
        assert target is not None, "rows without a table are rejected before"
        exchange = exchange_of(target, self.context.exchanges, self.context.observer)
        assert exchange is not None, "only rows of tables that are to be exchanged are"
        return exchange.writer(self.job.prefix)

    def _opened(self, target: WriteTarget, suffix: str = "", *, places: bool = False) -> FileWriter:
        prefix, observer = f"{self.job.prefix}{suffix}", self.context.observer
        open_writer, placing = self.context.writers[target.connector], target.placing
        return open_writer(
            target.target, prefix=prefix, observer=observer, places=places, placing=placing
        )


def _of_ranges(
    files: Iterable[Described], ranges: Mapping[TopicPartition, OffsetRange]
) -> tuple[Described, ...]:
    return tuple(replace(file, ranges=dict(ranges)) for file in files)
