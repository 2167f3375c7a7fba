"""Records of formats with types: what no column can take is refused, and never lands as another."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct, Type
from penstock.rows.convert.blocks import ConversionPlan, convert_records, convert_typed_block
from penstock.rows.decode.avro.block_reader import avro_reader, read_block
from penstock.rows.decode.avro.schema import parse_schema
from penstock.rows.decode.envelope.typed_envelopes import event_reader
from penstock.rows.options import Envelope, Policy, RowOptions
from penstock.rows.reject_codes import RejectError


def record(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return {"type": "record", "name": "R", "fields": fields}


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def landed(
    schema: Any, type_: Type, *values: Any, envelope: Envelope = "none", plain: Any = None
) -> list[Any]:
    """Land values in a column `a`: what each became, or its code; both ways must say the same.

    `plain` is the schema the values are written by, without what the other says of their meaning.
    """
    rows = [written(plain or schema, {"a": value}) for value in values]
    plan = ConversionPlan.of(Struct((Field("a", type_),)), RowOptions({}, envelope=envelope))
    reader = avro_reader(parse_schema(json.dumps(schema)))
    array = pa.array(rows, pa.binary())
    by_column = outcomes(convert_typed_block(array, reader, plan), len(rows))
    assert (
        outcomes(convert_records(array, np.arange(len(rows)), plan, reader.record), len(rows))
        == by_column
    )
    return by_column


def outcomes(fitted: Any, count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for position, row in zip(fitted.positions.tolist(), fitted.rows.to_pylist(), strict=True):
        found[position] = row["a"]
    for position, reject in fitted.rejects.items():
        found[position] = str(reject.code)
    return found


def test_a_map_of_text_has_no_place_in_a_map_of_numbers_and_ends_no_process() -> None:
    schema = record(a={"type": "map", "values": "long"})

    assert [[], "P366", [(1, 2)]] == landed(
        schema, Map(Kind.LONG, Kind.LONG), {}, {"x": 1}, {"1": 2}
    )


def money(scale: int) -> dict[str, Any]:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": scale}
    return record(a=decimal)


@pytest.mark.parametrize("policy", ["quarantine", "drop_value", "rescue"])
def test_a_record_has_a_place_in_a_map(policy: Policy) -> None:
    members = [{"name": name, "type": "long"} for name in "ab"]
    schema = record(m={"type": "record", "name": "M", "fields": members})
    table = Struct((Field("m", Map(Kind.STRING, Kind.LONG)), Field("_rescued", Kind.STRING)))
    plan = ConversionPlan.of(table, RowOptions({}, types=policy))
    reader = avro_reader(parse_schema(json.dumps(schema)))
    values = pa.array([written(schema, {"m": {"a": 1, "b": 2}})], pa.binary())
    found = convert_typed_block(values, reader, plan)

    assert [[("a", 1), ("b", 2)]] == found.rows.field("m").to_pylist()
    assert not found.dropped
    assert not found.rescued


def test_the_bytes_of_a_decimal_are_no_binary_value() -> None:
    values = [decimal.Decimal("1.25"), decimal.Decimal("-7.00")]

    assert ["P363", "P363"] == landed(money(2), Kind.BINARY, *values)
    assert values == landed(money(2), Decimal(20, 2), *values)


def test_decimals_in_bytes_are_read_by_columns() -> None:
    schema = money(2)
    values = [decimal.Decimal(text) for text in ("0.00", "1.28", "-1.28", "123456789012345678.90")]
    array = pa.array([written(schema, {"a": value}) for value in values], pa.binary())

    decoded = read_block(parse_schema(json.dumps(schema)), array)

    assert not decoded.uncertain.any()
    assert values == decoded.array.field("a").to_pylist()


def test_many_records_too_short_for_a_fixed_value_take_no_room_for_it() -> None:
    schema = record(a={"type": "fixed", "name": "F", "size": 1 << 16})
    values = [bytes(1 << 16), *[b"x"] * 300]

    decoded = read_block(parse_schema(json.dumps(schema)), pa.array(values, pa.binary()))

    assert [False, *[True] * 300] == decoded.uncertain.tolist()
    assert decoded.array.nbytes < 1 << 17


WIDE = record(a={"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})
WRAPS = (4 * 10**20, -4 * 10**20, 638187035325128962496729)
"""Integers that wrap around in 128 bits when 18 digits are appended to them."""


@pytest.mark.parametrize("others", [(), (7,), (2 * 10**20,)])
@pytest.mark.parametrize("number", WRAPS)
def test_a_decimal_with_no_room_for_its_zeros_is_refused_whatever_is_next_to_it(
    number: int, others: tuple[int, ...]
) -> None:
    fits = {7: decimal.Decimal(7)}
    values = [decimal.Decimal(each) for each in (number, *others)]

    found = landed(WIDE, Decimal(38, 18), *values)

    assert ["P364", *(fits.get(each, "P364") for each in others)] == found


@pytest.mark.parametrize("type_", [Decimal(38, 0), Decimal(38, 18), Decimal(38, 38), Decimal(9, 2)])
@pytest.mark.parametrize("size", [16, 17, 40])
@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_of_more_digits_than_any_column_has_is_refused_alone(
    kind: str, size: int, type_: Decimal
) -> None:
    limit = 1 << (8 * size - 1)
    written_as = {"type": kind} if kind == "bytes" else {"type": kind, "name": "F", "size": size}
    schema = record(a={**written_as, "logicalType": "decimal", "precision": 38, "scale": 0})
    numbers = [0, limit - 1, -limit, 0, limit - 3]
    values = [number.to_bytes(size, "big", signed=True) for number in numbers]

    found = landed(schema, type_, *values, plain=record(a=written_as))

    assert [0, "P364", "P364", 0, "P364"] == found


@pytest.mark.parametrize("type_", [Kind.DOUBLE, Kind.FLOAT])
def test_a_decimal_is_not_rounded_into_a_column_of_doubles(type_: Kind) -> None:
    values = [decimal.Decimal(text) for text in ("0.25", "0.1", "-1.50", "0.00", "12345678.91")]

    assert [0.25, "P365", -1.5, 0.0, "P365"] == landed(money(2), type_, *values)


CONNECT = {
    "type": "bytes",
    "scale": 2,
    "precision": 64,
    "connect.version": 1,
    "connect.parameters": {"scale": "2"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}
"""What AvroConverter writes of a Decimal whose precision it was not given."""


@pytest.mark.parametrize(
    ("changed", "type_"),
    [
        ({}, Decimal(38, 2)),
        ({"precision": 12}, Decimal(12, 2)),
        (
            {"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}},
            Decimal(10, 2),
        ),
        ({"connect.parameters": None}, Decimal(38, 2)),
        ({"logicalType": None, "precision": None, "scale": None}, Decimal(38, 2)),
    ],
)
def test_connects_decimal_has_the_type_that_holds_it(
    changed: dict[str, Any], type_: Decimal
) -> None:
    given = {name: each for name, each in {**CONNECT, **changed}.items() if each is not None}

    reader = avro_reader(parse_schema(json.dumps(record(a=given))))

    assert Struct((Field("a", type_),)) == reader.type
    assert [decimal.Decimal("-1.28")] == landed(
        record(a=given), type_, (-128).to_bytes(1, "big", signed=True), plain=record(a="bytes")
    )


@pytest.mark.parametrize(
    ("items", "type_"), [("int", Kind.INT), ({"type": "int", "logicalType": "date"}, Kind.DATE)]
)
def test_an_array_that_the_source_left_out_does_not_land(items: Any, type_: Kind) -> None:
    schema = record(a={"type": "array", "items": items})
    plain = record(a={"type": "array", "items": "int"})
    left_out, other = list(b"__debezium_unavailable_value"), [*b"__debezium_unavailable_valuf"]

    done = landed(schema, List(type_), left_out, other, [], envelope="debezium", plain=plain)

    assert ["P323", len(other), 0] == [x if isinstance(x, str) else len(x) for x in done]
    whole = landed(schema, List(type_), left_out, plain=plain)
    assert len(left_out) == len(whole[0])


@pytest.mark.parametrize("op", [["u"], {"op": "u"}])
@pytest.mark.parametrize(("envelope", "member"), [("debezium", "op"), ("flattened", "__op")])
def test_an_operation_that_is_no_text_is_refused(op: Any, envelope: Envelope, member: str) -> None:
    kind = {"type": "array", "items": "string"}
    if isinstance(op, dict):
        kind = {"type": "map", "values": "string"}
    after = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    schema = record(**{member: kind, "after": after})
    reader = event_reader(avro_reader(parse_schema(json.dumps(schema))), envelope, {})

    with pytest.raises(RejectError) as caught:
        reader.record(written(schema, {member: op, "after": {"id": 1}}))

    assert "P321" == caught.value.code


def test_a_union_of_several_types_before_an_array_is_no_fault_of_the_record() -> None:
    """Items of records that are read alone are not read by columns, nor what is after them."""
    several = ["null", "long", "string"]
    schema = record(a=several, b={"type": "array", "items": "long"}, c=several)
    row = {"a": 5, "b": [-1, 0], "c": None}
    table = Struct((Field("a", Kind.LONG), Field("b", List(Kind.LONG)), Field("c", Kind.STRING)))
    reader = avro_reader(parse_schema(json.dumps(schema)))
    plan = ConversionPlan.of(table, RowOptions({}))

    fitted = convert_typed_block(pa.array([written(schema, row)], pa.binary()), reader, plan)

    assert ([row], {}) == (fitted.rows.to_pylist(), fitted.rejects)


@pytest.mark.parametrize("type_", [Kind.INT, Kind.LONG])
def test_a_whole_decimal_is_an_integer_and_no_other_is(type_: Kind) -> None:
    values = [decimal.Decimal(text) for text in ("7", "-2.00", "2.5", "99999999999999999999")]

    assert [7, -2, "P365", "P364"] == landed(money(2), type_, *values)


@pytest.mark.parametrize("types", ["drop_value", "rescue", "freeze", "quarantine"])
@pytest.mark.parametrize(
    ("held", "type_", "value"),
    [
        ({"type": "map", "values": "long"}, Struct(()), {"": 1}),
        (
            {"type": "array", "items": {**record(x="long"), "name": "X"}},
            List(Struct(())),
            [{"x": 1}],
        ),
        ({"type": "map", "values": "long"}, Map(Kind.STRING, Struct(())), {"k": 1}),
    ],
)
def test_both_ways_name_the_same_missing_column(
    types: Policy, held: Any, type_: Type, value: Any
) -> None:
    """What is missing within a member comes before what is missing next to it."""
    schema = record(c="long", m=held)
    plan = ConversionPlan.of(
        Struct((Field("m", type_),)), RowOptions({}, columns="freeze", types=types)
    )
    reader = avro_reader(parse_schema(json.dumps(schema)))
    array = pa.array([written(schema, {"c": 1, "m": value})] * 3, pa.binary())
    by_record = convert_records(array, np.arange(3), plan, reader.record)
    by_column = convert_typed_block(array, reader, plan)

    assert [each.message for each in by_record.rejects.values()] == [
        each.message for each in by_column.rejects.values()
    ]
    assert 3 == len(by_column.rejects)
