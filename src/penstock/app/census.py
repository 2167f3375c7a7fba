"""Count row by row: every record that Kafka still has is in its table xor in quarantine, once.

The oracle is Kafka itself, read again by the same reader under the same isolation level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.app import assembly
from penstock.core.audit import Break
from penstock.core.commits import Chain, Landed
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.ports.log import Log
from penstock.ports.tables import Table
from penstock.spec.model import Pipeline

if TYPE_CHECKING:
    import pyarrow as pa

FOREVER = float("inf")
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


def count(
    pipeline: Pipeline,
    log: Log,
    landed: Landed,
    rows: pa.Table,
    quarantine: Table | None,
    chain: Chain,
    *,
    skips_tombstones: bool,
) -> Census:
    """Compare a table's coordinates and its quarantine with what Kafka holds below its ledger."""
    by_partition = _by_partition(rows)
    bounds = log.bounds(sorted(landed.offsets))
    reader = assembly.open_reader(pipeline)
    total, breaks = Census(0, 0, 0, 0, 0, ()), list[Break]()
    try:
        for at, stop in sorted(landed.offsets.items()):
            mine = by_partition.get((at.topic, at.partition), np.array([], dtype=np.int64))
            refused = _quarantined(quarantine, chain, at, stop)
            found = bounds.get(at)
            start = _first(pipeline, found.start if found else stop, mine, refused)
            held, nulls = _read(reader, at, OffsetRange(min(start, stop), stop))
            part = _compare(
                at, start, mine, refused, held, nulls if skips_tombstones else nulls[:0]
            )
            total = _plus(total, part)
            breaks += part.breaks
    finally:
        reader.close()
    return Census(
        total.records, total.rows, total.quarantined, total.skipped, total.unchecked, tuple(breaks)
    )


def _first(pipeline: Pipeline, log_start: Offset, mine: np.ndarray, refused: np.ndarray) -> Offset:
    """Give where the comparison begins: the log's start, or the first record that was landed."""
    if pipeline.kafka.start == "earliest":
        return log_start
    firsts = [int(each.min()) for each in (mine, refused) if each.size]
    return Offset(max(log_start, min(firsts, default=log_start)))


def _compare(
    at: TopicPartition,
    start: Offset,
    mine: np.ndarray,
    refused: np.ndarray,
    held: np.ndarray,
    skipped: np.ndarray,
) -> Census:
    unique, counts = np.unique(mine, return_counts=True)
    expected = np.setdiff1d(np.setdiff1d(held, refused), skipped)
    above = unique[unique >= start]
    breaks = [
        *_told("doubled", at, unique[counts > 1], "in the table more than once"),
        *_told("lost", at, np.setdiff1d(expected, above), "neither in the table nor in quarantine"),
        *_told("both", at, np.intersect1d(unique, refused), "in the table and in quarantine"),
        *_told("foreign", at, np.setdiff1d(above, held), "in the table, and Kafka has no such"),
    ]
    unchecked = int((mine < start).sum())
    return Census(held.size, mine.size, refused.size, skipped.size, unchecked, tuple(breaks))


def _told(kind: str, at: TopicPartition, offsets: np.ndarray, what: str) -> list[Break]:
    if not offsets.size:
        return []
    some = ", ".join(map(str, offsets[:SHOWN_MAX].tolist()))
    more = f" and {offsets.size - SHOWN_MAX} more" if offsets.size > SHOWN_MAX else ""
    return [Break(kind, str(at), f"{at}: {offsets.size} records {what}: {some}{more}")]


def _read(
    reader: object, at: TopicPartition, covered: OffsetRange
) -> tuple[np.ndarray, np.ndarray]:
    """Read the offsets of a range, and those without a value."""
    offsets, nulls = [np.array([], dtype=np.int64)], [np.array([], dtype=np.int64)]
    if covered.count:
        for fetched in reader.read(at, covered, deadline=FOREVER):  # type: ignore[attr-defined]
            these = fetched.batch.column("offset").to_numpy()
            offsets.append(these)
            absent = fetched.batch.column("value").is_null().to_numpy(zero_copy_only=False)
            nulls.append(these[absent])
    return np.concatenate(offsets), np.concatenate(nulls)


def _by_partition(rows: pa.Table) -> Mapping[tuple[str, int], np.ndarray]:
    topics = rows.column("topic").to_numpy()
    partitions = rows.column("partition").to_numpy()
    offsets = rows.column("offset").to_numpy()
    found: dict[tuple[str, int], np.ndarray] = {}
    for topic in np.unique(topics.astype(str)):
        of_topic = topics == topic
        for partition in np.unique(partitions[of_topic]):
            chosen = of_topic & (partitions == partition)
            found[str(topic), int(partition)] = offsets[chosen]
    return found


def _quarantined(
    quarantine: Table | None, chain: Chain, at: TopicPartition, stop: Offset
) -> np.ndarray:
    if quarantine is None:
        return np.array([], dtype=np.int64)
    found = quarantine.quarantined(chain, [[at.topic_id, at.partition, at.topic, 0, stop]])
    return np.array(sorted({offset for _, _, offset in found}), dtype=np.int64)


def _plus(first: Census, second: Census) -> Census:
    return Census(
        first.records + second.records,
        first.rows + second.rows,
        first.quarantined + second.quarantined,
        first.skipped + second.skipped,
        first.unchecked + second.unchecked,
        (),
    )
