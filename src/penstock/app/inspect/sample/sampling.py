"""A sample of a backlog: of every partition the oldest and newest records, and some between.

Invariants:
- records are read once, and used as often as needed;
- a sample is bounded in partitions, records, bytes and time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.inspect.sample.backlog import Backlog, Piece
from penstock.core.errors import BugError, PenstockError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition, span
from penstock.core.planning import Lane, lanes_of
from penstock.landing.epoch.runner import leader_epochs
from penstock.landing.tables.progress import TableProgress
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Clock

LANES_MAX = 256
RECORDS_MAX = 1000
RECORDS_OF_A_LANE_MIN = 10
BYTES_MAX = 64 << 20
SECONDS_MAX = 20.0
WINDOWS_MAX = 8
_WINDOW_RECORDS = 64
_PROBE_RECORDS, _WIDER = 16, 8
"""A window is read from a few positions on, more each time: records may be large, or sparse."""


@dataclass(slots=True)
class Sample:
    """What was read. `silent` are partitions that gave nothing in time; `failed`, by table, what
    kept it from being read.
    """

    pieces: list[Piece] = field(default_factory=list)
    batches: dict[TopicPartition, pa.RecordBatch] = field(default_factory=dict)
    silent: dict[TopicPartition, tuple[str, ...]] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)

    def add(self, piece: Piece, batch: pa.RecordBatch) -> None:
        """Take the records of a piece among those of its partition that are held, each once."""
        self.pieces.append(piece)
        held = self.batches.get(piece.at)
        if held is not None:
            fresh = pc.invert(pc.is_in(batch.column("offset"), held.column("offset")))
            both = joined([held, batch.filter(fresh)])
            batch = both.take(pc.sort_indices(both.column("offset")))
        self.batches[piece.at] = batch


def sampled(
    backlog: Backlog,
    progress: Mapping[str, TableProgress],
    reader: RangeReader,
    clock: Clock,
    *,
    at_once: int = 1,
) -> Sample:
    """Read records of a backlog, from every partition where there is time.

    `progress` are those of its tables, as far as there are any; `at_once` is how many samples share
    the bytes.
    """
    lanes = list(_by_turns(lanes_of(backlog.positions, backlog.ends)))[:LANES_MAX]
    share = max(RECORDS_MAX // max(len(lanes), 1), RECORDS_OF_A_LANE_MIN)
    epochs = leader_epochs(lanes, progress) if progress else {}
    window_bytes = BYTES_MAX // at_once // WINDOWS_MAX // max(len(lanes), 1)
    deadline = clock.monotonic() + SECONDS_MAX
    found = Sample()
    for left, lane in zip(range(len(lanes), 0, -1), lanes, strict=True):
        now = clock.monotonic()
        until = now + max(deadline - now, 0) / left  # a silent one takes no more, and others theirs
        source = _Source(reader, lane.at, until, epochs.get(lane), window_bytes)
        try:
            _take(found, backlog, lane, list(_spread(source, lane.covered, share)))
        except BugError:
            raise
        except PenstockError as error:  # the log rejected this lane: its tables go without it
            for table in lane.tables:
                found.failed.setdefault(table, error)
    return found


def _take(found: Sample, backlog: Backlog, lane: Lane, reads: Sequence[Read]) -> None:
    """Keep what was read of a lane, also for tables that come to it later."""
    offsets = {name: each.get(lane.at) for name, each in backlog.positions.items()}
    later = [name for name, at in offsets.items() if at is not None and at < lane.covered.start]
    tables = tuple(sorted({*lane.tables, *later}))
    if not reads:
        found.silent[lane.at] = lane.tables
        return
    edges = [
        lane.covered.start,
        *(Offset((a.covered.stop + b.covered.start) // 2) for a, b in pairwise(reads)),
        lane.covered.stop,
    ]
    for each, edge in zip(reads, pairwise(edges), strict=True):
        first = (name for name in tables if backlog.covers_first(name, lane.at, each.covered))
        piece = Piece(lane.at, each.covered, OffsetRange(*edge), tables, frozenset(first))
        found.add(piece, each.batch)


@dataclass(frozen=True, slots=True)
class Read:
    """The records of a range that was read up to its end."""

    covered: OffsetRange
    batch: pa.RecordBatch


def read_range(
    reader: RangeReader,
    at: TopicPartition,
    covered: OffsetRange,
    deadline: float,
    leader_epoch: int | None = None,
) -> Read | None:
    """Read what a range returns until the deadline, with headers; None when that is nothing."""
    fetched = [
        *reader.read(at, covered, deadline=deadline, headers=True, leader_epoch=leader_epoch)
    ]
    if not fetched:
        return None
    reached = OffsetRange(covered.start, fetched[-1].reached)
    return Read(reached, joined([each.batch for each in fetched]))


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the records of one or more batches as one batch."""
    table = pa.Table.from_batches(batches).combine_chunks()
    if table.num_rows:
        return table.to_batches()[0]
    return pa.RecordBatch.from_pylist([], schema=table.schema)


