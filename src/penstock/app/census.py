"""Count row by row: every record that Kafka still has is in its table xor in quarantine, once.

The oracle is Kafka itself, read again by the same reader under the same isolation level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.app import assembly
from penstock.app.worker import readers as readers_of
from penstock.core.audit import Break
from penstock.core.closings import closings_of, records_only
from penstock.core.commits import Chain, Landed
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.schema import Struct
from penstock.landing.settings import Target
from penstock.ports.log import Log, RangeReader
from penstock.ports.tables import Table
from penstock.rows.convert import convert
from penstock.rows.fates import READ, fates_of, out_of_the_table
from penstock.rows.gate import OPEN
from penstock.rows.sorting import Sorter
from penstock.spec.model import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = NDArray[np.int64]
_NOTHING: Offsets = np.array([], dtype=np.int64)
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Census:
    """What was counted over all partitions. `records` are Kafka's; the rest must account for them.

    `unchecked` counts rows whose records Kafka no longer has: they are only checked for doubles.
    """

    records: int
    rows: int
    quarantined: int
    skipped: int
    unchecked: int
    breaks: tuple[Break, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is counted: one target table and where its rejects are."""

    landed: Landed
    rows: pa.Table
    quarantine: Table | None
    chain: Chain
    target: Target


def count(pipeline: Pipeline, log: Log, subject: Subject) -> Census:
    """Compare a table's coordinates and its quarantine with what Kafka holds below its ledger."""
    offsets = records_only(subject.landed.offsets)
    refusals = _refusals(subject)
    by_partition = _by_partition(subject.rows)
    present = set(log.partitions())  # of a topic that was re-created, the former log is gone
    bounds = log.bounds(sorted(at for at in offsets if at in present))
    reader = assembly.open_reader(pipeline)
    parts = []
    try:
        for at, stop in sorted(offsets.items()):
            mine = by_partition.get((at.topic, at.partition), _NOTHING)
            refused = refusals.get((at.topic_id, at.partition), _NOTHING)
            refused = refused[refused < stop]
            found = bounds.get(at)
            start = _first(pipeline, found.start if found else stop, mine, refused)
            end = min(found.stop, stop) if found else stop
            covered = OffsetRange(min(start, end), end)
            held, skipped = _read(reader, at, covered, subject.target)
            parts.append(_compare(at, start, _Coordinates(mine, refused, held, skipped)))
            parts.append(_beyond(at, end, stop))
    finally:
        reader.close()
    return _total(parts)


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """The offsets of one partition: in the table, in quarantine, in Kafka, left out on purpose."""

    mine: Offsets
    refused: Offsets
    held: Offsets
    skipped: Offsets


def _first(pipeline: Pipeline, log_start: Offset, mine: Offsets, refused: Offsets) -> Offset:
    """Give where the comparison begins: the log's start, or the first record that was landed."""
    if pipeline.kafka.start == "earliest":
        return log_start
    firsts = [int(each.min()) for each in (mine, refused) if each.size]
    return Offset(max(log_start, min(firsts, default=log_start)))


def _beyond(at: TopicPartition, end: Offset, stop: Offset) -> Census:
    """Tell when a ledger stands behind the log's end: nobody can have landed what is not there."""
    told = f"{at}: the ledger says {stop}, the log ends at {end}"
    return Census(0, 0, 0, 0, 0, (Break("ledger", str(at), told),) if stop > end else ())


def _compare(at: TopicPartition, start: Offset, found: _Coordinates) -> Census:
    unique, counts = np.unique(found.mine, return_counts=True)
    refused, refusals = np.unique(found.refused, return_counts=True)
    expected = np.setdiff1d(np.setdiff1d(found.held, found.refused), found.skipped)
    above = unique[unique >= start]
    lost = np.setdiff1d(expected, above)
    breaks = (
        *_told("doubled", at, unique[counts > 1], "in the table more than once"),
        *_told("doubled", at, refused[refusals > 1], "in quarantine more than once"),
        *_told("lost", at, lost, "neither in the table nor in quarantine"),
        *_told("both", at, np.intersect1d(unique, found.refused), "in the table and in quarantine"),
        *_told("foreign", at, np.setdiff1d(above, found.held), "in the table, unknown to Kafka"),
    )
    sizes = (found.held.size, found.mine.size, found.refused.size, found.skipped.size)
    return Census(*sizes, int((found.mine < start).sum()), breaks)


