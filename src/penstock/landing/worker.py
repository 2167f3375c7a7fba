"""The worker's body: read lanes, turn bytes into rows, write files, keep the books.

Invariants:
- every record examined is landed, filtered with a reason or quarantined with a code, per table;
- a lane that stops early is reported with the position it reached; nothing behind it is written;
- nothing is deleted, and no table is opened or committed here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import BugError, InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.planning import Lane
from penstock.core.schema import Schema, Struct, join
from penstock.landing.jobs import Coordinate, Job, LaneResult, Result, TableJob
from penstock.ports.log import Fetched, RangeReader
from penstock.ports.running import Clock, Observer
from penstock.ports.tables import FileWriter, WriterFactory
from penstock.rows.batches import later, newest_ms
from penstock.rows.codes import MEANINGS, Code
from penstock.rows.convert import Converted, Reject, convert
from penstock.rows.infer import infer
from penstock.rows.quarantine import quarantine_rows, without

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker works with; `writers` by connector name."""

    reader: RangeReader
    writers: Mapping[str, WriterFactory]
    observer: Observer
    clock: Clock


def work(job: Job, tools: Tools) -> Result:
    """Do one job. Raises what readers and writers raise; then files may be left over."""
    began = tools.clock.monotonic()
    deadline = began + job.timeout_seconds
    bench = _Bench(job, tools)
    lanes = [_read(lane, bench, deadline) for lane in job.lanes]
    files, rejects = bench.finish(lanes)
    return Result(
        number=job.number,
        lanes=tuple(lanes),
        files=files,
        rejects=rejects,
        tallies=bench.tallies,
        schemas=bench.schemas,
        failed=bench.failed,
        seconds=tools.clock.monotonic() - began,
    )


def _read(lane: Lane, bench: _Bench, deadline: float) -> LaneResult:
    reached, records, size_bytes, newest = lane.covered.start, 0, 0, None
    leader_epoch = bench.job.leader_epochs.get(lane.at)
    try:
        for fetched in bench.tools.reader.read(
            lane.at,
            lane.covered,
            deadline=deadline,
            headers=bench.wants_headers(lane),
            leader_epoch=leader_epoch,
        ):
            bench.take(lane, fetched)
            reached = fetched.reached
            records += fetched.batch.num_rows
            size_bytes += fetched.batch.nbytes
            newest = later(newest, newest_ms(fetched.batch))
            leader_epoch = later(leader_epoch, fetched.leader_epoch)
    except BugError:
        raise
    except PenstockError as error:  # the log refused this lane: its tables go without it
        for name in lane.tables:
            bench.fail(name, error)
    return LaneResult(lane, Offset(reached), records, size_bytes, newest, leader_epoch)


