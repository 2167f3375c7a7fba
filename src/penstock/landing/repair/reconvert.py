"""Convert refused records once more, by the present rules: rows or changes, and why others are
still refused.

Invariants: each record is in the rows of at most one table, or among the rejects; a record of which
the quarantine kept less than its table is to hold is never landed with a part missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.offsets import TopicPartition, span
from penstock.core.planning import Lane
from penstock.core.resolutions import Resolution
from penstock.landing.epoch.runner import table_job
from penstock.landing.repair.replay import NEEDED
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.convert import Converted, convert_records
from penstock.landing.task.coordinates import Coordinate, is_among, offsets_of
from penstock.landing.task.messages import TableJob
from penstock.ports.tables import Table
from penstock.ports.writers import WriterFactory
from penstock.rows.convert.batch import Reject
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.changes import ChangeBatch
from penstock.rows.keyed.net import Changes
from penstock.rows.quarantine.status import BYTES, NEVER, Resolved, records_of
from penstock.rows.reject_codes import TRANSIENT, RejectCode
from penstock.rows.route.compute import Functions, no_functions
from penstock.rows.route.router import Mask, Router, Routing

_UNWANTED = "no rule takes it for a table that is there"
_NO_HEADERS = "its headers were not kept, and the table or its rule reads them"
_NO_STAMP = "its time stamp was not kept"
_DECIDED = "its table has decided on it: see what is rejected for that table, then drop this one"


@dataclass(frozen=True, slots=True)
class Record:
    """Name one refused record and why it was refused.

    `resolution` is the number of the resolution that counts, or -1; `timestamp_ms_known` is whether
    its time stamp was kept.
    """

    at: TopicPartition
    offset: int
    code: str
    timestamp_ms_known: bool = True
    resolution: int = NEVER

    @property
    def coordinate(self) -> Coordinate:
        """Where it lies."""
        return (self.at.topic_id, self.at.partition, self.offset)

    @property
    def is_of_timestamp(self) -> bool:
        """Return whether it was refused with a time stamp that no table can hold."""
        return not self.timestamp_ms_known and self.code == RejectCode.OUT_OF_RANGE

    def resolved(self, status: Resolution, message: str) -> Resolved:
        """Return a resolution of it."""
        return Resolved(self.at, self.offset, status, self.code, message)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What rows are made with in this process: writers by connector, readers by a registry's
    settings, functions by their import path.
    """

    writers: Mapping[str, WriterFactory]
    readers: Callable[[Mapping[str, Any] | None], ReaderCache]
    functions: Functions = no_functions


@dataclass(slots=True)
class Reconverted:
    """What records are now: `rows` by table, their `coordinates`, and what is still refused.

    Of a keyed table they are `changes`, by the partitions `lanes`.
    """

    rows: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    lanes: tuple[TopicPartition, ...] = ()
    changes: list[Changes] = field(default_factory=list)
    coordinates: dict[str, list[Record]] = field(default_factory=dict)
    rejects: dict[Record, Reject] = field(default_factory=dict)

    def landed(self) -> Iterator[tuple[Record, str]]:
        """Yield the records that are rows now, with their tables."""
        return ((each, table) for table, found in self.coordinates.items() for each in found)


def reconverted(
    quarantine: Table,
    progress: TableProgress,
    followers: Sequence[TableProgress],
    records: Sequence[Record],
    context: WriteContext,
) -> Reconverted:
    """Read refused records back and convert them for the tables that are there. Writes nothing.

    Raises what `rows.convert.convert` raises, and UnavailableError.
    """
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for each in records:
        wanted[each.at].append(each.offset)
    spans = {at: span(min(offsets), max(offsets) + 1) for at, offsets in wanted.items()}
    ranges = [[at.topic_id, at.partition, at.topic, s.start, s.stop] for at, s in spans.items()]
    read = quarantine.read_quarantine(progress.quarantine.chain, (*BYTES, "stage"), ranges)
    batches = records_of(read, {at: sorted(offsets) for at, offsets in wanted.items()})
    there = [each for each in followers if each.position is not None]
    converters = [
        _Reconverter(
            each.name,
            _job_of(each, [Lane(at, covered, (each.name,)) for at, covered in spans.items()]),
            {(record.at, record.offset): record for record in records},
            _decided_before(quarantine, progress, each, records, ranges),
            context,
        )
        for each in there
    ]
    result = Reconverted(lanes=tuple(sorted(spans)))
    for at, batch in batches.items():
        router = Router(batch, at)
        for converter in converters:
            converter.reconvert(router, result)
    done = {each for each, _ in result.landed()} | set(result.rejects)
    for each in records:
        if each not in done:
            result.rejects[each] = Reject(each.offset, "route", each.code, _UNWANTED)
    return result