def _told(kind: str, at: TopicPartition, offsets: Offsets, what: str) -> list[Break]:
    if not offsets.size:
        return []
    some = ", ".join(map(str, offsets[:SHOWN_MAX].tolist()))
    more = f" and {offsets.size - SHOWN_MAX} more" if offsets.size > SHOWN_MAX else ""
    return [Break(kind, str(at), f"{at}: {offsets.size} records {what}: {some}{more}")]


def _read(
    reader: RangeReader, at: TopicPartition, covered: OffsetRange, target: Target
) -> tuple[Offsets, Offsets]:
    """Read the offsets of a range, and those that the spec leaves out of the table."""
    offsets, skipped = [_NOTHING], [_NOTHING]
    headers = target.options.schema_id == "headers"
    headers = headers or target.gates.get(at.topic, OPEN).reads_headers
    if covered.count:
        for fetched in reader.read(at, covered, deadline=math.inf, headers=headers):
            these = fetched.batch.column("offset").to_numpy()
            offsets.append(these)
            skipped.append(these[_left_out(fetched.batch, at, target)])
    return np.concatenate(offsets), np.concatenate(skipped)


def _left_out(batch: pa.RecordBatch, at: TopicPartition, target: Target) -> NDArray[np.bool_]:
    """Tell which records are another table's, filtered, or tombstones that are skipped."""
    gate = target.gates.get(at.topic, OPEN)
    out = np.zeros(batch.num_rows, np.bool_)
    if batch.num_rows and not gate.is_open:
        readers = readers_of(target.registry)
        share = Sorter(batch, at).share(gate, target.options, readers=readers)
        out = ~share.mine
        out[list(share.refused)] = False
    if target.options.tombstones == "skip":
        out |= batch.column("value").is_null().to_numpy(zero_copy_only=False)
    if batch.num_rows and target.options.envelope != "none":
        out |= _without_row(batch, at, target)
    return out


def _without_row(batch: pa.RecordBatch, at: TopicPartition, target: Target) -> NDArray[np.bool_]:
    """Tell which records hold events without a row, such as truncate: they are read again."""
    readers = readers_of(target.registry)
    done = convert(batch, at=at, schema=Struct(()), options=target.options, readers=readers)
    offsets = batch.column("offset").to_numpy()
    refused = np.array([reject.offset for reject in done.rejects], np.int64)
    without: NDArray[np.bool_] = ~np.isin(offsets, np.concatenate([done.offsets, refused]))
    if target.options.tombstones == "quarantine":
        without &= batch.column("value").is_valid().to_numpy(zero_copy_only=False)
    return without


def _by_partition(rows: pa.Table) -> Mapping[tuple[str, int], Offsets]:
    topics = rows.column("topic").to_numpy()
    partitions = rows.column("partition").to_numpy()
    offsets = rows.column("offset").to_numpy()
    found: dict[tuple[str, int], Offsets] = {}
    for topic in np.unique(topics.astype(str)):
        of_topic = topics == topic
        for partition in np.unique(partitions[of_topic]):
            chosen = of_topic & (partitions == partition)
            found[str(topic), int(partition)] = offsets[chosen]
    return found


def _refusals(subject: Subject) -> dict[tuple[str, int], Offsets]:
    """Give the offsets in quarantine by partition, but for those whose retry has landed."""
    if subject.quarantine is None:
        return {}
    log = closings_of(subject.target.place.table)
    followed = subject.landed.offsets.get(log, Offset(0))
    fates = fates_of(subject.quarantine.refused(subject.chain, READ))
    found = out_of_the_table(fates, followed)
    partitions = found.select(["topic_id", "partition"]).group_by(["topic_id", "partition"])
    places = partitions.aggregate([]).to_pylist()
    return {
        (each["topic_id"], each["partition"]): np.sort(
            found.filter(
                pc.and_(
                    pc.equal(found["topic_id"], each["topic_id"]),
                    pc.equal(found["partition"], each["partition"]),
                )
            )["offset"].to_numpy()
        )
        for each in places
    }


def _total(parts: list[Census]) -> Census:
    return Census(
        sum(part.records for part in parts),
        sum(part.rows for part in parts),
        sum(part.quarantined for part in parts),
        sum(part.skipped for part in parts),
        sum(part.unchecked for part in parts),
        tuple(each for part in parts for each in part.breaks),
    )
