"""Count the rows of a keyed table: each key has the row of its last change, or none after a delete.

The oracle is Kafka itself, read again and folded by the code of the tasks.

Invariants:
- rows and ledger are of one state of the table; what Kafka has beyond the ledger is compared with
  nothing;
- what cannot be compared is said in words, never as a break.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.app.inspect.keyed_count.compare import LogLane, Outcome, compare
from penstock.app.inspect.keyed_count.fold import Fold, Folder, Offsets
from penstock.app.inspect.keyed_count.live_rows import LiveRows, live_rows
from penstock.app.inspect.row_count import (
    RowCount,
    rejected_under,
    retried_into,
    silent,
    sorted_out,
    stretches,
    twice_rejected,
)
from penstock.core.audit import Break
from penstock.core.commits import Keyed, Landed
from penstock.core.growth import FormerEnds, end_in
from penstock.core.offsets import Offset, OffsetRange, TopicPartition, span
from penstock.core.planning import Bounds
from penstock.core.resolutions import records_only
from penstock.landing.epoch.runner import job_of
from penstock.landing.settings import TableTarget
from penstock.observe.formatting import number_of
from penstock.ports.log import Log, RangeReader
from penstock.ports.tables import Table, TableState
from penstock.rows.keyed.touched import SOURCE

_NOTHING: Offsets = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyedSubject:
    """What is counted: a keyed table, one state of it and its ledger, and where its rejects are."""

    pipeline: str
    target: TableTarget
    table: Table
    state: TableState
    landed: Landed
    quarantine: Table | None

    @property
    def keyed(self) -> Keyed | None:
        """Return how the chain changes rows; None where it has only appended until now."""
        return self.landed.keyed


@dataclass(slots=True)
class _Lane:
    """A partition by its name, to be read and compared; `covered` is what Kafka still has of it."""

    at: TopicPartition
    since: int
    covered: OffsetRange
    stop: int
    end: int
    reason: str = ""
    rejected: Offsets = field(default_factory=lambda: _NOTHING)
    retried: Offsets = field(default_factory=lambda: _NOTHING)
    held: Offsets = field(default_factory=lambda: _NOTHING)
    left_out: Offsets = field(default_factory=lambda: _NOTHING)
    records: int = 0
    quarantined: int = 0


def count_keyed(log: Log, reader: RangeReader, subject: KeyedSubject) -> RowCount:
    """Fold what Kafka holds below the ledger, and compare it with the table's rows.

    Raises UnavailableError (P250 a partition without a leader), and what reading and converting
    raise.
    """
    lanes = _lanes(log, subject)
    options = subject.target.options
    topics = sorted({lane.at.topic for lane in lanes})
    job = job_of(subject.target, subject.state, topics)
    folder = Folder.of(subject.target.location.table, job)
    places = {(lane.at.topic, lane.at.partition): number for number, lane in enumerate(lanes)}
    source = [options.source_columns[name] for name in SOURCE]
    rows = live_rows(subject.table, subject.state, folder.types, source, places)
    fold = folder.nothing(subject.landed.purged_through_ms)
    for number, lane in enumerate(lanes):
        mine = np.unique(rows.offset[rows.lane == number])
        _read(reader, folder, fold, (number, lane), mine)
    later = _changed_later(reader, folder, lanes) if subject.landed.segment else None
    compared = [
        LogLane(
            name=str(lane.at),
            since=lane.since,
            start=lane.covered.start,
            stop=lane.stop,
            held=lane.held,
            unknown=np.concatenate([fold.unknown.get(number, _NOTHING), lane.left_out]),
            retried=lane.retried,
            grew=max((int(ends.get(lane.at, 0)) for ends in subject.landed.grown), default=0),
        )
        for number, lane in enumerate(lanes)
    ]
    landed, keyed = subject.landed, subject.keyed
    alone = keyed is None or (keyed.compares_offsets and not landed.segment)
    last = fold.last().but_for_outgrown([lane.at for lane in lanes], subject.landed.grown)
    found = compare(
        last, rows, compared, later=later, alone=alone, by_sequence=bool(options.sequence)
    )
    again = _with_added(found.again, lanes, subject.landed.grown)
    return _row_count(lanes, rows, fold, replace(found, again=again))


def _lanes(log: Log, subject: KeyedSubject) -> list[_Lane]:
    """Return the partitions that the chain has read, each name once, in the order of the fold."""
    present = {at: at for at in log.partitions()}
    positions = records_only(subject.landed.offsets)
    bounds = log.bounds(sorted(at for at in positions if at in present))
    since = positions if subject.keyed is None else subject.keyed.since
    named: dict[tuple[str, int], list[TopicPartition]] = defaultdict(list)
    for at in sorted(positions):
        named[present.get(at, at).topic, at.partition].append(present.get(at, at))
    own = subject.target.location.table
    given = (subject.pipeline, subject.quarantine, subject.target, subject.landed)
    rejected = sorted_out(rejected_under(*given, own), "topic_id")
    retried = sorted_out(retried_into(*given), "topic_id")
    lanes = []
    for same in named.values():
        at = same[-1]
        if at in present and at not in bounds:
            raise silent(at)
        begun = max(int(since.get(each, 0)) for each in same)
        if len(same) > 1:
            reason = "the topic was created again, and rows do not say which one they are from"
            found = None
        else:
            found, reason = bounds.get(at), "Kafka no longer has this topic"
        lane = _lane(at, begun, max(int(positions[each]) for each in same), found, reason)
        lane.rejected = rejected.get((at.topic_id, at.partition), _NOTHING)
        lane.retried = retried.get((at.topic_id, at.partition), _NOTHING)
        lanes.append(lane)
    return lanes


def _lane(at: TopicPartition, since: int, stop: int, found: Bounds | None, reason: str) -> _Lane:
    if found is None:
        return _Lane(at, since, span(stop, stop), stop, stop, reason)
    end = min(found.stop, stop)
    start = min(max(found.start, since), end)
    return _Lane(at, since, span(start, end), stop, int(found.stop))


def _read(
    reader: RangeReader,
    folder: Folder,
    fold: Fold,
    numbered: tuple[int, _Lane],
    mine: Offsets,
) -> None:
    """Fold the records of a partition; note how many there are, and at which rows' offsets."""
    number, lane = numbered
    held, left_out = np.zeros(len(mine), np.bool_), np.zeros(len(mine), np.bool_)
    headers = folder.job.wants_headers(lane.at.topic)
    batches = stretches(reader, lane.at, lane.covered, headers=headers)
    for offsets in folder.fold(fold, lane.at, number, batches, lane.rejected):
        held |= np.isin(mine, offsets)
        left_out |= np.isin(mine, np.concatenate(fold.left_out))
        lane.records += len(offsets)
        lane.quarantined += int(np.isin(offsets, lane.rejected).sum())
    lane.held, lane.left_out = mine[held], mine[left_out]


