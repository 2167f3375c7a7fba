"""The files that a job writes, and its counts, by table.

Invariants:
- a table that fails gets nothing from this job, and the others go on;
- all writers together hold at most `held_bytes_max` and one portion of a batch: the fullest is
  finished early.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.landing.foreign_errors import WRITE, converting, failing_rows, range_text, ranges_text
from penstock.landing.task.context import TaskContext
from penstock.landing.task.coordinates import offsets_of
from penstock.landing.task.messages import Job, LaneResult
from penstock.landing.task.writer_pool import WriterPool
from penstock.ports.tables import FileWriter
from penstock.rows import bisection
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.quarantine.rows import quarantine_rows
from penstock.rows.route.router import Router

Files = dict[str, tuple[DataFile, ...]]
REASONS_MAX = 20
"""How many different messages of a table's rejects are counted in one job, the most frequent."""


@dataclass(slots=True)
class TaskOutput:
    """The open writers of one job, and what it counts."""

    job: Job
    context: TaskContext
    tallies: dict[str, dict[TopicPartition, Tally]] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    _rows: WriterPool = field(init=False)
    _rejects: WriterPool = field(init=False)

    def __post_init__(self) -> None:
        self._rows = WriterPool(self._writer, self.job.held_bytes_max)
        self._rejects = WriterPool(self._reject_writer, self.job.held_bytes_max)

    def count(self, name: str, at: TopicPartition, tally: Tally) -> None:
        """Add to the counts of a table and partition."""
        books = self.tallies.setdefault(name, {})
        books[at] = books.get(at, Tally()) + tally

    def write_rows(self, name: str, at: TopicPartition, converted: ConvertedBatch) -> None:
        """Write rows. Raises what writers raise; what nobody foresaw, with the rows that raise it.

        To find those, they are written again, to files that no commit knows.
        """
        try:
            self._rows.write(name, converted.rows)
        except bisection.UNEXPECTED_ERRORS:
            first, last = failing_rows(converted.rows, partial(self._try_rows, name))
            with converting(name, WRITE, range_text(at, converted.offsets[[first, last]])):
                raise

    def _try_rows(self, name: str, rows: pa.RecordBatch) -> None:
        writer = self._writer(name)
        try:
            writer.write(rows)
        finally:
            writer.abandon()

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
        self._rows.abandon(name)
        self._rejects.abandon(name)

    def finish(self, lanes: list[LaneResult]) -> tuple[Files, Files]:
        """Close all files and note the source ranges whose rows they may hold."""
        ranges: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for result in lanes:
            if result.reached > result.lane.covered.start:
                for name in result.lane.tables:
                    covered = OffsetRange(result.lane.covered.start, result.reached)
                    ranges[name][result.lane.at] = covered
        files = self._finished(self._rows, ranges)
        rejects = self._finished(self._rejects, ranges)
        return (
            {name: each for name, each in files.items() if name not in self.failed},
            {name: each for name, each in rejects.items() if name not in self.failed},
        )

    def _finished(
        self, shelf: WriterPool, ranges: Mapping[str, Mapping[TopicPartition, OffsetRange]]
    ) -> Files:
        files: Files = {}
        for name in shelf.names:
            try:
                with converting(name, WRITE, ranges_text(ranges[name])):
                    closed = shelf.close(name)
            except (UnavailableError, InvalidError, BugError) as error:
                self.fail(name, error)
                continue
            files[name] = tuple(replace(file, ranges=dict(ranges[name])) for file in closed)
        return files

    def _writer(self, name: str) -> FileWriter:
        destination = self.job.tables[name].write_target
        assert destination is not None, "rows without a table are rejected before"
        return self.context.writers[destination.connector](
            destination.target, prefix=self.job.prefix, observer=self.context.observer
        )

    def _reject_writer(self, _: str) -> FileWriter:
        destination = self.job.quarantine
        return self.context.writers[destination.connector](
            destination.target, prefix=f"{self.job.prefix}-q", observer=self.context.observer
        )
