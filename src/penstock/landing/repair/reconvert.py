"""Judge refused records once more, by the rules of today: rows, and why others are still refused.

Invariants: each record is in the rows of at most one table, or among the rejects; a record of which
the quarantine kept less than its table is to hold is never landed with a part missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.offsets import TopicPartition, span
from penstock.core.planning import Lane
from penstock.core.resolutions import Resolution
from penstock.landing.epoch.runner import table_job
from penstock.landing.repair.replay import NEEDED
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.convert import convert_for_table
from penstock.landing.task.coordinates import Coordinate, is_among, offsets_of
from penstock.landing.task.messages import TableJob
from penstock.ports.tables import Table, WriterFactory
from penstock.rows.convert.batch import Reject
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.quarantine.status import BYTES, NEVER, Resolved, records_of
from penstock.rows.reject_codes import TRANSIENT, RejectCode
from penstock.rows.route.compute import Functions, no_functions
from penstock.rows.route.router import Mask, Router, Routing

ReadersFor = Callable[[Mapping[str, Any] | None], ReaderCache]
_UNWANTED = "no rule takes it for a table that is there"
_NO_HEADERS = "its headers were not kept, and the table or its rule reads them"
_NO_STAMP = "its time stamp was not kept"
_JUDGED = (
    "its table has judged it by itself: see what is refused for that table, then drop this one"
)


@dataclass(frozen=True, slots=True)
class Record:
    """Name one refused record and why it was refused.

    `closing` is the number of the closing that counts, or -1; `stamped` tells whether its time
    stamp was kept.
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
    def is_of_stamp(self) -> bool:
        """Return whether it was refused with a time stamp that no table can hold."""
        return not self.timestamp_ms_known and self.code == RejectCode.OUT_OF_RANGE

    def resolved(self, status: Resolution, message: str) -> Resolved:
        """Return a closing of it."""
        return Resolved(self.at, self.offset, status, self.code, message)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What rows are made with in this process: writers by connector, readers by a registry's
    settings, functions by their import path.
    """

    writers: Mapping[str, WriterFactory]
    readers: ReadersFor
    functions: Functions = no_functions


@dataclass(slots=True)
class Reconverted:
    """What records are now: `rows` by table with `places` beside them, and who is still refused."""

    rows: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    coordinates: dict[str, list[Record]] = field(default_factory=dict)
    rejects: dict[Record, Reject] = field(default_factory=dict)

    def landed(self) -> Iterator[tuple[Record, str]]:
        """Yield the records that are rows now, with their tables."""
        for table, records in self.coordinates.items():
            for each in records:
                yield each, table


def reconvert(
    records: Sequence[Record],
    batches: Mapping[TopicPartition, pa.RecordBatch],
    jobs: Mapping[str, TableJob],
    readers: ReadersFor,
    functions: Functions = no_functions,
    *,
    decided_before: Mapping[str, frozenset[Coordinate]],
) -> Reconverted:
    """Convert refused records, given as a reader would, for the tables of `jobs`.

    `judged_before` are those that a table has judged by itself: they are not landed there again.
    Raises what `rows.convert.convert` raises.
    """
    known = {(each.at, each.offset): each for each in records}
    bench = _Reconverter(known, decided_before, readers, functions)
    for at, batch in batches.items():
        sorter = Router(batch, at)
        for name, job in jobs.items():
            bench.reconvert(name, job, sorter)
    judged = bench.result
    done = {each for each, _ in judged.landed()} | set(judged.rejects)
    for each in records:
        if each not in done:
            judged.rejects[each] = Reject(each.offset, "route", each.code, _UNWANTED)
    return judged


@dataclass(frozen=True, slots=True)
class _Reconverter:
    known: Mapping[tuple[TopicPartition, int], Record]
    decided_before: Mapping[str, frozenset[Coordinate]]
    readers: ReadersFor
    functions: Functions
    result: Reconverted = field(default_factory=Reconverted)

    def reconvert(self, name: str, job: TableJob, sorter: Router) -> None:
        """Judge the records of one partition for one table."""
        at, batch = sorter.at, sorter.batch
        gate = job.filter_of(at.topic)
        everything = np.ones(len(batch), np.bool_)
        share = Routing(everything, {}, {})
        if not gate.passes_all:
            share = sorter.route(gate, job.options, readers=self.readers(job.registry))
        whole = self._whole(job, sorter)
        offsets = offsets_of(batch)
        before = is_among(self.decided_before.get(name, ()), at, offsets) & share.mine
        for offset in offsets[before].tolist():
            each = self.known[at, offset]
            self.result.rejects[each] = Reject(offset, "route", each.code, _JUDGED)
        mine = share.mine & ~before
        for offset in offsets[mine & ~whole].tolist():
            each = self.known[at, offset]
            reason = _NO_STAMP if each.is_of_stamp else _NO_HEADERS
            self.result.rejects[each] = Reject(offset, "convert", each.code, reason)
        mine &= whole
        refused = list(share.rejected.values())
        if mine.any():
            taken = batch.filter(pa.array(mine))
            converted = convert_for_table(
                job, taken, at, self.readers(job.registry), self.functions
            )
            refused += converted.rejects
            if converted.rows.num_rows:
                self.result.rows.setdefault(name, []).append(converted.rows)
                places = [self.known[at, offset] for offset in converted.offsets.tolist()]
                self.result.coordinates.setdefault(name, []).extend(places)
        for reject in refused:
            self.result.rejects[self.known[at, reject.offset]] = reject

    def _whole(self, job: TableJob, sorter: Router) -> Mask:
        """Return of which records the quarantine kept everything that the table is to hold."""
        offsets = sorter.batch.column("offset").to_pylist()
        stamps = [not self.known[sorter.at, offset].is_of_stamp for offset in offsets]
        whole = np.array(stamps, np.bool_)
        if job.wants_headers(sorter.at.topic):
            whole &= sorter.batch.column("headers").is_valid().to_numpy(zero_copy_only=False)
        return whole


def reconverted(
    quarantine: Table,
    track: TableProgress,
    followers: Sequence[TableProgress],
    records: Sequence[Record],
    means: WriteContext,
) -> Reconverted:
    """Read refused records back and judge them for the tables that are there. Writes nothing."""
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for each in records:
        wanted[each.at].append(each.offset)
    ranges = [
        [at.topic_id, at.partition, at.topic, min(offsets), max(offsets) + 1]
        for at, offsets in wanted.items()
    ]
    read = quarantine.read_quarantine(track.quarantine.chain, (*BYTES, "stage"), ranges)
    batches = records_of(read, {at: sorted(offsets) for at, offsets in wanted.items()})
    jobs = {
        each.name: table_job(each, _lanes_of(each, wanted))
        for each in followers
        if each.position is not None
    }
    judged_before = {
        each.name: _judged_before(quarantine, track, each, records, ranges)
        for each in followers
        if each.name in jobs
    }
    return reconvert(
        records, batches, jobs, means.readers, means.functions, decided_before=judged_before
    )


def _judged_before(
    quarantine: Table,
    track: TableProgress,
    follower: TableProgress,
    records: Sequence[Record],
    ranges: Sequence[Sequence[object]],
) -> frozenset[Coordinate]:
    """Return the coordinates of a route's records that a table of it must not be given once more.

    Of what the route refused for time, or for killing its process, those are the ones that the
    table refused by itself, or has a row of; all, where it has no source columns to tell. Raises
    UnavailableError.
    """
    transient = {each.coordinate: each.at for each in records if each.code in TRANSIENT}
    if not track.target.is_route or not transient:
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


def _lanes_of(track: TableProgress, wanted: Mapping[TopicPartition, Sequence[int]]) -> list[Lane]:
    return [
        Lane(at, span(min(offsets), max(offsets) + 1), (track.name,))
        for at, offsets in wanted.items()
    ]