@dataclass(frozen=True, slots=True)
class _Source:
    """Reads windows of one partition, of `bytes_max` at most; `leader_epoch` is that of the record
    before its lane.
    """

    reader: RangeReader
    at: TopicPartition
    deadline: float
    leader_epoch: int | None
    bytes_max: int


def _spread(source: _Source, covered: OffsetRange, share: int) -> Iterator[Read]:
    if covered.count <= share:
        whole = _read(source, covered, share, source.leader_epoch)
        yield from () if whole is None else (whole,)
        return
    windows = min(max(share // _WINDOW_RECORDS, 2), WINDOWS_MAX)
    wanted = share // windows
    oldest = _read(source, covered, wanted, source.leader_epoch)
    if oldest is None:
        return
    yield oldest
    rest = OffsetRange(oldest.covered.stop, covered.stop)
    newest = _read(source, rest, wanted, newest=True)
    if newest is None:
        return
    between = OffsetRange(oldest.covered.stop, newest.covered.start)
    reached = between.start
    for number in range(1, windows - 1):
        start = max(between.start + between.count * number // (windows - 1), reached)
        window = OffsetRange(Offset(start), between.stop)
        found = _read(source, window, wanted)
        if found is not None:
            yield found
            reached = found.covered.stop
    yield newest


def _read(
    source: _Source,
    covered: OffsetRange,
    wanted: int,
    leader_epoch: int | None = None,
    *,
    newest: bool = False,
) -> Read | None:
    reads: list[Read] = []
    edge, width = covered.stop if newest else covered.start, min(wanted, _PROBE_RECORDS)
    while (
        sum(len(each.batch) for each in reads) < wanted
        and sum(each.batch.nbytes for each in reads) < source.bytes_max
    ):
        if newest:
            window = span(max(edge - width, covered.start), edge)
        else:
            window = span(edge, min(edge + width, covered.stop))
        if not window.count:
            break
        found = read_range(source.reader, source.at, window, source.deadline, leader_epoch)
        if found is None or not found.covered.count:
            break
        if newest and found.covered.stop < edge:
            break  # there was no time for it
        reads.insert(0 if newest else len(reads), found)
        edge = window.start if newest else found.covered.stop
        width, leader_epoch = width * _WIDER, None
    if not reads:
        return None
    batch = joined([each.batch for each in reads])
    if len(batch) > wanted:
        batch = batch.slice(len(batch) - wanted if newest else 0, wanted)
        offsets = batch.column("offset")
        edge = Offset(offsets[0].as_py() if newest else offsets[-1].as_py() + 1)
    return Read(span(edge, covered.stop) if newest else span(covered.start, edge), batch)


def _by_turns(lanes: Iterable[Lane]) -> Iterator[Lane]:
    topics: dict[str, list[Lane]] = defaultdict(list)
    for lane in lanes:
        topics[lane.at.topic].append(lane)
    for turn in zip_longest(*topics.values()):
        yield from (lane for lane in turn if lane is not None)
