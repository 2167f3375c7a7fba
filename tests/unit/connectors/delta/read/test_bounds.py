"""Counts and bounds of live files, as the look-up of rows takes them."""

import datetime as dt
import json
from decimal import Decimal

import pytest

from penstock.connectors.delta.files.target import Target
from penstock.connectors.delta.log.table_metadata import TableMetadata
from penstock.connectors.delta.read.bounds import (
    bounds_of,
    live_row_count,
    partition_value,
    record_count,
)
from penstock.connectors.delta.schema.column_mapping import Stored
from penstock.core.schema import Decimal as Decimal_
from penstock.core.schema import Field, Kind, Struct

UTC = dt.UTC


def local(microseconds):
    return dt.datetime(2024, 1, 1, 0, 0, 0, microseconds, UTC).replace(tzinfo=None)


def form(partition_by=(), physical="", **columns):
    schema = Struct(tuple(Field(name, kind) for name, kind in columns.items()))
    stored = Struct(tuple(Field(f"{physical}{name}", kind) for name, kind in columns.items()))
    target = Target("orders", "/lake/orders", schema, Stored(stored), tuple(partition_by))
    return TableMetadata("u", 1, tuple(partition_by), {}, 7, (), target, "")


def add(low=None, high=None, **given):
    stats = {"numRecords": 3, "minValues": low or {}, "maxValues": high or {}}
    return {"path": "a.parquet", "stats": json.dumps(stats), **given}


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        (Kind.LONG, -(1 << 63), 7, (-(1 << 63), 7)),
        (Kind.STRING, "a", "ä\U0010ffff", ("a", "ä\U0010ffff")),
        (Kind.BOOLEAN, False, True, (False, True)),
        (Kind.DATE, "0001-01-01", "2024-02-29", (dt.date(1, 1, 1), dt.date(2024, 2, 29))),
        (Decimal_(9, 2), 1, 1.5, (Decimal(1), Decimal("1.5"))),
        (
            Kind.TIMESTAMPTZ,
            "2024-01-01T00:00:00.000Z",
            "2024-01-01T02:00:00.001+01:00",
            (
                dt.datetime(2024, 1, 1, tzinfo=UTC),
                dt.datetime(2024, 1, 1, 1, 0, 0, 1999, tzinfo=UTC),
            ),
        ),
        (
            Kind.TIMESTAMP,
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.000001",
            (local(0), local(1)),
        ),
    ],
)
def test_bounds_are_values_that_are_not_tighter(kind, low, high, expected):
    assert {"c": expected} == bounds_of(add({"c": low}, {"c": high}), form(c=kind))[0]
    mapped, _ = bounds_of(add({"col-c": low}, {"col-c": high}), form(c=kind, physical="col-"))
    assert {"c": expected} == mapped


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (Kind.LONG, 1, None),
        (Kind.LONG, "1", "2"),
        (Kind.DATE, "2024-01-01", "+12024-01-01"),
        (Kind.TIMESTAMPTZ, "2024-01-01T00:00:00Z", "9999-12-31T23:59:59.999999+00:00x"),
        (Kind.TIMESTAMP, "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        (Kind.TIMESTAMPTZ, "2024-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"),
        (Kind.DOUBLE, 1.0, 2.0),
        (Kind.BINARY, "a", "b"),
        (Struct((Field("d", Kind.LONG),)), {"d": 1}, {"d": 2}),
    ],
)
def test_unknown_values_have_no_bounds(kind, low, high):
    if high == "9999-12-31T23:59:59.999Z":  # the last millisecond of all: made greater, it fits
        expected = {"c": (dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime.max.replace(tzinfo=UTC))}
    else:
        expected = {}
    assert expected == bounds_of(add({"c": low}, {"c": high}), form(c=kind))[0]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Kind.STRING, "a b%20", "a b%20"),
        (Kind.INT, "-7", -7),
        (Kind.BOOLEAN, "true", True),
        (Kind.DATE, "2024-02-29", dt.date(2024, 2, 29)),
        (Decimal_(9, 2), "-1.50", Decimal("-1.50")),
        (Kind.TIMESTAMP, "2024-01-01 00:00:00.000001", local(1)),
        (Kind.TIMESTAMPTZ, "2024-01-01T00:00:00.5Z", dt.datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)),
        (Kind.TIMESTAMPTZ, "2024-01-01 00:00:00", dt.datetime(2024, 1, 1, tzinfo=UTC)),
        (Kind.STRING, "", None),
        (Kind.STRING, None, None),
        (Kind.DOUBLE, "Infinity", float("inf")),
    ],
)
def test_a_partition_value_is_both_bounds(kind, text, expected):
    added = add(partitionValues={"p": text})
    parted = form(("p",), p=kind)

    assert expected == partition_value(added, parted.target, "p").as_py()
    assert ({} if expected is None else {"p": (expected, expected)}) == bounds_of(added, parted)[0]


def test_rows_are_those_written_and_live_ones_are_without_the_vector_s():
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 1, "cardinality": 2}
    parsed = {"path": "b", "stats_parsed": {"numRecords": 5}}

    assert [3, 5, None, None] == [
        record_count(each)
        for each in (add(), parsed, {"stats": "{"}, {"stats": '{"numRecords":-1}'})
    ]
    assert 6 == live_row_count([add(deletionVector=vector), parsed])
    assert live_row_count([add(), {}]) is None
