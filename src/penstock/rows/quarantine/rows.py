"""Rejected records become rows of the quarantine table, bytes and all.

Invariants: a row holds the record's key and value whole, as they came; its coordinates are topic
id, partition and offset; a record has one row per target table (protocol.md I11).

Source: data.md 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_types import arrow_schema
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
    wanted = np.array([reject.offset for reject in rejects], np.int64)
    records = batch.take(pa.array(np.searchsorted(batch.column("offset").to_numpy(), wanted)))
    assert (records.column("offset").to_numpy() == wanted).all(), "rejects are of this batch"
    schema = arrow_schema(QUARANTINE_SCHEMA)
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
        name: pa.repeat(pa.scalar(value, schema.field(name).type), len(rejects))
        for name, value in constants.items()
    }
    for name in ("stage", "code", "message"):
        columns[name] = pa.array([getattr(reject, name) for reject in rejects], pa.string())
    for name in ("offset", "key", "value"):
        columns[name] = records.column(name)
    stamps = records.column("timestamp")
    kept = pc.if_else(pa.array(beyond(stamps)), pa.scalar(None, stamps.type), stamps)
    columns["timestamp"] = kept.cast(schema.field("timestamp").type)
    headers = schema.field("headers").type
    columns["headers"] = pa.nulls(len(rejects), headers)
    if "headers" in records.schema.names:
        columns["headers"] = records.column("headers").cast(headers)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
