"""The golden matrix: which JSON value lands as what in which column, and what is refused why.

Every line is tried three ways: alone, between plain records, and by the record converter only.
"""

from __future__ import annotations

import decimal
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.codes import Code
from penstock.rows.convert import convert
from penstock.rows.fitting import Plan, fit_records
from penstock.rows.options import RowOptions

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


def number(text: str | int) -> decimal.Decimal:
    return decimal.Decimal(text)


def local(*parts: int) -> datetime:
    return utc(*parts).replace(tzinfo=None)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


MATRIX: list[tuple[Type, str, Any]] = [
    (Kind.BOOLEAN, "true", True),
    (Kind.BOOLEAN, "false", False),
    (Kind.BOOLEAN, '"true"', True),
    (Kind.BOOLEAN, '"false"', False),
    (Kind.BOOLEAN, "null", None),
    (Kind.BOOLEAN, "1", Code.WRONG_TYPE),
    (Kind.BOOLEAN, "0", Code.WRONG_TYPE),
    (Kind.BOOLEAN, '"True"', Code.UNREADABLE),
    (Kind.BOOLEAN, '"yes"', Code.UNREADABLE),
    (Kind.BOOLEAN, '""', Code.UNREADABLE),
    (Kind.BOOLEAN, "[]", Code.WRONG_TYPE),
    (Kind.INT, "2147483647", 2147483647),
    (Kind.INT, "-2147483648", -2147483648),
    (Kind.INT, "2147483648", Code.OUT_OF_RANGE),
    (Kind.INT, "-2147483649", Code.OUT_OF_RANGE),
    (Kind.INT, "2147483648.0", Code.OUT_OF_RANGE),
    (Kind.INT, "true", Code.WRONG_TYPE),
    (Kind.LONG, "0", 0),
    (Kind.LONG, "-0", 0),
    (Kind.LONG, "9223372036854775807", 9223372036854775807),
    (Kind.LONG, "-9223372036854775808", -9223372036854775808),
    (Kind.LONG, "9223372036854775808", Code.OUT_OF_RANGE),
    (Kind.LONG, "2.0", 2),
    (Kind.LONG, "20e-1", 2),
    (Kind.LONG, "1e3", 1000),
    (Kind.LONG, "1E3", 1000),
    (Kind.LONG, "9223372036854775807.000", 9223372036854775807),
    (Kind.LONG, "2." + "0" * 60, 2),
    (Kind.LONG, "2.7", Code.INEXACT),
    (Kind.LONG, "1e-1", Code.INEXACT),
    (Kind.LONG, "1e400", Code.OUT_OF_RANGE),
    (Kind.LONG, "1e999999999999999999999", Code.OUT_OF_RANGE),
    (Kind.LONG, "1e-999999999999999999999", Code.INEXACT),
    (Kind.LONG, "0e999999999999999999999", 0),
    (Kind.LONG, '"12"', 12),
    (Kind.LONG, '"-12"', -12),
    (Kind.LONG, '"+12"', 12),
    (Kind.LONG, '"0012"', 12),
    (Kind.LONG, '"2.0"', 2),
    (Kind.LONG, '"2.7"', Code.INEXACT),
    (Kind.LONG, '"12abc"', Code.UNREADABLE),
    (Kind.LONG, '" 12"', Code.UNREADABLE),
    (Kind.LONG, '"1_000"', Code.UNREADABLE),
    (Kind.LONG, '"0x10"', Code.UNREADABLE),
    (Kind.LONG, '"١٢"', Code.UNREADABLE),
    (Kind.LONG, '""', Code.UNREADABLE),
    (Kind.LONG, '"NaN"', Code.UNREADABLE),
    (Kind.LONG, "NaN", Code.MALFORMED),
    (Kind.LONG, "01", Code.MALFORMED),
    (Kind.LONG, "+1", Code.MALFORMED),
    (Kind.LONG, "1.", Code.MALFORMED),
    (Kind.LONG, ".5", Code.MALFORMED),
    (Kind.LONG, "0x10", Code.MALFORMED),
    (Kind.LONG, "{}", Code.WRONG_TYPE),
    (Kind.DOUBLE, "1", 1.0),
    (Kind.DOUBLE, "0.1", 0.1),
    (Kind.DOUBLE, "-0.0", -0.0),
    (Kind.DOUBLE, "1e308", 1e308),
    (Kind.DOUBLE, "5e-324", 5e-324),
    (Kind.DOUBLE, "6.02214076e23", 6.02214076e23),
    (Kind.DOUBLE, "9007199254740992", 9007199254740992.0),
    (Kind.DOUBLE, "9007199254740993", Code.INEXACT),
    (Kind.DOUBLE, "-9007199254740993", Code.INEXACT),
    (Kind.DOUBLE, "9007199254740994", 9007199254740994.0),
    (Kind.DOUBLE, "10000000000000000000000", 1e22),
    (Kind.DOUBLE, "100000000000000000000000", Code.INEXACT),
    (Kind.DOUBLE, "9007199254740993.0", 9007199254740992.0),
    (Kind.DOUBLE, "1e400", Code.OUT_OF_RANGE),
    (Kind.DOUBLE, "-1e400", Code.OUT_OF_RANGE),
    (Kind.DOUBLE, "1" * 400, Code.OUT_OF_RANGE),
    (Kind.DOUBLE, "1e-400", 0.0),
    (Kind.DOUBLE, '"1.5"', 1.5),
    (Kind.DOUBLE, '"9007199254740993"', Code.INEXACT),
    (Kind.DOUBLE, '"NaN"', Code.UNREADABLE),
    (Kind.DOUBLE, '"inf"', Code.UNREADABLE),
    (Kind.DOUBLE, "NaN", Code.MALFORMED),
    (Kind.DOUBLE, "Infinity", Code.MALFORMED),
    (Kind.DOUBLE, "-Infinity", Code.MALFORMED),
    (Kind.DOUBLE, "Inf", Code.MALFORMED),
    (Kind.DOUBLE, "true", Code.WRONG_TYPE),
    (Kind.FLOAT, "0.5", 0.5),
    (Kind.FLOAT, "16777216", 16777216.0),
    (Kind.FLOAT, "16777217", Code.INEXACT),
    (Kind.FLOAT, "1e39", Code.OUT_OF_RANGE),
    (Kind.FLOAT, '"0.5"', 0.5),
    # Read by way of a double this would be rounded twice, to 1.0.
    (Kind.FLOAT, "1.00000005960464477540", 1.0000001192092896),
    (Decimal(5, 2), "1.23", number("1.23")),
    (Decimal(5, 2), "999.99", number("999.99")),
    (Decimal(5, 2), "-999.99", number("-999.99")),
    (Decimal(5, 2), "1.230", number("1.23")),
    (Decimal(5, 2), "1e2", number("100.00")),
    (Decimal(5, 2), "12e-1", number("1.20")),
    (Decimal(5, 2), '"1.23"', number("1.23")),
    (Decimal(5, 2), '".5"', number("0.50")),
    (Decimal(5, 2), '"5."', number("5.00")),
    (Decimal(5, 2), "-0.00", number("0.00")),
    (Decimal(5, 2), "0e50", number("0.00")),
    (Decimal(5, 2), "1.234", Code.INEXACT),
    (Decimal(5, 2), "1e-3", Code.INEXACT),
    (Decimal(5, 2), "1000", Code.OUT_OF_RANGE),
    (Decimal(5, 2), "-1000", Code.OUT_OF_RANGE),
    (Decimal(5, 2), "1e400", Code.OUT_OF_RANGE),
    (Decimal(5, 2), '"1_0"', Code.UNREADABLE),
    (Decimal(5, 2), '"NaN"', Code.UNREADABLE),
    (Decimal(5, 2), '""', Code.UNREADABLE),
    (Decimal(5, 2), "true", Code.WRONG_TYPE),
    (Decimal(38, 0), "9" * 38, number("9" * 38)),
    (Decimal(38, 0), "1" + "0" * 38, Code.OUT_OF_RANGE),
    (Decimal(38, 0), "15e37", Code.OUT_OF_RANGE),
    # pyarrow.json would give 1318113592927845595.62… for this.
    (Decimal(38, 20), "1e20", Code.OUT_OF_RANGE),
    (Decimal(38, 20), "1e17", number("1e17")),
    (Decimal(38, 37), "15", Code.OUT_OF_RANGE),
    (Decimal(38, 37), "9." + "9" * 37, number("9." + "9" * 37)),
    (Decimal(38, 10), "1." + "0" * 60, number(1)),
    (Kind.STRING, '"x"', "x"),
    (Kind.STRING, '""', ""),
    (Kind.STRING, '"\\u0000"', "\x00"),
    (Kind.STRING, '"\\ud83d\\ude00"', "😀"),
    (Kind.STRING, '"é\\n"', "é\n"),
    (Kind.STRING, '"}\\n{\\"v\\":"', '}\n{"v":'),
    (Kind.STRING, '"2026-11-01"', "2026-11-01"),
    (Kind.STRING, "1", Code.WRONG_TYPE),
    (Kind.STRING, "true", Code.WRONG_TYPE),
    (Kind.STRING, "{}", Code.WRONG_TYPE),
    (Kind.STRING, '"\\ud800"', Code.LONE_SURROGATE),
    (Kind.STRING, '"\\udc00x"', Code.LONE_SURROGATE),
    (Kind.STRING, '"\\ud800\\ud800"', Code.LONE_SURROGATE),
    (Kind.STRING, '"\\x41"', Code.MALFORMED),
    (Kind.STRING, '"a\nb"', Code.MALFORMED),
    (Kind.STRING, '"a\tb"', Code.MALFORMED),
    (Kind.STRING, '"a\x00b"', Code.MALFORMED),
    (Kind.STRING, "'x'", Code.MALFORMED),
    (Kind.BINARY, '"AAEC"', b"\x00\x01\x02"),
    (Kind.BINARY, '"AA=="', b"\x00"),
    (Kind.BINARY, '""', b""),
    (Kind.BINARY, '"AA"', Code.UNREADABLE),
    (Kind.BINARY, '"AB=="', Code.UNREADABLE),
    (Kind.BINARY, '"A A="', Code.UNREADABLE),
    (Kind.BINARY, '"-_8="', Code.UNREADABLE),
    (Kind.BINARY, '"é==="', Code.UNREADABLE),
    (Kind.BINARY, "1", Code.WRONG_TYPE),
    (Fixed(2), '"AAE="', b"\x00\x01"),
    (Fixed(2), '"AA=="', Code.WRONG_LENGTH),
    (
        Kind.UUID,
        '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"',
        UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6").bytes,
    ),
    (
        Kind.UUID,
        '"F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"',
        UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6").bytes,
    ),
    (Kind.UUID, '"f81d4fae7dec11d0a76500a0c91e6bf6"', Code.UNREADABLE),
    (Kind.UUID, '"{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"', Code.UNREADABLE),
    (Kind.UUID, "7", Code.WRONG_TYPE),
    (Kind.DATE, '"2026-11-01"', date(2026, 11, 1)),
    (Kind.DATE, '"0001-01-01"', date(1, 1, 1)),
    (Kind.DATE, '"9999-12-31"', date(9999, 12, 31)),
    (Kind.DATE, '"2024-02-29"', date(2024, 2, 29)),
    (Kind.DATE, '"2026-02-29"', Code.OUT_OF_RANGE),
    (Kind.DATE, '"0000-01-01"', Code.OUT_OF_RANGE),
    (Kind.DATE, '"10000-01-01"', Code.UNREADABLE),
    (Kind.DATE, '"2026-1-1"', Code.UNREADABLE),
    (Kind.DATE, '"20261101"', Code.UNREADABLE),
    (Kind.DATE, '"2026-11-01T00:00:00"', Code.UNREADABLE),
    (Kind.DATE, "20000", Code.UNIT_MISSING),
    (Kind.TIME, '"10:00:00"', time(10)),
    (Kind.TIME, '"10:00"', time(10)),
    (Kind.TIME, '"23:59:59.999999"', time(23, 59, 59, 999999)),
    (Kind.TIME, '"10:00:00.1234560"', time(10, 0, 0, 123456)),
    (Kind.TIME, '"10:00:00.1234567"', Code.INEXACT),
    (Kind.TIME, '"24:00:00"', Code.OUT_OF_RANGE),
    (Kind.TIME, '"23:59:60"', Code.OUT_OF_RANGE),
    (Kind.TIME, '"10"', Code.UNREADABLE),
    (Kind.TIME, '"10:00:00Z"', Code.UNREADABLE),
    (Kind.TIME, "36000", Code.UNIT_MISSING),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00Z"', utc(2026, 11, 1, 10)),
    (Kind.TIMESTAMPTZ, '"2026-11-01 10:00:00Z"', utc(2026, 11, 1, 10)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00Z"', utc(2026, 11, 1, 10)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00+02"', utc(2026, 11, 1, 8)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00+0230"', utc(2026, 11, 1, 7, 30)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00-02:30"', utc(2026, 11, 1, 12, 30)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00-00:00"', utc(2026, 11, 1, 10)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00.5Z"', utc(2026, 11, 1, 10, 0, 0, 500000)),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00.123456000Z"', utc(2026, 11, 1, 10, 0, 0, 123456)),
    (Kind.TIMESTAMPTZ, '"1969-12-31T23:59:59.999999Z"', utc(1969, 12, 31, 23, 59, 59, 999999)),
    (Kind.TIMESTAMPTZ, '"0001-01-01T00:00:00Z"', utc(1, 1, 1)),
    (Kind.TIMESTAMPTZ, '"9999-12-31T23:59:59.999999Z"', utc(9999, 12, 31, 23, 59, 59, 999999)),
    (Kind.TIMESTAMPTZ, '"0001-01-01T00:00:00+05:00"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"9999-12-31T23:59:59-01:00"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"0000-01-01T00:00:00Z"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00.1234567Z"', Code.INEXACT),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00"', Code.ZONE_MISSING),
    (Kind.TIMESTAMPTZ, '"2026-11-01T24:00:00Z"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T23:59:60Z"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00+24:00"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00+02:60"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10Z"', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10+01:00"', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, '"2026-11-01"', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00z"', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, '"2026-11-01T10:00:00Z\\n"', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, '""', Code.UNREADABLE),
    (Kind.TIMESTAMPTZ, "1793000000000", Code.UNIT_MISSING),
    (Kind.TIMESTAMP, '"2026-11-01T10:00:00"', local(2026, 11, 1, 10)),
    (Kind.TIMESTAMP, '"2026-11-01 10:00"', local(2026, 11, 1, 10)),
    (Kind.TIMESTAMP, '"2026-11-01T10:00:00Z"', Code.ZONE_UNEXPECTED),
    (Kind.TIMESTAMP, '"2026-11-01"', Code.UNREADABLE),
    (Kind.TIMESTAMP, '"2026-11-01T10"', Code.UNREADABLE),
    (Kind.TIMESTAMP, '"0000-12-31T23:00:00"', Code.OUT_OF_RANGE),
    (Kind.TIMESTAMP, '"2026-11-01T10:00:00,5"', Code.UNREADABLE),
    (List(Kind.LONG), "[1, null, 3]", [1, None, 3]),
    (List(Kind.LONG), "[]", []),
    (List(Kind.LONG), "null", None),
    (List(Kind.LONG), '[1, "2", 3.0]', [1, 2, 3]),
    (List(Kind.LONG), '[1, "a"]', Code.UNREADABLE),
    (List(Kind.LONG), "{}", Code.WRONG_TYPE),
    (List(Kind.LONG, element_required=True), "[1, null]", Code.MISSING),
    (List(Kind.DOUBLE), "[1, 9007199254740993]", Code.INEXACT),
    (List(Kind.DOUBLE), "[]", []),
    (List(List(Kind.STRING)), '[["a"], [], null]', [["a"], [], None]),
    (Struct((Field("b", Kind.LONG),)), '{"b": 1}', {"b": 1}),
    (Struct((Field("b", Kind.LONG),)), "{}", {"b": None}),
    (Struct((Field("b", Kind.LONG),)), "null", None),
    (Struct((Field("b", Kind.LONG),)), "[]", Code.WRONG_TYPE),
    (Struct((Field("b", Kind.LONG),)), '{"c": 1}', Code.UNKNOWN_FIELD),
    (Struct((Field("b", Kind.LONG),)), '{"c": null}', {"b": None}),
    (Struct((Field("b", Kind.LONG),)), '{"B": 1}', Code.UNKNOWN_FIELD),
    (Struct((Field("b", Kind.LONG),)), '{"b": 1, "b": 1}', Code.DUPLICATE_KEY),
    (Struct((Field("b", Kind.LONG),)), '{"b": 1, "\\u0062": 1}', Code.DUPLICATE_KEY),
    (Struct((Field("b", Kind.LONG, required=True),)), "{}", Code.MISSING),
    (Struct((Field("b", Kind.LONG, required=True),)), "null", None),
    (List(Struct((Field("b", Kind.DATE),))), '[{"b": "2026-11-01"}]', [{"b": date(2026, 11, 1)}]),
    (Map(Kind.STRING, Kind.LONG), '{"x": 1, "y": null}', [("x", 1), ("y", None)]),
    (Map(Kind.STRING, Kind.LONG), '{"x": "a"}', Code.UNREADABLE),
    (Map(Kind.INT, Kind.LONG), '{"1": 1, "1.0": 2}', Code.DUPLICATE_KEY),
    (Map(Kind.STRING, Kind.LONG, value_required=True), '{"x": null}', Code.MISSING),
    (Map(Kind.STRING, Kind.LONG), "[]", Code.WRONG_TYPE),
]


def fate(rows: pa.RecordBatch, codes: list[str]) -> Any:
    return Code(codes[0]) if codes else rows.column("a")[0].as_py()


def exact(value: Any) -> Any:
    """Tell -0.0 from 0.0, and 1 from 1.0 and True."""
    return (type(value), repr(value)) if isinstance(value, float | int | str) else value


@pytest.mark.parametrize(("type_", "text", "expected"), MATRIX, ids=lambda x: str(x)[:40])
def test_a_value_lands_exactly_or_is_refused(type_: Type, text: str, expected: Any) -> None:
    schema = Struct((Field("a", type_),))
    record = f'{{"a":{text}}}'.encode()

    alone = convert(batch_of(record), at=AT, schema=schema, options=PLAIN)
    assert exact(expected) == exact(fate(alone.rows, [r.code for r in alone.rejects]))

    among = convert(batch_of(b"{}", record, b"{}"), at=AT, schema=schema, options=PLAIN)
    codes = [r.code for r in among.rejects]
    assert exact(expected) == exact(fate(among.rows.slice(1), codes))
    assert 3 - len(codes) == len(among.rows)

    only = fit_records(
        pa.array([record], pa.binary()), pa.array([0]).to_numpy(), Plan.of(schema, PLAIN)
    )
    found = [str(misfit.code) for misfit in only.misfits.values()]
    assert exact(expected) == exact(fate(pa.RecordBatch.from_struct_array(only.rows), found))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"2026-07-01T12:00:00"', utc(2026, 7, 1, 10)),
        ('"2026-01-01T12:00:00"', utc(2026, 1, 1, 11)),
        ('"2026-07-01T12:00:00Z"', utc(2026, 7, 1, 12)),
        ('"2026-10-25T02:30:00"', Code.ZONE_MISSING),
        ('"2026-03-29T02:30:00"', Code.ZONE_MISSING),
    ],
)
def test_an_assumed_zone_gives_an_instant_where_the_local_time_is_unique(
    text: str, expected: Any
) -> None:
    schema = Struct((Field("a", Kind.TIMESTAMPTZ),))

    done = convert(batch_of(f'{{"a":{text}}}'.encode()), at=AT, schema=schema, options=ASSUMING)

    assert expected == fate(done.rows, [r.code for r in done.rejects])


def test_an_offset_is_dropped_only_where_the_spec_says_so() -> None:
    schema = Struct((Field("a", Kind.TIMESTAMP),))
    values = (b'{"a":"2026-11-01T10:00:00+02:00"}', b'{"a":"2026-11-01T10:00:00"}')

    done = convert(batch_of(*values), at=AT, schema=schema, options=DROPPING)

    assert [local(2026, 11, 1, 10)] * 2 == done.rows.column("a").to_pylist()
