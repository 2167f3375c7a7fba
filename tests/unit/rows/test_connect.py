"""JSON with a schema of Connect: what JsonConverter writes lands with its types."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct, Type
from penstock.core.schema_join import known
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.convert.blocks import ConversionPlan, convert_typed_block
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.format_reader import TEXT_READER, DecodedBlock
from penstock.rows.options import RowOptions
from penstock.rows.schema.survey import survey

AT = TopicPartition("id", 0, "orders")
CONNECT = "org.apache.kafka.connect.data."
DEBEZIUM = "io.debezium."


def struct(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": False, **more}


def field(name: str, type_: Any, /, **more: Any) -> dict[str, Any]:
    plain = {"type": type_, "optional": True} if isinstance(type_, str) else {**type_}
    return {**plain, "field": name, **more}


def value(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def b64(number: int, length: int) -> str:
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def batch(*values: bytes) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def landed(*values: bytes, table: Struct | None = None, **options: Any) -> ConvertedBatch:
    """Land values in a table of the columns that they ask for."""
    rules = RowOptions({}, format="json-schema-envelope", **options)
    records = batch(*values)
    asked = known(survey(records, rules, ReaderCache(), columns_max=100))
    return convert_batch(records, at=AT, schema=table or asked, options=rules)


def column(type_: Any, payload: Any, into: Type | None = None, /, **more: Any) -> Any:
    """Land one value in a column `a`, alone and among many: its value, or the code."""
    schema = struct(field("a", type_, **more))
    table = None if into is None else Struct((Field("a", into),))
    one = landed(value(schema, {"a": payload}), table=table)
    many = landed(*[value(schema, {"a": payload})] * 70, table=table)
    assert repr(one.rows.to_pylist() * 70) == repr(many.rows.to_pylist())
    assert len(one.rejects) * 70 == len(many.rejects)
    return one.rejects[0].code if one.rejects else one.rows.column("a")[0].as_py()


def connect_columns(members: dict[str, Any], table: Struct, **options: Any) -> ConvertedBatch:
    """Land one value of named members, each a type and what the payload says."""
    schema = struct(*(field(name, type_) for name, (type_, _) in members.items()))
    payload = {name: said for name, (_, said) in members.items()}
    return landed(value(schema, payload), table=table, **options)


LOGICAL = [
    ("int32", CONNECT + "Date", -1, date(1969, 12, 31)),
    ("int32", CONNECT + "Time", 36_000_000, time(10)),
    ("int64", CONNECT + "Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
    ("int32", DEBEZIUM + "time.Date", 0, date(1970, 1, 1)),
    ("int32", DEBEZIUM + "time.Time", 1, time(0, 0, 0, 1000)),
    ("int64", DEBEZIUM + "time.MicroTime", 1, time(0, 0, 0, 1)),
    ("int64", DEBEZIUM + "time.NanoTime", 1000, time(0, 0, 0, 1)),
    ("int64", DEBEZIUM + "time.NanoTime", 1, "P365"),
    ("int64", DEBEZIUM + "time.Timestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1000)),  # noqa: DTZ001
    ("int64", DEBEZIUM + "time.MicroTimestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    ("int64", DEBEZIUM + "time.NanoTimestamp", 1000, datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    ("int64", DEBEZIUM + "time.NanoTimestamp", 1, "P365"),
    ("int64", DEBEZIUM + "time.MicroDuration", 5, 5),
    ("int32", DEBEZIUM + "time.Year", 2026, 2026),
    (
        "string",
        DEBEZIUM + "time.ZonedTimestamp",
        "1970-01-01T01:00:00+01:00",
        datetime.fromtimestamp(0, UTC),
    ),
    ("string", DEBEZIUM + "time.ZonedTime", "10:00:00Z", "10:00:00Z"),
    ("string", DEBEZIUM + "time.Interval", "P1Y", "P1Y"),
    ("string", DEBEZIUM + "data.Uuid", "00000000-0000-0000-0000-000000000001", bytes(15) + b"\x01"),
    ("string", DEBEZIUM + "data.Json", '{"a":1}', '{"a":1}'),
    ("string", DEBEZIUM + "data.Xml", "<a/>", "<a/>"),
    ("string", DEBEZIUM + "data.Enum", "new", "new"),
    ("string", DEBEZIUM + "data.EnumSet", "a,b", "a,b"),
    ("string", DEBEZIUM + "data.Ltree", "a.b", "a.b"),
    ("bytes", DEBEZIUM + "data.Bits", "AQ==", b"\x01"),
]


@pytest.mark.parametrize(("type_", "name", "payload", "expected"), LOGICAL)
def test_a_named_type_lands_as_what_it_means(
    type_: str, name: str, payload: Any, expected: Any
) -> None:
    assert expected == column(type_, payload, name=name)


PLAIN = [
    ("int8", 127, 127),
    ("int8", 128, "P302"),
    ("int16", -32769, "P302"),
    ("int32", 1.5, "P302"),
    ("int64", 2**63 - 1, 2**63 - 1),
    ("int64", "1", "P302"),
    ("float", 0.1, 0.10000000149011612),
    ("double", 0.1, 0.1),
    ("double", "NaN", "nan"),
    ("double", "nan", "P302"),
    ("boolean", True, True),
    ("boolean", "true", "P302"),
    ("string", "é", "é"),
    ("string", 1, "P302"),
    ("bytes", "AAE=", b"\x00\x01"),
    ("bytes", "AAE", "P302"),
]


@pytest.mark.parametrize(("type_", "payload", "expected"), PLAIN)
def test_a_payload_says_what_its_schema_announces_or_is_refused(
    type_: str, payload: Any, expected: Any
) -> None:
    found = column(type_, payload)

    assert str(expected) == str(found)


@pytest.mark.parametrize(
    "name", [CONNECT + "Date", CONNECT + "Time", DEBEZIUM + "time.Date", DEBEZIUM + "time.Time"]
)
@pytest.mark.parametrize("count", [2**31, -(2**31) - 1, 99_999_999_999, -(2**63)])
def test_a_day_or_time_beyond_its_bits_is_refused(name: str, count: int) -> None:
    assert "P364" == column("int64", count, name=name)


NUMBERS = ["16777215", "16777216", "1.6777217e7", "1.000000059604644775390626", "0.1", "1e-60"]


@pytest.mark.parametrize("digits", [*NUMBERS, "16777217", "123456789012345678", "1e39"])
def test_a_float_does_not_depend_on_its_neighbours(digits: str) -> None:
    schema = json.dumps(struct(field("a", "float")))
    one, bad = (f'{{"schema":{schema},"payload":{{"a":{n}}}}}'.encode() for n in (digits, '"x"'))

    alone, together = landed(one), landed(one, bad)

    nearest = pa.scalar(digits).cast(pa.float32()).as_py()
    landing = [{"a": nearest}] if digits in NUMBERS else []
    assert (landing, landing) == (alone.rows.to_pylist(), together.rows.to_pylist())
    codes = [] if digits in NUMBERS else ["P302" if "e" in digits else "P365"]
    assert (codes, [*codes, "P302"]) == (
        [each.code for each in alone.rejects],
        [each.code for each in together.rejects],
    )


def test_a_block_that_arrow_cannot_hold_is_read_record_by_record() -> None:
    def overflowing(values: pa.BinaryArray) -> DecodedBlock:
        return DecodedBlock(pa.array([1 << 40]).cast(pa.int32()), values)

    reader = replace(TEXT_READER, block=overflowing)
    plan = ConversionPlan.of(Struct((Field("value", Kind.STRING),)), RowOptions({}))

    fitted = convert_typed_block(pa.array([b"a", b"\xff", b"c"]), reader, plan)

    assert [{"value": "a"}, {"value": "c"}] == fitted.rows.to_pylist()
    assert ([0, 2], {1: "P303"}) == (
        fitted.positions.tolist(),
        {at: str(reject.code) for at, reject in fitted.rejects.items()},
    )


def decimal(scale: int, **parameters: str) -> dict[str, Any]:
    given = {"scale": str(scale), **parameters}
    return {"type": "bytes", "name": CONNECT + "Decimal", "version": 1, "parameters": given}


def test_decimals_land_exactly_from_bytes_and_from_numbers() -> None:
    own = struct(
        field("scale", "int32"),
        field("value", "bytes"),
        name=DEBEZIUM + "data.VariableScaleDecimal",
    )

    assert Exact("-12.34") == column(decimal(2), b64(-1234, 2))
    assert Exact("12.34") == column(decimal(2, **{"connect.decimal.precision": "10"}), 12.34)
    assert "P365" == column(decimal(2), 12.345)
    assert "P364" == column(decimal(0), b64(10**38, 17))
    assert Exact("1.5") == column(own, {"scale": 1, "value": b64(15, 1)}, Decimal(10, 3))
    assert Exact("1.25") == column("double", 1.25, Decimal(10, 2))
    assert "P302" == column(decimal(2), "12.34")


@pytest.mark.parametrize("number", ["1e", "-1e", "1e-", "0e", "0.0e-"])
def test_a_number_with_an_exponent_beyond_all_measure_is_refused_alone(number: str) -> None:
    schema = json.dumps(struct(field("a", decimal(2))))
    texts = ["1.5", f"{number}99999999999999999999", "2.5"]
    values = [f'{{"schema":{schema},"payload":{{"a":{text}}}}}'.encode() for text in texts]

    done = landed(*values)

    assert [Exact("1.50"), Exact("2.50")] == done.rows.column("a").to_pylist()
    assert [(1, "P364")] == [(each.offset, each.code) for each in done.rejects]


def test_nested_types_land_and_maps_in_both_of_their_forms() -> None:
    item = struct(field("sku", "string"), field("at", "int64", name=CONNECT + "Timestamp"))
    lists = {"type": "array", "items": item, "optional": True}
    by_text = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}
    by_number = {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}}
    moment = datetime.fromtimestamp(1, UTC)

    assert [{"sku": "a", "at": moment}, None] == column(lists, [{"sku": "a", "at": 1000}, None])
    assert [("a", 1)] == column(by_text, {"a": 1})
    assert [(1, "a")] == column(by_number, [[1, "a"]])
    assert "P305" == column(by_number, [[1, "a"], [1, "b"]])
    assert "P302" == column(by_number, [[1]])
    assert "P302" == column(lists, {"sku": "a"})
    assert "P302" == column(item, {"sku": "a", "other": 1})


SCHEMA = struct(field("a", "int32"))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (b'{"a":1}', "P320"),
        (b'{"schema":null,"payload":{},"more":1}', "P320"),
        (b"[]", "P306"),
        (b'{"schema":', "P302"),
        (b'{"schema":1,"payload":1}', "P306"),
        (b'{"schema":{"type":"int9"},"payload":1}', "P312"),
        (b'{"schema":{"type":"struct","fields":[{"type":"int8"}]},"payload":{}}', "P312"),
        (b'{"schema":null,"schema":null,"payload":{}}', "P305"),
        (b'{"schema":{"type":"string"},"payload":"\\ud800"}', "P304"),
        (value(SCHEMA, 1), "P306"),
        (value(SCHEMA, None), "P309"),
        (value(SCHEMA, {"a": 1})[:-1], "P302"),
        (value(SCHEMA, {"a": 1}) + b"{}", "P308"),
        (b'{"schema":{"type":"string"},"payload":"\xff"}', "P303"),
    ],
)
def test_a_value_that_is_no_schema_and_payload_is_refused(given: bytes, code: str) -> None:
    table = Struct((Field("a", Kind.INT), Field("value", Kind.STRING)))
    good = value(SCHEMA, {"a": 7})

    done = landed(good, given, good, table=table, tombstones="quarantine")

    assert [code] == [reject.code for reject in done.rejects]
    assert [7, 7] == done.rows.column("a").to_pylist()


def test_values_without_a_struct_or_a_schema_land_too() -> None:
    table = Struct((Field("a", Kind.INT), Field("value", Kind.STRING)))
    values = [
        value({"type": "string", "optional": False}, "x"),
        b'{"schema":null,"payload":{"a":5}}',
        value(SCHEMA, {}),
        b' { "payload" : {"a": 6} , "schema" : null } ',
    ]

    rows = landed(*values, table=table).rows.to_pylist()

    assert [(None, "x"), (5, None), (None, None), (6, None)] == [tuple(r.values()) for r in rows]


def test_one_bad_payload_among_many_spoils_no_other() -> None:
    good = [value(SCHEMA, {"a": number}) for number in range(1000)]
    good[500] = value(SCHEMA, {"a": "x"})

    done = landed(*good)

    assert [n for n in range(1000) if n != 500] == done.rows.column("a").to_pylist()
    assert [(500, "P302")] == [(reject.offset, reject.code) for reject in done.rejects]


def test_a_schema_asks_for_nested_columns() -> None:
    line = struct(field("sku", "string"))
    schema = struct(
        field("lines", {"type": "array", "items": line}),
        field("tags", {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}}),
        field("price", decimal(2, **{"connect.decimal.precision": "10"})),
    )
    rules = RowOptions({}, format="json-schema-envelope")

    asked = survey(batch(value(schema, {})), rules, ReaderCache(), columns_max=100)

    assert (
        Field("lines", List(Struct((Field("sku", Kind.STRING),)))),
        Field("tags", Map(Kind.STRING, Kind.LONG)),
        Field("price", Decimal(10, 2)),
    ) == asked.fields


def debezium_schema() -> dict[str, Any]:
    row = struct(
        field("id", "int64"),
        field("price", decimal(2)),
        field("at", "int64", name=DEBEZIUM + "time.MicroTimestamp"),
        optional=True,
    )
    source = struct(field("ts_ms", "int64"), field("lsn", "int64"), field("db", "string"))
    return struct(
        field("before", row), field("after", row), field("source", source), field("op", "string")
    )


def test_change_events_of_debezium_land_with_their_types() -> None:
    row = {"id": 1, "price": b64(150, 2), "at": 1_000_001}
    source = {"ts_ms": 1_700_000_000_000, "lsn": 5, "db": "shop"}
    events = [
        {"op": "c", "before": None, "after": row, "source": source},
        {"op": "d", "before": row, "after": None, "source": source},
        {"op": "t", "before": None, "after": None, "source": source},
        {"op": "x", "before": None, "after": row, "source": source},
        {"op": "u", "before": None, "after": {**row, "price": 1.505}, "source": source},
    ]
    changes = {"operation": "_op", "timestamp": "_at", "source": "_from"}
    columns = (
        Field("id", Kind.LONG),
        Field("price", Decimal(10, 2)),
        Field("at", Kind.TIMESTAMP),
        Field("_op", Kind.STRING),
        Field("_at", Kind.TIMESTAMPTZ),
        Field("_from", Kind.STRING),
    )

    done = landed(
        *(value(debezium_schema(), event) for event in events),
        table=Struct(columns),
        envelope="debezium",
        change_columns=changes,
    )

    plain = {"id": 1, "price": Exact("1.50"), "at": datetime(1970, 1, 1, 0, 0, 1, 1)}  # noqa: DTZ001
    said = {
        "_at": datetime.fromtimestamp(1_700_000_000, UTC),
        "_from": '{"ts_ms":1700000000000,"lsn":5,"db":"shop"}',
    }
    assert [{**plain, "_op": op, **said} for op in ("insert", "delete")] == done.rows.to_pylist()
    assert {"truncate": 1} == done.filtered
    assert [(3, "P321"), (4, "P365")] == [(r.offset, r.code) for r in done.rejects]
