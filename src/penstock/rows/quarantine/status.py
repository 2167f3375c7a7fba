"""The status of rejected records: rejects and resolutions of a quarantine table, joined.

Invariants: the first reject of a record stays as it is; of its resolutions the one with the largest
number counts (docs/design/0100); a record without resolutions is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.core.resolutions import STAGE, Resolution
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.quarantine.rows import OPEN, QUARANTINE_SCHEMA

PLACE = ("table", "topic_id", "partition", "offset")
READ = (
    *("topic", *PLACE, "timestamp", "stage", "code", "message", "epoch"),
    *("quarantined_at", "status"),
)
"""The columns that `status_of` needs."""
_ORDER = [(name, "ascending") for name in ("table", "topic", *PLACE[1:])]
_LATER = ("status", "epoch", "code", "message")
NEVER = -1
BYTES = ("topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns that `records_of` needs, in addition to `stage`."""


def status_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return one row for each rejected record: `READ` as it was rejected, and what became of it.

    `status` is `open`, `retried` or `dropped`; `closing` the number of the resolution that counts,
    or -1; `into` the table that a retried record landed in. Of a record that is open again after a
    resolution, `code` and `message` are the resolution's.
    """
    rows = _table(READ, batches)
    closes = pc.equal(rows["stage"], STAGE)
    by_place = rows.filter(closes).sort_by("epoch").group_by(list(PLACE), use_threads=False)
    latest = by_place.aggregate([(name, "last") for name in _LATER])
    merged = rows.filter(pc.invert(closes)).join(latest, list(PLACE), join_type="left outer")
    number = pc.fill_null(merged["epoch_last"], NEVER)
    status = pc.fill_null(merged["status_last"], OPEN)
    again = pc.and_(pc.equal(status, OPEN), pc.greater(number, NEVER))
    retried = pc.equal(status, str(Resolution.RETRIED))
    columns: dict[str, pa.ChunkedArray] = {name: merged[name] for name in READ}
    columns["status"] = status
    for name in ("code", "message"):
        columns[name] = pc.if_else(again, merged[f"{name}_last"], merged[name])
    columns["closing"] = number
    columns["into"] = pc.if_else(retried, merged["message_last"], pa.scalar(None, pa.string()))
    return pa.table(columns).sort_by(_ORDER)


def not_yet_landed(statuses: pa.Table, followed: int) -> pa.Table:
    """Leave out the records whose retry has landed; `followed` is how far their table followed."""
    retried = pc.equal(statuses["status"], str(Resolution.RETRIED))
    landed = pc.and_(retried, pc.less(statuses["closing"], followed))
    return statuses.filter(pc.invert(landed))


def records_of(
    batches: Iterable[pa.RecordBatch], wanted: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, pa.RecordBatch]:
    """Return rejected records as a reader of the log would, at the offsets wanted (ascending)."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        mine = pc.invert(pc.equal(batch["stage"], STAGE))
        kept.append(batch.filter(mine).select(BYTES))
    rows = _table(BYTES, kept)
    found = {}
    for at, offsets in wanted.items():
        here = pc.and_(
            pc.equal(rows["topic_id"], at.topic_id), pc.equal(rows["partition"], at.partition)
        )
        asked = pc.is_in(rows["offset"], value_set=pa.array(offsets, pa.int64()))
        mine = rows.filter(pc.and_(here, asked)).sort_by("offset").combine_chunks()
        found[at] = _as_read(mine)
    return found


@dataclass(frozen=True, slots=True)
class Resolved:
    """One resolution to be written: of which record, what was decided, and what is said of it."""

    at: TopicPartition
    offset: int
    status: Resolution
    code: str
    message: str


def resolution_rows(
    closed: Sequence[Resolved], *, pipeline: str, table: str, first: int, at_ms: int
) -> pa.RecordBatch:
    """Return the rows of resolutions, numbered from `first`; `table` is the chain's table or route.

    A resolution holds no bytes: those are in the row that rejected the record.
    """
    rows = [
        {
            "pipeline": pipeline,
            "table": table,
            "topic": each.at.topic,
            "topic_id": each.at.topic_id,
            "partition": each.at.partition,
            "offset": each.offset,
            "stage": STAGE,
            "code": each.code,
            "message": each.message,
            "epoch": first + number,
            "quarantined_at": at_ms * 1000,
            "status": str(each.status),
        }
        for number, each in enumerate(closed)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(QUARANTINE_SCHEMA))


def _table(names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> pa.Table:
    whole = arrow_schema(QUARANTINE_SCHEMA)
    schema = pa.schema([whole.field(name).with_nullable(True) for name in names])
    tables = [pa.Table.from_batches([batch]).select(list(names)).cast(schema) for batch in batches]
    return pa.concat_tables([schema.empty_table(), *tables])


def _as_read(rows: pa.Table) -> pa.RecordBatch:
    """Return records in the form in which a reader returns them (ports/log.py)."""
    offsets = rows["offset"].to_numpy()
    first = np.ones(len(offsets), np.bool_)
    first[1:] = offsets[1:] != offsets[:-1]
    rows = rows.filter(pa.array(first))
    columns = {name: rows[name] for name in ("offset", "timestamp", "key", "value", "headers")}
    columns["timestamp"] = columns["timestamp"].cast(pa.timestamp("ms", "UTC"))
    return pa.record_batch({name: each.combine_chunks() for name, each in columns.items()})
