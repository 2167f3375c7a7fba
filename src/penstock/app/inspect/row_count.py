"""Count row by row: every record that Kafka still has is in its table xor in quarantine, once.

The oracle is Kafka itself, read again by the same reader under the same isolation level.

Invariants: what cannot be compared is told in words (`RowCount.untold`), never as a break; no read
waits for ever.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.app.assembly.worker import readers as readers_of
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
    `untold` says in sentences what was not compared, and why.
    """

    records: int
    rows: int
    quarantined: int
    skipped: int
    unchecked: int
    breaks: tuple[Break, ...]
    untold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What is counted: one target table, the rows of one state of it, and where its rejects are.

    `began` tells where the table's chain began; None where it began with the log.
    """

    pipeline: str
    landed: Landed
    rows: pa.Table
    quarantine: Table | None
    target: TableTarget
    began: Positions | None


@dataclass(frozen=True, slots=True)
class _Accounts:
    """The offsets of a table by partition: its rows, what was refused for it, and by its route.

    `transient` is what the route refused for a reason that its table need not have found.
    """

    rows: Mapping[tuple[str, int], Offsets]
    refused: Mapping[tuple[str, int], Offsets]
    routed: Mapping[tuple[str, int], Offsets]
    transient: Mapping[tuple[str, int], Offsets]


def count(log: Log, reader: RangeReader, subject: Subject) -> RowCount:
    """Compare a table's coordinates and its quarantine with what Kafka holds below its ledger.

    Raises UnavailableError (P250 a partition without a leader), and what reading raises.
    """
    offsets = records_only(subject.landed.offsets)
    accounts = _Accounts(_sorted_out(subject.rows, "topic"), *_refusals(subject))
    present = set(log.partitions())  # of a topic that was re-created, the former log is gone
    bounds = log.bounds(sorted(at for at in offsets if at in present))
    again = _made_again(offsets)
    parts = [_apart(topic, accounts.rows) for topic in sorted(again)]
    for at, stop in sorted(offsets.items()):
        if at.topic in again:
            continue
        if at in present and at not in bounds:
            raise _silent(at)
        parts.append(_counted(reader, subject, accounts, (at, stop, bounds.get(at))))
    return _total(parts)


def _counted(
    reader: RangeReader,
    subject: Subject,
    accounts: _Accounts,
    place: tuple[TopicPartition, Offset, Bounds | None],
) -> RowCount:
    """Count one partition up to where the ledger stands."""
    at, stop, found = place
    mine = accounts.rows.get((at.topic, at.partition), _NOTHING)
    refused = accounts.refused.get((at.topic_id, at.partition), _NOTHING)
    refused = refused[refused < stop]
    if found is None:
        reason = f"{at}: Kafka no longer has this topic; the rows are only checked for duplicates"
        gone = _compare(at, stop, _Coordinates(mine, refused, _NOTHING, _NOTHING))
        return replace(gone, untold=(reason,))
    end = Offset(min(found.stop, stop))
    began = _start_of(subject, at, mine, refused)
    start = Offset(max(found.start, end if began is None else began))
    covered = OffsetRange(min(start, end), end)
    held, skipped = _read(reader, at, covered, subject.target)
    routed = accounts.routed.get((at.topic_id, at.partition), _NOTHING)
    landed = np.intersect1d(accounts.transient.get((at.topic_id, at.partition), _NOTHING), mine)
    routed = np.setdiff1d(np.intersect1d(routed, held), np.concatenate([skipped, refused, landed]))
    refused = np.concatenate([refused, routed])
    parts = [
        _compare(at, start, _Coordinates(mine, refused, held, skipped)),
        _beyond(at, end, stop),
    ]
    if began is None and end > found.start:
        reason = f"{at}: it has no rows, and where it began is not told any more"
        parts.append(RowCount(0, 0, 0, 0, 0, (), (reason,)))
    return _total(parts)


def _made_again(offsets: Collection[TopicPartition]) -> set[str]:
    """Name the topics that were made again: several ids have landed under one name."""
    ids: dict[str, set[str]] = defaultdict(set)
    for at in offsets:
        ids[at.topic].add(at.topic_id)
    return {topic for topic, found in ids.items() if len(found) > 1}


def _apart(topic: str, rows: Mapping[tuple[str, int], Offsets]) -> RowCount:
    """Count rows of a recreated topic, which cannot be told apart: they hold its name only."""
    size = sum(each.size for (name, _), each in rows.items() if name == topic)
    reason = f"{topic}: the topic was created again, and rows do not say which one they are from"
    return RowCount(0, size, 0, 0, size, (), (reason,))


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """The offsets of one partition: in the table, in quarantine, in Kafka, left out on purpose."""

    mine: Offsets
    refused: Offsets
    held: Offsets
    skipped: Offsets


def _start_of(
    subject: Subject, at: TopicPartition, mine: Offsets, refused: Offsets
) -> Offset | None:
    """Return where the table began in a partition; None when nothing tells it any more.

    Where its commits do not tell, it is the first record that stands somewhere.
    """
    if subject.began is None:
        return Offset(0)
    known = subject.began.get(at)
    firsts = [mine, refused] if known is None else [refused]
    found = [int(each.min()) for each in firsts if each.size]
    found += [] if known is None else [known]
    return Offset(min(found)) if found else None


def _beyond(at: TopicPartition, end: Offset, stop: Offset) -> RowCount:
    """Return a break where the ledger is past the end of the log."""
    reason = f"{at}: the ledger says {stop}, the log ends at {end}"
    return RowCount(0, 0, 0, 0, 0, (Break("ledger", str(at), reason),) if stop > end else ())


def _compare(at: TopicPartition, start: Offset, found: _Coordinates) -> RowCount:
    unique, counts = np.unique(found.mine, return_counts=True)
    refused, refusals = np.unique(found.refused, return_counts=True)
    expected = np.setdiff1d(np.setdiff1d(found.held, found.refused), found.skipped)
    above = unique[unique >= start]
    lost = np.setdiff1d(expected, above)
    breaks = (
        *_break_text("doubled", at, unique[counts > 1], "in the table more than once"),
        *_break_text("doubled", at, refused[refusals > 1], "in quarantine more than once"),
        *_break_text("lost", at, lost, "neither in the table nor in quarantine"),
        *_break_text(
            "both", at, np.intersect1d(unique, found.refused), "in the table and in quarantine"
        ),
        *_break_text(
            "foreign", at, np.setdiff1d(above, found.held), "in the table, unknown to Kafka"
        ),
    )
    sizes = (found.held.size, found.mine.size, found.refused.size, found.skipped.size)
    return RowCount(*sizes, int((found.mine < start).sum()), breaks)


def _break_text(kind: str, at: TopicPartition, offsets: Offsets, what: str) -> list[Break]:
    if not offsets.size:
        return []
    some = ", ".join(map(str, offsets[:SHOWN_MAX].tolist()))
    more = f" and {offsets.size - SHOWN_MAX} more" if offsets.size > SHOWN_MAX else ""
    return [Break(kind, str(at), f"{at}: {offsets.size} records {what}: {some}{more}")]


def _read(
    reader: RangeReader, at: TopicPartition, covered: OffsetRange, target: TableTarget
) -> tuple[Offsets, Offsets]:
    """Read the offsets of a range, and those that the spec leaves out of the table.

    Raises UnavailableError (P250) when the partition gives nothing for too long.
    """
    offsets, skipped = [_NOTHING], [_NOTHING]
    headers = target.options.schema_id == "headers"
    headers = headers or target.filters.get(at.topic, PASS_ALL).reads_headers
    reached = covered.start
    while reached < covered.stop:
        before, deadline = reached, time.monotonic() + SILENCE_SECONDS_MAX
        rest = OffsetRange(reached, covered.stop)
        for fetched in reader.read(at, rest, deadline=deadline, headers=headers):
            these = fetched.batch.column("offset").to_numpy()
            offsets.append(these)
            skipped.append(these[_left_out(fetched.batch, at, target)])
            reached = fetched.reached
        if reached == before:
            raise _silent(at)
    return np.concatenate(offsets), np.concatenate(skipped)


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
    refused = np.array([reject.offset for reject in done.rejects], np.int64)
    without: NDArray[np.bool_] = ~np.isin(offsets, np.concatenate([done.offsets, refused]))
    if target.options.tombstones == "quarantine":
        without &= batch.column("value").is_valid().to_numpy(zero_copy_only=False)
    return without


def _silent(at: TopicPartition) -> UnavailableError:
    return UnavailableError(
        f"{at} cannot be read: it has no leader, or its leader does not answer",
        code="P250",
        hint="check its leading broker, then audit again",
    )


def _refusals(subject: Subject) -> Iterator[dict[tuple[str, int], Offsets]]:
    """Yield what is refused for the table, and by its route: all, and what is transient of that.

    What was retried into the table is left out.
    """
    route, own = subject.target.route, subject.target.location.table
    yield _sorted_out(_refused_under(subject, own), "topic_id")
    routed = _refused_under(subject, "" if route is None else route.template)
    yield _sorted_out(routed, "topic_id")
    transient = pc.is_in(routed["code"], value_set=pa.array(sorted(TRANSIENT), pa.string()))
    yield _sorted_out(routed.filter(transient), "topic_id")


def _refused_under(subject: Subject, name: str) -> pa.Table:
    """Read what is refused for a table or a route; nothing where there is no quarantine or name."""
    if subject.quarantine is None or not name:
        return status_of(())
    chain = Chain(f"{subject.pipeline}/{name}", subject.quarantine.name)
    followed = subject.landed.offsets.get(resolutions_of(name), Offset(0))
    statuses = status_of(subject.quarantine.read_quarantine(chain, READ))
    others = pc.fill_null(
        pc.not_equal(statuses["into"], subject.target.location.table), fill_value=False
    )
    return pa.concat_tables(
        [not_yet_landed(statuses.filter(pc.invert(others)), followed), statuses.filter(others)]
    )


def _sorted_out(rows: pa.Table, topic: str) -> dict[tuple[str, int], Offsets]:
    """Gather offsets by topic and partition, without an object or a text for each row.

    Rows that have no source are nobody's.
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
    names = ("records", "rows", "quarantined", "skipped", "unchecked")
    return RowCount(
        **{name: sum(getattr(part, name) for part in parts) for name in names},
        breaks=tuple(each for part in parts for each in part.breaks),
        untold=tuple(each for part in parts for each in part.untold),
    )
