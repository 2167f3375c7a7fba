"""Rejected records become rows of the quarantine table, bytes and all.

Invariants: a row holds the record's key and value whole, as they came; its coordinates are topic
id, partition and offset; a record stands once per target table (protocol.md I11).

Source: data.md 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.convert.batch import Reject
from penstock.rows.convert.source_columns import beyond
from penstock.rows.options import HEADERS

QUARANTINE_SCHEMA: Schema = Struct(
    (
        Field("pipeline", Kind.STRING, required=True),
        Field("table", Kind.STRING, required=True),
        Field("topic", Kind.STRING, required=True),
        Field("topic_id", Kind.STRING, required=True),
        Field("partition", Kind.INT, required=True),
        Field("offset", Kind.LONG, required=True),
        Field("timestamp", Kind.TIMESTAMPTZ),
        Field("key", Kind.BINARY),
        Field("value", Kind.BINARY),
        Field("headers", HEADERS),
        Field("stage", Kind.STRING, required=True),
        Field("code", Kind.STRING, required=True),
        Field("message", Kind.STRING, required=True),
        Field("epoch", Kind.LONG, required=True),
        Field("quarantined_at", Kind.TIMESTAMPTZ, required=True),
        Field("status", Kind.STRING, required=True),
    )
)

OPEN = "open"
_MS_US = 1000


def quarantine_rows(
    batch: pa.RecordBatch,
    rejects: Sequence[Reject],
    *,
    pipeline: str,
    table: str,
    at: TopicPartition,
    epoch: int,
    at_ms: int,
) -> pa.RecordBatch:
    """Return one row per reject, in the order of the rejects.

    `batch` is the one that was converted, `at_ms` the time in milliseconds since 1970. A record's
    timestamp outside of years 1 to 9999 is null here.
    """
    records = batch.take(pa.array(_positions(batch, rejects), pa.int64()))
    count = len(rejects)
    constants = {
        "pipeline": pipeline,
        "table": table,
        "topic": at.topic,
        "topic_id": at.topic_id,
        "partition": at.partition,
        "epoch": epoch,
        "quarantined_at": at_ms * _MS_US,
        "status": OPEN,
    }
    columns = {
        name: pa.repeat(pa.scalar(value, arrow_type(_type(name))), count)
        for name, value in constants.items()
    }
    for name in ("stage", "code", "message"):
        columns[name] = pa.array([getattr(reject, name) for reject in rejects], pa.string())
    for name in ("offset", "key", "value"):
        columns[name] = records.column(name)
    columns["timestamp"] = _timestamps(records.column("timestamp"))
    columns["headers"] = _headers(records)
    arrays = [columns[name] for name in QUARANTINE_SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(QUARANTINE_SCHEMA))


def without(batch: pa.RecordBatch, offsets: AbstractSet[int]) -> pa.RecordBatch:
    """Leave out the records at some offsets: their outcome was decided before (data.md 5)."""
    if not offsets:
        return batch
    gone = np.isin(batch.column("offset").to_numpy(), np.fromiter(offsets, np.int64, len(offsets)))
    return batch.filter(pa.array(~gone)) if gone.any() else batch


def _positions(batch: pa.RecordBatch, rejects: Sequence[Reject]) -> list[int]:
    offsets = batch.column("offset").to_numpy()
    wanted = np.array([reject.offset for reject in rejects], np.int64)
    found = np.searchsorted(offsets, wanted)
    assert (found < len(offsets)).all(), "rejects are of this batch"
    assert (offsets[found] == wanted).all(), "rejects are of this batch"
    positions: list[int] = found.tolist()
    return positions


def _timestamps(stamps: pa.Array) -> pa.Array:
    outside = np.zeros(len(stamps), np.bool_)
    outside[beyond(stamps)] = True
    kept = pc.if_else(pa.array(outside), pa.scalar(None, stamps.type), stamps)
    return kept.cast(pa.timestamp("us", "UTC"))


def _headers(records: pa.RecordBatch) -> pa.Array:
    target = arrow_type(HEADERS)
    if "headers" not in records.schema.names:
        return pa.nulls(len(records), target)
    return records.column("headers").cast(target)


def _type(name: str) -> Kind:
    field = QUARANTINE_SCHEMA.field(name)
    assert field is not None, name
    assert isinstance(field.type, Kind), name
    return field.type
