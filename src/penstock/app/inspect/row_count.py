"""Count row by row: every record that Kafka still has is in its table xor in quarantine, once.

The oracle is Kafka itself, read again by the same reader under the same isolation level.

Invariants: what cannot be compared is said in words (`RowCount.not_compared`), never as a break;
no read waits for ever.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.app.assembly.schema_readers import schema_readers as readers_of
from penstock.core.audit import Break
from penstock.core.commits import Chain, Landed
from penstock.core.errors import UnavailableError
from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.core.resolutions import records_only, resolutions_of
from penstock.core.schema import Struct
from penstock.landing.settings import TableTarget
from penstock.ports.log import Log, RangeReader
from penstock.ports.tables import Table
from penstock.rows.convert.batch import convert_batch
from penstock.rows.quarantine.status import READ, not_yet_landed, status_of
from penstock.rows.reject_codes import TRANSIENT
from penstock.rows.route.filters import PASS_ALL
from penstock.rows.route.router import Router

Offsets = NDArray[np.int64]
_NOTHING: Offsets = np.array([], dtype=np.int64)
SHOWN_MAX = 5
SILENCE_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class RowCount:
    """What was counted over all partitions. `records` are Kafka's; the rest must account for them.

    `unchecked` counts rows whose records Kafka no longer has: they are only checked for doubles.
    `not_compared` says in sentences what was not compared, and why, and in how many partitions
    (`partitions_not_compared`). `skipped_offsets` says which offsets the chain passed without a row
    that Kafka no longer has: they were given up with `--accept gap`, or filtered.

    Of a keyed table `keys` counts the keys that were compared, and `superseded` the records whose
    change has no row: a later one came, or it is a delete. `applied_again` are places, as
    `penstock seek` takes them, from which changes are to be applied again to mend what is broken.
    """

    records: int = 0
    rows: int = 0
    quarantined: int = 0
    filtered: int = 0
    unchecked: int = 0
    breaks: tuple[Break, ...] = ()
    not_compared: tuple[str, ...] = ()
    partitions_not_compared: int = 0
    skipped_offsets: tuple[str, ...] = ()
    superseded: int = 0
    keys: int | None = None
    applied_again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is counted: one target table, the rows of one state of it, and where its rejects are.

    `began` is where the table's chain began; None where it began with the log. `rowless` are the
    ranges of commits without files, as far as the chain is recorded.
    """

    pipeline: str
    landed: Landed
    rows: pa.Table
    quarantine: Table | None
    target: TableTarget
    began: Positions | None
    rowless: Mapping[TopicPartition, Sequence[OffsetRange]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Accounts:
    """The offsets of a table by partition: its rows, what was rejected for it, and by its route.

    `transient` is what the route rejected for a reason that its table need not have found.
    """

    rows: Mapping[tuple[str, int], Offsets]
    rejected: Mapping[tuple[str, int], Offsets]
    routed: Mapping[tuple[str, int], Offsets]
    transient: Mapping[tuple[str, int], Offsets]


def count(log: Log, reader: RangeReader, subject: Subject) -> RowCount:
    """Compare a table's coordinates and its quarantine with what Kafka holds below its ledger.

    Raises UnavailableError (P250 a partition without a leader), and what reading raises.
    """
    offsets = records_only(subject.landed.offsets)
    accounts = _Accounts(sorted_out(subject.rows, "topic"), *_rejections(subject))
    present = set(log.partitions())  # of a re-created topic, the former log is lost
    bounds = log.bounds(sorted(at for at in offsets if at in present))
    ids = Counter(topic for topic, _ in {(at.topic, at.topic_id) for at in offsets})
    again = {topic for topic, count in ids.items() if count > 1}  # several ids under one name
    parts = []
    for topic in sorted(again):  # rows hold its name only, so they cannot be distinguished
        size = sum(each.size for (name, _), each in accounts.rows.items() if name == topic)
        reason = "the topic was created again, and rows do not say which one they are from"
        wide = len({at.partition for at in offsets if at.topic == topic})
        reasons = (f"{topic}: {reason}",)
        parts.append(
            RowCount(rows=size, unchecked=size, not_compared=reasons, partitions_not_compared=wide)
        )
    for at, stop in sorted(offsets.items()):
        if at.topic in again:
            continue
        if at in present and at not in bounds:
            raise silent(at)
        parts.append(_counted(reader, subject, accounts, (at, stop, bounds.get(at))))
    return _total(parts)


def _counted(
    reader: RangeReader,
    subject: Subject,
    accounts: _Accounts,
    place: tuple[TopicPartition, Offset, Bounds | None],
) -> RowCount:
    at, stop, found = place
    mine = accounts.rows.get((at.topic, at.partition), _NOTHING)
    rejected = accounts.rejected.get((at.topic_id, at.partition), _NOTHING)
    rejected = rejected[rejected < stop]
    if found is None:
        reason = f"{at}: Kafka no longer has this topic; the rows are only checked for duplicates"
        counted = _compare(at, stop, _Coordinates(mine, rejected, _NOTHING, _NOTHING))
        return replace(counted, not_compared=(reason,), partitions_not_compared=1)
    end = Offset(min(found.stop, stop))
    began = _start_of(subject, at, mine, rejected)
    start = Offset(max(found.start, end if began is None else began))
    covered = OffsetRange(min(start, end), end)
    held, skipped = _read(reader, at, covered, subject.target)
    routed = accounts.routed.get((at.topic_id, at.partition), _NOTHING)
    landed = np.intersect1d(accounts.transient.get((at.topic_id, at.partition), _NOTHING), mine)
    routed = np.setdiff1d(np.intersect1d(routed, held), np.concatenate([skipped, rejected, landed]))
    rejected = np.concatenate([rejected, routed])
    parts = [_compare(at, start, _Coordinates(mine, rejected, held, skipped))]
    if stop > end:
        reason = f"{at}: the ledger says {stop}, the log ends at {end}"
        parts.append(RowCount(breaks=(Break("ledger", str(at), reason),)))
    if began is None and end > found.start:
        reason = f"{at}: it has no rows, and where it began is not known any more"
        parts.append(RowCount(not_compared=(reason,), partitions_not_compared=1))
    parts.append(RowCount(skipped_offsets=tuple(_passed(subject, at, found.start, mine, rejected))))
    return _total(parts)


def _passed(
    subject: Subject, at: TopicPartition, first: Offset, mine: Offsets, rejected: Offsets
) -> Iterator[str]:
    """Yield what was passed without a row before the `first` offset of the log, if anything was."""
    known = np.concatenate([mine, rejected])
    rowless = [each for each in subject.rowless.get(at, ()) if each.start < first]
    ranges = [OffsetRange(each.start, min(each.stop, first)) for each in rowless]
    rows = sum(int(((known >= each.start) & (known < each.stop)).sum()) for each in ranges)
    count = sum(each.count for each in ranges) - rows
    if count > 0:
        yield (
            f"{at}: {count:,} offsets between {ranges[0].start} and {ranges[-1].stop}, which Kafka "
            "no longer has: given up with --accept gap, or filtered"
        )


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """The offsets of one partition: in the table, in quarantine, in Kafka, left out on purpose."""

    mine: Offsets
    rejected: Offsets
    held: Offsets
    skipped: Offsets


def _start_of(
    subject: Subject, at: TopicPartition, mine: Offsets, rejected: Offsets
) -> Offset | None:
    """Return where the table began in a partition; None when nothing shows it any more.

    Where its commits do not show it, it is the first record in the table or its quarantine.
    """
    if subject.began is None:
        return Offset(0)
    known = subject.began.get(at)
    firsts = [mine, rejected] if known is None else [rejected]
    found = [int(each.min()) for each in firsts if each.size]
    found += [] if known is None else [known]
    return Offset(min(found)) if found else None


def _compare(at: TopicPartition, start: Offset, found: _Coordinates) -> RowCount:
    unique, counts = np.unique(found.mine, return_counts=True)
    expected = np.setdiff1d(np.setdiff1d(found.held, found.rejected), found.skipped)
    above = unique[unique >= start]
    lost = np.setdiff1d(expected, above)
    both, foreign = np.intersect1d(unique, found.rejected), np.setdiff1d(above, found.held)
    breaks = (
        *_break_text("doubled", at, unique[counts > 1], "in the table more than once"),
        *twice_rejected(at, found.rejected),
        *_break_text("lost", at, lost, "neither in the table nor in quarantine"),
        *_break_text("both", at, both, "in the table and in quarantine"),
        *_break_text("foreign", at, foreign, "in the table, unknown to Kafka"),
    )
    sizes = (found.held.size, found.mine.size, found.rejected.size, found.skipped.size)
    return RowCount(*sizes, int((found.mine < start).sum()), breaks)


def twice_rejected(at: TopicPartition, rejected: Offsets) -> list[Break]:
    """Return which offsets are rejected more than once."""
    unique, counts = np.unique(rejected, return_counts=True)
    return _break_text("doubled", at, unique[counts > 1], "in quarantine more than once")


def _break_text(kind: str, at: TopicPartition, offsets: Offsets, what: str) -> list[Break]:
    if not offsets.size:
        return []
    some = ", ".join(map(str, offsets[:SHOWN_MAX].tolist()))
    more = f" and {offsets.size - SHOWN_MAX} more" if offsets.size > SHOWN_MAX else ""
    return [Break(kind, str(at), f"{at}: {offsets.size} records {what}: {some}{more}")]


def _read(
    reader: RangeReader, at: TopicPartition, covered: OffsetRange, target: TableTarget
) -> tuple[Offsets, Offsets]:
    offsets, skipped = [_NOTHING], [_NOTHING]
    headers = target.options.schema_id == "headers"
    headers = headers or target.filters.get(at.topic, PASS_ALL).reads_headers
    for batch in stretches(reader, at, covered, headers=headers):
        these = batch.column("offset").to_numpy()
        offsets.append(these)
        skipped.append(these[_left_out(batch, at, target)])
    return np.concatenate(offsets), np.concatenate(skipped)


def stretches(
    reader: RangeReader, at: TopicPartition, covered: OffsetRange, *, headers: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, for as long as they come.

    Raises UnavailableError (P250) when nothing comes any more, and what the reader raises.
    """
    reached = covered.start
    while reached < covered.stop:
        before, deadline = reached, time.monotonic() + SILENCE_SECONDS_MAX
        rest = OffsetRange(reached, covered.stop)
        for fetched in reader.read(at, rest, deadline=deadline, headers=headers):
            yield fetched.batch
            reached = fetched.reached
        if reached == before:
            raise silent(at)


def _left_out(batch: pa.RecordBatch, at: TopicPartition, target: TableTarget) -> NDArray[np.bool_]:
    """Return which records are another table's, filtered, or tombstones that are skipped."""
    gate = target.filters.get(at.topic, PASS_ALL)
    out = np.zeros(batch.num_rows, np.bool_)
    if batch.num_rows and not gate.passes_all:
        readers = readers_of(target.registry)
        share = Router(batch, at).route(gate, target.options, readers=readers)
        out = ~share.mine
        out[list(share.rejected)] = False
    if target.options.tombstones == "skip":
        out |= batch.column("value").is_null().to_numpy(zero_copy_only=False)
    if batch.num_rows and target.options.envelope != "none":
        out |= _without_row(batch, at, target)
    return out


def _without_row(
    batch: pa.RecordBatch, at: TopicPartition, target: TableTarget
) -> NDArray[np.bool_]:
    """Return which records hold events without a row, such as truncate: they are read again."""
    readers = readers_of(target.registry)
    done = convert_batch(batch, at=at, schema=Struct(()), options=target.options, readers=readers)
    offsets = batch.column("offset").to_numpy()
    rejected = np.array([reject.offset for reject in done.rejects], np.int64)
    without: NDArray[np.bool_] = ~np.isin(offsets, np.concatenate([done.offsets, rejected]))
    if target.options.tombstones == "quarantine":
        without &= batch.column("value").is_valid().to_numpy(zero_copy_only=False)
    return without


def silent(at: TopicPartition) -> UnavailableError:
    """Build the error for a partition that returns nothing."""
    return UnavailableError(
        f"{at} cannot be read: it has no leader, or its leader does not answer",
        code="P250",
        hint="check its leading broker, then audit again",
    )


def _rejections(subject: Subject) -> Iterator[dict[tuple[str, int], Offsets]]:
    """Yield what is rejected for the table, and by its route: all, and what is transient of that.

    What was retried into the table is left out.
    """
    route, own = subject.target.route, subject.target.location.table
    given = (subject.pipeline, subject.quarantine, subject.target, subject.landed)
    yield sorted_out(rejected_under(*given, own), "topic_id")
    routed = rejected_under(*given, "" if route is None else route.template)
    yield sorted_out(routed, "topic_id")
    transient = pc.is_in(routed["code"], value_set=pa.array(sorted(TRANSIENT), pa.string()))
    yield sorted_out(routed.filter(transient), "topic_id")


def rejected_under(
    pipeline: str, quarantine: Table | None, target: TableTarget, landed: Landed, name: str
) -> pa.Table:
    """Return what was rejected for a target under a name, and has not landed in it since."""
    if quarantine is None or not name:
        return status_of(())
    chain = Chain(f"{pipeline}/{name}", quarantine.name)
    followed = landed.offsets.get(resolutions_of(name), Offset(0))
    statuses = status_of(quarantine.read_quarantine(chain, READ))
    own = target.location.table
    others = pc.fill_null(pc.not_equal(statuses["into"], own), fill_value=False)
    return pa.concat_tables(
        [not_yet_landed(statuses.filter(pc.invert(others)), followed), statuses.filter(others)]
    )


def retried_into(
    pipeline: str, quarantine: Table | None, target: TableTarget, landed: Landed
) -> pa.Table:
    """Return what was rejected for a target under its own name and has landed in it since."""
    name = target.location.table
    followed = landed.offsets.get(resolutions_of(name), Offset(0))
    if quarantine is None or not followed:
        return status_of(())
    chain = Chain(f"{pipeline}/{name}", quarantine.name)
    statuses = status_of(quarantine.read_quarantine(chain, READ))
    own = pc.and_(pc.equal(statuses["into"], name), pc.less(statuses["closing"], followed))
    return statuses.filter(pc.fill_null(own, fill_value=False))


def sorted_out(rows: pa.Table, topic: str) -> dict[tuple[str, int], Offsets]:
    """Gather offsets by topic and partition, without an object or a text for each row.

    Rows that have no source are no pipeline's.
    """
    places = rows.select([topic, "partition", "offset"]).group_by([topic, "partition"])
    grouped = places.aggregate([("offset", "list")]).combine_chunks()
    names, numbers = grouped[topic].to_pylist(), grouped["partition"].to_pylist()
    return {
        (name, number): grouped["offset_list"][index].values.to_numpy(zero_copy_only=False)
        for index, (name, number) in enumerate(zip(names, numbers, strict=True))
        if name is not None and number is not None
    }


def _total(parts: list[RowCount]) -> RowCount:
    names = ("records", "rows", "quarantined", "filtered", "unchecked", "partitions_not_compared")
    return RowCount(
        **{name: sum(getattr(part, name) for part in parts) for name in names},
        breaks=tuple(each for part in parts for each in part.breaks),
        not_compared=tuple(each for part in parts for each in part.not_compared),
        skipped_offsets=tuple(each for part in parts for each in part.skipped_offsets),
    )
