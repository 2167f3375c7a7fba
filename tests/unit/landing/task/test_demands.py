"""Rows are made as their table demands them, or their records refused with the demand's name."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.demands import Constraint, Default, Demands, Generated, Length
from penstock.core.errors import InvalidError
from penstock.core.expressions.parser import parse
from penstock.core.expressions.tree import Constant
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.convert import convert_changes_for_table, convert_for_table
from penstock.landing.task.messages import TableJob, WriteTarget
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.demands.apply import require_options
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.rows.route.compute import no_functions

AT = TopicPartition("id", 0, "orders")
COLUMNS = Struct(
    (
        Field("id", Kind.LONG),
        Field("at", Kind.TIMESTAMPTZ),
        Field("day", Kind.DATE, required=True),
        Field("name", Kind.STRING),
        Field("start", Kind.STRING),
        Field("country", Kind.STRING, required=True),
        Field("count", Kind.INT),
        Field("price", Kind.DOUBLE),
    )
)


def condition(name: str, text: str) -> Constraint:
    return Constraint(name, parse(text, COLUMNS))


DEMANDS = Demands(
    constraints=(
        condition("check constraint positive", "price > 0 OR price IS NULL"),
        condition("check constraint cheap", "count = 0 OR price / count < 100"),
        condition("column invariant of count", "count + 1 > count"),
    ),
    lengths=(Length("name", 5),),
    generated=(
        Generated("day", parse("CAST(at AS DATE)", COLUMNS)),
        Generated("start", parse("SUBSTRING(name, 1, 2)", COLUMNS)),
    ),
    defaults=(Default("country", Constant("de", Kind.STRING)),),
)
OPTIONS = RowOptions({}, not_empty=("start",), fills_defaults=True)
JOB = TableJob(COLUMNS, OPTIONS, WriteTarget("c", "t"), demands=DEMANDS)
GIVEN = {"id": 1, "at": "2024-02-29T23:30:00-01:00", "name": "äbc", "price": 2.5, "count": 1}
ROW = {
    **GIVEN,
    "at": dt.datetime(2024, 3, 1, 0, 30, tzinfo=dt.UTC),
    "day": dt.date(2024, 3, 1),
    "start": "äb",
    "country": "de",
}


def batch_of(*records: dict[str, Any] | None) -> pa.RecordBatch:
    values = [None if each is None else json.dumps(each).encode() for each in records]
    return pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
            "key": pa.array([b'{"id":1}'] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def told(job: TableJob, *records: dict[str, Any]) -> tuple[list[Any], dict[int, tuple[str, str]]]:
    made = convert_for_table(job, batch_of(*records), AT, ReaderCache(), no_functions)
    assert made.rows.schema.field("day").nullable is False
    return made.rows.to_pylist(), {each.offset: (each.code, each.message) for each in made.rejects}


def test_what_a_record_lacks_is_filled_in_and_computed() -> None:
    rows, rejects = told(JOB, GIVEN, {**GIVEN, "country": "fr", "day": "2024-03-01"})

    assert [ROW, {**ROW, "country": "fr"}] == rows
    assert {} == rejects


def test_a_record_is_refused_by_the_name_of_what_it_does_not_satisfy() -> None:
    _, rejects = told(
        JOB,
        {**GIVEN, "price": 0},
        {**GIVEN, "name": "äbcdef"},
        {**GIVEN, "day": "2024-02-29"},
        {**GIVEN, "count": (1 << 31) - 1},
        {**GIVEN, "price": 1000},
        {**GIVEN, "count": None},
        {**GIVEN, "at": None},
        {**GIVEN, "name": ""},
        {**GIVEN, "count": 0},
        {**GIVEN, "start": "xx"},
    )

    said = CODES_AND_NAMES
    assert said == {at: (code, text.partition(":")[0]) for at, (code, text) in rejects.items()}


CODES_AND_NAMES = {
    0: ("P376", "check constraint positive"),
    1: ("P377", "name"),
    2: ("P379", "day"),
    3: ("P378", "column invariant of count"),
    4: ("P376", "check constraint cheap"),
    5: ("P376", "check constraint cheap"),
    6: ("P362", "day"),
    7: ("P372", "start"),
    9: ("P379", "start"),
}


def test_nobody_said_when_a_default_counts() -> None:
    job = replace(JOB, options=replace(OPTIONS, fills_defaults=False))
    with pytest.raises(InvalidError, match="a default for the column country") as caught:
        told(job, GIVEN)

    assert "P436" == caught.value.code
    assert "absent_or_null" in str(caught.value.hint)


def test_a_keyed_table_demands_it_of_upserts_and_not_of_deletes() -> None:
    keyed = replace(OPTIONS, keyed=KeyedOptions(("id",)), tombstones="delete", key_format="json")
    job = replace(JOB, options=keyed)
    batch = batch_of(GIVEN, {**GIVEN, "price": -1}, None)
    made = convert_changes_for_table(job, batch, AT, 0, ReaderCache(), no_functions)

    assert [0, 2] == made.changes.offset.tolist()
    assert [True, False] == made.changes.upsert.tolist()
    assert ROW == made.changes.rows.to_pylist()[0]
    assert [(1, "P376")] == [(each.offset, each.code) for each in made.rejects]


def test_rows_of_deleted_keys_would_not_satisfy_a_table() -> None:
    soft = KeyedOptions(("id",), soft=("gone", "gone_at"))
    with pytest.raises(
        InvalidError, match="a soft delete may bring a row of a key alone"
    ) as caught:
        require_options("delta.b.orders", DEMANDS, replace(OPTIONS, keyed=soft))

    assert "P436" == caught.value.code


def test_a_table_without_demands_gets_the_rows_that_were_made() -> None:
    plain = Struct(tuple(replace(each, required=False) for each in COLUMNS.fields))
    job = replace(JOB, schema=plain, demands=Demands())
    made = convert_for_table(job, batch_of(GIVEN), AT, ReaderCache(), no_functions)

    assert [None] == made.rows.column("day").to_pylist()