@dataclass(slots=True)
class _Bench:
    """The open writers and books of one job."""

    job: Job
    tools: Tools
    schemas: dict[str, Schema] = field(default_factory=dict)
    tallies: dict[str, dict[TopicPartition, Tally]] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    _writers: dict[str, FileWriter] = field(default_factory=dict)
    _rejects: dict[str, FileWriter] = field(default_factory=dict)

    def wants_headers(self, lane: Lane) -> bool:
        """Tell whether a table of the lane has a column for headers."""
        tables = (self.job.tables[name] for name in lane.tables)
        return any("headers" in table.options.source_columns for table in tables)

    def take(self, lane: Lane, fetched: Fetched) -> None:
        """Turn one batch into rows of every table of its lane; equal work is done once."""
        if not fetched.batch.num_rows:
            return
        done: list[tuple[TableJob, Converted]] = []
        for name in lane.tables:
            table = self.job.tables[name]
            if self.job.survey:
                self._survey(name, fetched.batch)
                continue
            if name in self.failed:
                continue
            batch = without(fetched.batch, _already(table, lane.at))
            alike = next((c for t, c in done if _alike(t, table)), None)
            try:
                converted = alike or self._converted(table, batch, lane.at)
                done.append((table, converted))
                self._book(name, lane.at, batch, converted)
            except (UnavailableError, InvalidError) as error:
                self.fail(name, error)

    def fail(self, name: str, error: PenstockError) -> None:
        """Give up on one table in this job: what it wrote is left over, the others go on."""
        self.failed.setdefault(name, error)
        self.tallies.pop(name, None)
        for writers in (self._writers, self._rejects):
            writer = writers.pop(name, None)
            if writer is not None:
                writer.abandon()

    def _survey(self, name: str, batch: pa.RecordBatch) -> None:
        options = self.job.tables[name].options
        found = infer(
            batch,
            record_bytes_max=options.record_bytes_max,
            depth_max=options.depth_max,
            columns_max=self.job.columns_max,
        )
        joined, _ = join(self.schemas.get(name, Struct(())), found)
        assert isinstance(joined, Struct), "structs join to a struct"
        self.schemas[name] = joined

    def _converted(self, table: TableJob, batch: pa.RecordBatch, at: TopicPartition) -> Converted:
        converted = convert(batch, at=at, schema=table.schema, options=table.options)
        return converted if table.destination is not None else _nowhere(batch, converted)

    def _book(
        self, name: str, at: TopicPartition, batch: pa.RecordBatch, converted: Converted
    ) -> None:
        if converted.rows.num_rows:
            self._writer(name).write(converted.rows)
        if converted.rejects:
            rows = quarantine_rows(
                batch,
                converted.rejects,
                pipeline=self.job.pipeline,
                table=name,
                at=at,
                epoch=self.job.epoch,
                at_ms=self.job.now_ms,
            )
            self._reject_writer(name).write(rows)
        tally = Tally(
            examined=batch.num_rows,
            landed=converted.rows.num_rows,
            filtered=dict(converted.filtered),
            quarantined=_counted(converted.rejects),
        )
        books = self.tallies.setdefault(name, {})
        books[at] = books.get(at, Tally()) + tally

    def _writer(self, name: str) -> FileWriter:
        if name not in self._writers:
            destination = self.job.tables[name].destination
            assert destination is not None, "rows without a table are rejected before"
            self._writers[name] = self.tools.writers[destination.connector](
                destination.target, prefix=self.job.prefix, observer=self.tools.observer
            )
        return self._writers[name]

    def _reject_writer(self, name: str) -> FileWriter:
        if name not in self._rejects:
            destination = self.job.quarantine
            self._rejects[name] = self.tools.writers[destination.connector](
                destination.target, prefix=f"{self.job.prefix}-q", observer=self.tools.observer
            )
        return self._rejects[name]

    def finish(
        self, lanes: list[LaneResult]
    ) -> tuple[dict[str, tuple[DataFile, ...]], dict[str, tuple[DataFile, ...]]]:
        """Close all files and note the source ranges whose rows they may hold."""
        ranges: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for result in lanes:
            if result.reached > result.lane.covered.start:
                for name in result.lane.tables:
                    covered = OffsetRange(result.lane.covered.start, result.reached)
                    ranges[name][result.lane.at] = covered
        files = self._closed(self._writers, ranges)
        rejects = self._closed(self._rejects, ranges)
        return (
            {name: each for name, each in files.items() if name not in self.failed},
            {name: each for name, each in rejects.items() if name not in self.failed},
        )

    def _closed(
        self,
        writers: dict[str, FileWriter],
        ranges: Mapping[str, Mapping[TopicPartition, OffsetRange]],
    ) -> dict[str, tuple[DataFile, ...]]:
        files = {}
        for name, writer in list(writers.items()):
            try:
                files[name] = tuple(
                    replace(file, ranges=dict(ranges[name])) for file in writer.close()
                )
            except (UnavailableError, InvalidError) as error:
                self.fail(name, error)
        return files


def _alike(first: TableJob, second: TableJob) -> bool:
    """Tell whether two tables get the same rows from a batch."""
    return (
        first.schema == second.schema
        and first.options == second.options
        and first.already == second.already
        and (first.destination is None) == (second.destination is None)
    )


def _already(table: TableJob, at: TopicPartition) -> frozenset[int]:
    if not table.already:
        return frozenset()
    return frozenset(_offsets_at(table.already, at))


def _offsets_at(coordinates: frozenset[Coordinate], at: TopicPartition) -> list[int]:
    return [
        o
        for topic_id, partition, o in coordinates
        if (topic_id, partition) == (at.topic_id, at.partition)
    ]


def _nowhere(batch: pa.RecordBatch, converted: Converted) -> Converted:
    """Reject what would land in a table that does not exist and that no record gave columns.

    Raises UnavailableError when a record has a column after all: it was beyond what was surveyed.
    """
    if any(reject.code == Code.UNKNOWN_FIELD for reject in converted.rejects):
        raise UnavailableError(
            "records beyond those that were surveyed give the table columns",
            code="P462",
            hint="it is surveyed again in the next epoch",
        )
    refused = {reject.offset for reject in converted.rejects}
    fit = (
        []
        if not converted.rows.num_rows
        else [
            offset
            for offset, value in zip(
                batch.column("offset").to_pylist(),
                batch.column("value").is_null().to_pylist(),
                strict=True,
            )
            if offset not in refused and not value
        ]
    )
    meaning = MEANINGS[Code.NO_COLUMNS]
    rejects = [Reject(o, str(meaning.stage), str(Code.NO_COLUMNS), meaning.fact) for o in fit]
    return replace(
        converted,
        rows=converted.rows.slice(0, 0),
        rejects=tuple(sorted((*converted.rejects, *rejects), key=lambda reject: reject.offset)),
    )


def _counted(rejects: tuple[Reject, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reject in rejects:
        counts[reject.code] = counts.get(reject.code, 0) + 1
    return counts
