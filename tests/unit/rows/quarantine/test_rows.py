"""Refused records as rows, and the records that were decided before."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.convert.batch import Reject
from penstock.rows.options import HEADERS
from penstock.rows.quarantine.rows import QUARANTINE_SCHEMA, quarantine_rows

AT = TopicPartition("Uabc", 3, "events")
WHERE = {"pipeline": "shop", "table": "lake.a", "at": AT, "epoch": 9, "at_ms": 1_793_000_000_000}


def batch_of(stamps: list[int | None]) -> pa.RecordBatch:
    count = len(stamps)
    return pa.record_batch(
        {
            "offset": pa.array([10 + 2 * i for i in range(count)], pa.int64()),
            "timestamp": pa.array(stamps, pa.timestamp("ms", "UTC")),
            "key": pa.array([None if i % 2 else b"k%d" % i for i in range(count)], pa.binary()),
            "value": pa.array([b"\xff\x00v%d" % i for i in range(count)], pa.binary()),
        }
    )


def test_a_refused_record_keeps_its_bytes_and_coordinates() -> None:
    batch = batch_of([0, 1500, None])
    rejects = [Reject(12, "decode", "P303", "byte 0 is not UTF-8")]

    rows = quarantine_rows(batch, rejects, **WHERE)

    expected = {
        "pipeline": "shop",
        "table": "lake.a",
        "topic": "events",
        "topic_id": "Uabc",
        "partition": 3,
        "offset": 12,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "key": None,
        "value": b"\xff\x00v1",
        "headers": None,
        "stage": "decode",
        "code": "P303",
        "message": "byte 0 is not UTF-8",
        "epoch": 9,
        "quarantined_at": datetime.fromtimestamp(1_793_000_000, UTC),
        "status": "open",
    }
    assert [expected] == rows.to_pylist()
    assert arrow_schema(QUARANTINE_SCHEMA) == rows.schema


def test_headers_are_kept_where_they_were_read() -> None:
    headers = pa.array([[{"key": "h", "value": b"1"}], None], arrow_type(HEADERS))
    batch = batch_of([0, 0]).append_column("headers", headers)

    rows = quarantine_rows(batch, [Reject(10, "decode", "P302", "")], **WHERE)

    assert [[{"key": "h", "value": b"1"}]] == rows.column("headers").to_pylist()


@pytest.mark.parametrize("stamp", [None, 2**62, -(2**62)])
def test_a_time_stamp_no_table_can_hold_is_null_in_quarantine(stamp: int | None) -> None:
    rows = quarantine_rows(batch_of([stamp]), [Reject(10, "convert", "P364", "")], **WHERE)

    assert [None] == rows.column("timestamp").to_pylist()


def test_no_rejects_give_no_rows() -> None:
    assert 0 == len(quarantine_rows(batch_of([0]), [], **WHERE))


def test_a_whole_large_value_is_kept() -> None:
    batch = batch_of([0]).set_column(3, "value", pa.array([b"x" * 9_000_000], pa.binary()))

    rows = quarantine_rows(batch, [Reject(10, "limit", "P341", "")], **WHERE)

    assert b"x" * 9_000_000 == rows.column("value")[0].as_py()