@dataclass(frozen=True, slots=True)
class _Reconverter:
    table: str
    job: TableJob
    known: Mapping[tuple[TopicPartition, int], Record]
    decided_before: frozenset[Coordinate]
    context: WriteContext

    def reconvert(self, router: Router, result: Reconverted) -> None:
        at, batch, job = router.at, router.batch, self.job
        selects = job.filter_of(at.topic)
        share = Routing(np.ones(len(batch), np.bool_), {}, {})
        if not selects.passes_all:
            share = router.route(selects, job.options, readers=self.context.readers(job.registry))
        whole = self._whole(router)
        offsets = offsets_of(batch)
        before = is_among(self.decided_before, at, offsets) & share.mine
        for offset in offsets[before].tolist():
            each = self.known[at, offset]
            result.rejects[each] = Reject(offset, "route", each.code, _DECIDED)
        mine = share.mine & ~before
        for offset in offsets[mine & ~whole].tolist():
            each = self.known[at, offset]
            reason = _NO_STAMP if each.is_of_timestamp else _NO_HEADERS
            result.rejects[each] = Reject(offset, "convert", each.code, reason)
        mine &= whole
        refused = list(share.rejected.values())
        if mine.any():
            taken = batch.filter(pa.array(mine))
            readers = self.context.readers(job.registry)
            functions, lane = self.context.functions, result.lanes.index(at)
            converted = convert_records(job, taken, at, readers, functions, lane=lane)
            refused += converted.rejects
            landed = [self.known[at, offset] for offset in self._taken(converted, result)]
            result.coordinates.setdefault(self.table, []).extend(landed)
        for reject in refused:
            result.rejects[self.known[at, reject.offset]] = reject

    def _taken(self, converted: Converted, result: Reconverted) -> list[int]:
        """Take what records were converted to; return the offsets of those that gave something."""
        if isinstance(converted, ChangeBatch):
            result.changes.append(converted.changes)
            return [*dict.fromkeys(converted.changes.offset.tolist())]
        if converted.rows.num_rows:
            result.rows.setdefault(self.table, []).append(converted.rows)
        return list(converted.offsets.tolist())

    def _whole(self, router: Router) -> Mask:
        """Return of which records the quarantine kept everything that the table is to hold."""
        offsets = router.batch.column("offset").to_pylist()
        stamps = [not self.known[router.at, offset].is_of_timestamp for offset in offsets]
        whole = np.array(stamps, np.bool_)
        if self.job.wants_headers(router.at.topic):
            whole &= router.batch.column("headers").is_valid().to_numpy(zero_copy_only=False)
        return whole


def _job_of(follower: TableProgress, lanes: Sequence[Lane]) -> TableJob:
    """Describe a table to which records are converted; a truncate is none of its changes."""
    job = table_job(follower, lanes)
    if job.options.keyed is None:
        return job
    keyed = replace(job.options.keyed, ignores_truncates=True)
    return replace(job, options=replace(job.options, keyed=keyed))


def _decided_before(
    quarantine: Table,
    progress: TableProgress,
    follower: TableProgress,
    records: Sequence[Record],
    ranges: Sequence[Sequence[object]],
) -> frozenset[Coordinate]:
    """Return the coordinates of a route's records that a table of it must not be given once more.

    Of what the route refused for time, or for killing its process, those are the ones that the
    table rejected by itself, or has a row of; all, if it has no source columns. Raises
    UnavailableError.
    """
    transient = {each.coordinate: each.at for each in records if each.code in TRANSIENT}
    if not progress.target.is_route or not transient:
        return frozenset()
    assert follower.position is not None, "it is a table that is there"
    columns = {name: follower.target.options.source_columns.get(name, "") for name in NEEDED}
    if not all(columns.values()):
        return frozenset(transient)
    offsets = pa.array(sorted({offset for _, _, offset in transient}), pa.int64())
    found = follower.position.table.row_coordinates(columns, None, offsets).to_pylist()
    rows = {tuple(row[name] for name in NEEDED) for row in found}
    refused = set(quarantine.quarantined(follower.quarantine.chain, ranges))
    return frozenset(
        coordinate
        for coordinate, at in transient.items()
        if coordinate in refused or (at.topic, *coordinate[1:]) in rows
    )