def _changed_later(reader: RangeReader, folder: Folder, lanes: Sequence[_Lane]) -> pa.Array:
    """Return the keys that change between the ledger and the end of the log.

    A table that was put back may have rows of there, or none for what is deleted there.
    """
    fold = folder.nothing()
    for number, lane in enumerate(lanes):
        rest = OffsetRange(lane.covered.stop, Offset(max(lane.end, lane.covered.stop)))
        headers = folder.job.wants_headers(lane.at.topic)
        batches = stretches(reader, lane.at, rest, headers=headers)
        for _ in folder.fold(fold, lane.at, number, batches, lane.rejected):
            pass
    return fold.last().digests


def _with_added(
    again: Mapping[int, int], lanes: Sequence[_Lane], grown: FormerEnds
) -> dict[int, int]:
    """Return from where to apply changes again, with what lies behind a growth since then."""
    found = dict(again)
    for ends in reversed(grown):
        if any(offset < ends.get(lanes[number].at, 0) for number, offset in again.items()):
            for number, lane in enumerate(lanes):
                end = end_in(ends, lane.at)
                if end is not None and end < lane.stop:
                    found[number] = min(found.get(number, end), max(end, lane.covered.start))
    return found


def _row_count(lanes: Sequence[_Lane], rows: LiveRows, fold: Fold, found: Outcome) -> RowCount:
    breaks = list(found.breaks)
    for lane in lanes:
        breaks += twice_rejected(lane.at, lane.rejected[lane.rejected < lane.stop])
        if not lane.reason and lane.stop > lane.end:
            reason = f"{lane.at}: the ledger says {lane.stop}, the log ends at {lane.end}"
            breaks.append(Break("ledger", str(lane.at), reason))
    return RowCount(
        records=sum(lane.records for lane in lanes),
        rows=len(rows.offset) + rows.keyless,
        quarantined=sum(lane.quarantined for lane in lanes),
        filtered=fold.filtered,
        superseded=fold.counted - found.matched,
        unchecked=found.unchecked,
        keys=found.keys,
        breaks=tuple(breaks),
        not_compared=tuple(_not_compared(lanes, rows, fold, found)),
        partitions_not_compared=sum(bool(lane.reason) for lane in lanes),
        applied_again=tuple(
            f"{lane.at.topic}:{lane.at.partition}:{found.again[number]}"
            for number, lane in enumerate(lanes)
            if number in found.again
        ),
    )


def _not_compared(
    lanes: Sequence[_Lane], rows: LiveRows, fold: Fold, found: Outcome
) -> Iterator[str]:
    """Yield what was not compared, and why."""
    for lane in lanes:
        if lane.reason:
            yield f"{lane.at}: {lane.reason}"
    if found.across:
        yield (
            f"{number_of(found.across, 'key')} changed in several partitions: which change is the "
            "last depends on the order of commits; any of them may be the row"
        )
    if found.moved:
        yield (
            f"{number_of(found.moved, 'key')} that change again after the ledger's positions: the "
            "table was put back before"
        )
    if unknown := sum(map(len, fold.unknown.values())):
        yield (
            f"{number_of(unknown, 'record')} that the rules of now refuse, and that are not in "
            "quarantine"
        )
    if left_out := sum(len(lane.left_out) for lane in lanes):
        yield f"{number_of(left_out, 'row')} of records that the rules of now leave out"
    for count, what, why in (
        (found.unknown, "key", "that may have changed by such records"),
        (found.purged, "deleted key", "whose flagged row was purged"),
        (found.brought, "deleted key", "with the row of a record that was retried"),
        (found.removed, "deleted key", "whose flagged row is not there any more"),
        (found.apart, "row", "of no partition that this table has read"),
        (rows.keyless, "row", "with null in the key"),
        (found.holes, "row", "at offsets that Kafka has no record at any more"),
    ):
        if count:
            yield f"{number_of(count, what)} {why}"
