"""The golden conversions (tests/golden): what lands as what in which column, or is refused why.

Every line is tried three ways: alone, between plain records, and by the record converter only.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.conversions import Case, cases, shown

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.rows.convert.batch import convert_batch
from penstock.rows.convert.blocks import ConversionPlan, convert_records
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode

AT = TopicPartition("id", 0, "events")
PLAIN = RowOptions({})
ASSUMING = RowOptions({}, assume_zone="Europe/Berlin")
DROPPING = RowOptions({}, drop_offset=True)


def batch_of(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def local(*parts: int) -> datetime:
    return utc(*parts).replace(tzinfo=None)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def outcome(rows: pa.RecordBatch, codes: list[str]) -> Any:
    return RejectCode(codes[0]) if codes else rows.column("a")[0].as_py()


def name_of(case: Case) -> str:
    return f"{case.type}-{case.json}"[:60]


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_a_value_lands_exactly_or_is_refused(case: Case) -> None:
    schema = Struct((Field("a", case.type),))
    expected = case.code or case.lands

    def shown_outcome(rows: pa.RecordBatch, codes: list[str]) -> Any:
        return RejectCode(codes[0]) if codes else shown(rows.column("a")[0].as_py(), case.type)

    alone = convert_batch(batch_of(case.record), at=AT, schema=schema, options=PLAIN)
    assert expected == shown_outcome(alone.rows, [r.code for r in alone.rejects])

    among = convert_batch(batch_of(b"{}", case.record, b"{}"), at=AT, schema=schema, options=PLAIN)
    codes = [r.code for r in among.rejects]
    assert expected == shown_outcome(among.rows.slice(1), codes)
    assert 3 - len(codes) == len(among.rows)

    values = pa.array([case.record], pa.binary())
    only = convert_records(values, np.array([0]), ConversionPlan.of(schema, PLAIN))
    found = [str(reject.code) for reject in only.rejects.values()]
    assert expected == shown_outcome(pa.RecordBatch.from_struct_array(only.rows), found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"2026-07-01T12:00:00"', utc(2026, 7, 1, 10)),
        ('"2026-01-01T12:00:00"', utc(2026, 1, 1, 11)),
        ('"2026-07-01T12:00:00Z"', utc(2026, 7, 1, 12)),
        ('"2026-10-25T02:30:00"', RejectCode.ZONE_MISSING),
        ('"2026-03-29T02:30:00"', RejectCode.ZONE_MISSING),
    ],
)
def test_an_assumed_zone_gives_an_instant_where_the_local_time_is_unique(
    text: str, expected: Any
) -> None:
    schema = Struct((Field("a", Kind.TIMESTAMPTZ),))

    done = convert_batch(
        batch_of(f'{{"a":{text}}}'.encode()), at=AT, schema=schema, options=ASSUMING
    )

    assert expected == outcome(done.rows, [r.code for r in done.rejects])


def test_an_offset_is_dropped_only_where_the_spec_says_so() -> None:
    schema = Struct((Field("a", Kind.TIMESTAMP),))
    values = (b'{"a":"2026-11-01T10:00:00+02:00"}', b'{"a":"2026-11-01T10:00:00"}')

    done = convert_batch(batch_of(*values), at=AT, schema=schema, options=DROPPING)

    assert [local(2026, 11, 1, 10)] * 2 == done.rows.column("a").to_pylist()
