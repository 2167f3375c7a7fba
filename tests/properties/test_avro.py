"""Avro by columns, by datum and by fastavro give the same, and land the same."""

from __future__ import annotations

import decimal
import io
import json
import struct
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.convert.blocks import ConversionPlan, convert_records, convert_typed_block
from penstock.rows.decode.avro.block_reader import avro_reader, read_block
from penstock.rows.decode.avro.datum_reader import read_datum
from penstock.rows.decode.avro.schema import Record, parse_schema
from penstock.rows.decode.envelope.typed_envelopes import event_reader
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError

NAMES = st.sampled_from(["a", "b", "c", "d", "value"])
LONG = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, -62135596800000, 253402300799999]),
)
INT = LONG.filter(lambda n: -(2**31) <= n < 2**31)
WORDS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["2026-11-01", "2026-11-01T10:00:00Z", "12", "1.5", "AAEC", "true"]),
    st.uuids().map(str),
)
FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.5, -0.0, 16777217.0]))
FLOAT32 = FLOATS.map(lambda x: struct.unpack("<f", struct.pack("<f", x))[0])
COUNTED = [
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "timestamp-nanos"),
    ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"),
]


class Naming:
    """Number the named types of one schema."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"N{self.count}"


@st.composite
def avro(  # noqa: PLR0912  a case for each type
    draw: st.DrawFn, naming: Naming, depth: int = 2
) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a schema with a strategy for its plain values (logical types not applied)."""
    kinds = ["null", "boolean", "int", "long", "float", "double", "string", "bytes", "counted"]
    kinds += ["decimal", "enum", "fixed", "uuid", "debezium"]
    if depth:
        kinds += ["optional", "optional", "union", "array", "map", "record"]
    match draw(st.sampled_from(kinds)):
        case "null":
            return "null", st.none()
        case "boolean":
            return "boolean", st.booleans()
        case "int":
            return "int", INT
        case "long":
            return "long", LONG
        case "float":
            return "float", FLOAT32
        case "double":
            return "double", st.floats()
        case "string":
            return "string", WORDS
        case "bytes":
            return "bytes", st.binary(max_size=5)
        case "counted":
            kind, logical = draw(st.sampled_from(COUNTED))
            return {"type": kind, "logicalType": logical}, INT if kind == "int" else LONG
        case "debezium":
            names = ["MicroTimestamp", "NanoTimestamp", "MicroTime", "Timestamp"]
            name = f"io.debezium.time.{draw(st.sampled_from(names))}"
            return {"type": "long", "connect.name": name}, LONG
        case "decimal":
            scale = draw(st.integers(0, 5))
            schema = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": scale}
            return schema, st.binary(max_size=18)
        case "uuid":
            return {"type": "string", "logicalType": "uuid"}, WORDS
        case "enum":
            symbols = ["X", "Y", "Z"]
            schema = {"type": "enum", "name": naming.next(), "symbols": symbols}
            return schema, st.sampled_from(symbols)
        case "fixed":
            size = draw(st.integers(1, 17))
            schema = {"type": "fixed", "name": naming.next(), "size": size}
            return schema, st.binary(min_size=size, max_size=size)
        case "optional":
            inner, values = draw(avro(naming, depth - 1).filter(lambda s: s[0] != "null"))
            if isinstance(inner, list):
                return inner, values
            return draw(st.permutations(["null", inner])), st.none() | values
        case "union":
            return ["null", "long", "string"], st.none() | LONG | WORDS
        case "array":
            inner, values = draw(avro(naming, depth - 1))
            return {"type": "array", "items": inner}, st.lists(values, max_size=3)
        case "map":
            inner, values = draw(avro(naming, depth - 1))
            return {"type": "map", "values": inner}, st.dictionaries(NAMES, values, max_size=3)
        case _:
            return draw(records(naming, depth - 1))


@st.composite
def records(draw: st.DrawFn, naming: Naming, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    names = draw(st.lists(NAMES, min_size=0 if depth < 2 else 1, max_size=4, unique=True))
    members = [(name, *draw(avro(naming, depth))) for name in names]
    schema = {
        "type": "record",
        "name": naming.next(),
        "fields": [{"name": name, "type": type_} for name, type_, _ in members],
    }
    return schema, st.fixed_dictionaries({name: values for name, _, values in members})


def without_meanings(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                name: without_meanings(value)
                for name, value in schema.items()
                if name not in ("logicalType", "connect.name")
            }
        case list():
            return [without_meanings(each) for each in schema]
        case _:
            return schema


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(without_meanings(schema))
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


@st.composite
def topics(draw: st.DrawFn) -> tuple[Any, list[Any], list[bytes]]:
    schema, values = draw(records(Naming(), 2))
    rows = draw(st.lists(values, min_size=1, max_size=6))
    return schema, rows, [encoded(schema, row) for row in rows]


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Any, list[bytes]]:
    schema, _, values = draw(topics())
    if draw(st.booleans()):
        bad = bytearray(draw(st.sampled_from(values)))
        at = draw(st.integers(0, len(bad)))
        bad[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
        values.insert(draw(st.integers(0, len(values))), bytes(bad))
    return schema, values


def same(one: Any, other: Any) -> bool:
    return repr(ordered(one)) == repr(ordered(other))


def ordered(value: Any) -> Any:
    """Show objects and maps as sorted pairs: 1 differs from 1.0, NaN equals itself."""
    match value:
        case dict():
            return sorted((key, repr(ordered(member))) for key, member in value.items())
        case list():
            return [ordered(each) for each in value]
        case _:
            return value


def plain_node(schema: Any) -> Record:
    return parse_schema(json.dumps(without_meanings(schema)))


@settings(max_examples=100)
@given(topics())
def test_a_datum_reads_as_what_another_library_wrote(
    topic: tuple[Any, list[Any], list[bytes]],
) -> None:
    schema, rows, values = topic
    node = plain_node(schema)

    for row, value in zip(rows, values, strict=True):
        assert same(row, read_datum(node, value))


@settings(max_examples=100)
@given(spoilt(), st.integers(1, 30))
def test_columns_hold_what_data_give_one_by_one(
    topic: tuple[Any, list[bytes]], repeated: int
) -> None:
    schema, values = topic
    node = plain_node(schema)
    values = values * repeated

    decoded = read_block(node, pa.array(values, pa.binary()))

    decoded.array.validate(full=True)
    assert len(values) == len(decoded.array) == len(decoded.uncertain)
    shown = decoded.array.to_pylist()
    for value, row, doubtful in zip(values, shown, decoded.uncertain, strict=True):
        if not doubtful:
            assert same(read_datum(node, value), dicts(row))


def dicts(value: Any) -> Any:
    """Show Arrow's maps as dicts."""
    match value:
        case [tuple(), *_]:
            return {key: dicts(member) for key, member in value}
        case list():
            return [dicts(each) for each in value]
        case dict():
            return {name: dicts(member) for name, member in value.items()}
        case _:
            return value


SCALARS = st.sampled_from([kind for kind in Kind if kind is not Kind.UNKNOWN])
COLUMNS = st.recursive(
    SCALARS | st.sampled_from([Decimal(5, 2), Decimal(20, 3), Decimal(38, 0), Fixed(3), Fixed(16)]),
    lambda inner: (
        st.builds(List, inner, st.booleans())
        | st.builds(Map, st.just(Kind.STRING), inner, st.booleans())
        | st.lists(
            st.builds(Field, NAMES, inner, st.booleans()), max_size=3, unique_by=lambda f: f.name
        ).map(lambda fields: Struct(tuple(fields)))
    ),
    max_leaves=3,
)


@st.composite
def wanted(draw: st.DrawFn, schema: Any) -> Struct:
    """Draw a table: mostly the columns that the schema asks for, some of another type."""
    asked = avro_reader(parse_schema(json.dumps(schema))).type
    return Struct(tuple(changed(draw, field) for field in asked.fields if draw(st.integers(0, 9))))


def changed(draw: st.DrawFn, field: Field) -> Field:
    required = draw(st.integers(0, 9)) == 0
    if isinstance(field.type, Decimal) and draw(st.booleans()):
        other = draw(st.sampled_from([Kind.BINARY, Kind.DOUBLE, Kind.FLOAT]))
        return Field(field.name, other, required)
    if field.type is Kind.UNKNOWN or draw(st.integers(0, 3)) == 0:
        return Field(field.name, draw(COLUMNS), required)
    return Field(field.name, known_type(field.type), required)


def with_rescue(table: Struct) -> Struct:
    return Struct((*table.fields, Field("_rescued", Kind.STRING)))


def known_type(type_: Type) -> Type:
    match type_:
        case Kind.UNKNOWN:
            return Kind.STRING
        case Struct(fields):
            return Struct(tuple(Field(f.name, known_type(f.type), f.required) for f in fields))
        case List(element):
            return List(known_type(element))
        case Map(key, value):
            return Map(key, known_type(value))
        case _:
            return type_


@settings(max_examples=200)
@given(spoilt(), st.data(), st.integers(1, 20))
def test_the_column_way_and_the_record_way_give_equal_rows_and_rejects(
    topic: tuple[Any, list[bytes]], data: st.DataObject, repeated: int
) -> None:
    schema, values = topic
    table = data.draw(wanted(schema))
    policies = st.sampled_from(["quarantine", "drop_value", "rescue", "freeze"])
    zones = st.sampled_from([None, None, "Europe/Berlin"])
    options = RowOptions(
        {},
        columns=data.draw(policies),
        types=data.draw(policies),
        drop_offset=data.draw(st.booleans()),
        assume_zone=data.draw(zones),
    )
    plan = ConversionPlan.of(with_rescue(table), options)
    reader = avro_reader(parse_schema(json.dumps(schema)))
    array = pa.array(values * repeated, pa.binary())

    by_column = convert_typed_block(array, reader, plan)
    by_record = convert_records(array, np.arange(len(array)), plan, reader.record)

    by_column.rows.validate(full=True)
    assert outcome(by_record) == outcome(by_column)


def outcome(fitted: Any) -> Any:
    codes = {position: reject.message for position, reject in fitted.rejects.items()}
    rows = [repr(row) for row in fitted.rows.to_pylist()]
    return rows, fitted.positions.tolist(), codes, dict(fitted.dropped), dict(fitted.rescued)


@settings(max_examples=150)
@given(st.binary(max_size=40), st.data())
def test_no_bytes_crash_or_hang_it(value: bytes, data: st.DataObject) -> None:
    schema, _ = data.draw(records(Naming(), 2))
    node = plain_node(schema)
    decoded = read_block(node, pa.array([value, value], pa.binary()))
    try:
        read = read_datum(node, value)
    except RejectError:
        assert decoded.uncertain.all()
    else:
        assert decoded.uncertain.all() or same(read, dicts(decoded.array[0].as_py()))


@settings(max_examples=100)
@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=4
    )
)
def test_a_decimal_lands_as_it_was_written(number: decimal.Decimal) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {
                "name": "a",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
            }
        ],
    }
    unscaled = int(number.scaleb(4, decimal.Context(prec=60)))
    data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    value = encoded(schema, {"a": data})

    plan = ConversionPlan.of(Struct((Field("a", Decimal(38, 4)),)), RowOptions({}))
    fitted = convert_typed_block(
        pa.array([value]), avro_reader(parse_schema(json.dumps(schema))), plan
    )

    assert [number] == fitted.rows.field("a").to_pylist()


PLACES = st.sampled_from([0, 1, 2, 9, 18, 19, 20, 37, 38]) | st.integers(0, 38)
UNSCALED = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-(1 << 127), (1 << 127) - 1),
    st.builds(lambda digit, power: digit * 10**power, st.integers(-9, 9), st.integers(0, 37)),
    st.sampled_from([4 * 10**20, (1 << 127) - 1, -(1 << 127), 10**38 - 1, 10**38, -(10**38)]),
)


@settings(max_examples=100)
@given(PLACES, PLACES, st.integers(1, 38), st.lists(UNSCALED, min_size=1, max_size=4))
def test_a_decimal_of_another_scale_lands_as_it_is_or_is_refused(
    written: int, wanted: int, precision: int, numbers: list[int]
) -> None:
    meaning = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": written}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": meaning}]}
    data = [number.to_bytes(16, "big", signed=True) for number in numbers]
    values = pa.array([encoded(schema, {"a": each}) for each in data])
    table = Struct((Field("a", Decimal(max(precision, wanted, 1), wanted)),))
    plan, reader = (
        ConversionPlan.of(table, RowOptions({})),
        avro_reader(parse_schema(json.dumps(schema))),
    )

    by_column = convert_typed_block(values, reader, plan)
    by_record = convert_records(values, np.arange(len(values)), plan, reader.record)

    by_column.rows.validate(full=True)
    assert outcome(by_record) == outcome(by_column)
    landed = by_column.rows.field("a").to_pylist()
    sent = [decimal.Decimal(numbers[at]) for at in by_column.positions.tolist()]
    assert [number.scaleb(-written, decimal.Context(prec=60)) for number in sent] == landed


EVENT_OPS = st.sampled_from(["c", "u", "d", "r", "t", "m", "x"])


@st.composite
def events(draw: st.DrawFn) -> tuple[Any, list[bytes]]:
    """Draw Debezium's change events with generated rows."""
    row, rows = draw(records(Naming(), 1))
    source = {
        "type": "record",
        "name": "Source",
        "fields": [
            {"name": "ts_ms", "type": "long"},
            {"name": "ts_us", "type": ["null", "long"], "default": None},
            {"name": "lsn", "type": ["null", "long"]},
            {"name": "db", "type": "string"},
        ],
    }
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", row["name"]]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    times = st.sampled_from([0, -1, 1_700_000_000_123, 2**62])
    sources = st.fixed_dictionaries(
        {
            "ts_ms": times,
            "ts_us": st.none() | times,
            "lsn": st.none() | LONG,
            "db": st.text(max_size=3),
        }
    )
    event = st.fixed_dictionaries(
        {
            "before": st.none() | rows,
            "after": st.none() | rows,
            "source": sources,
            "op": EVENT_OPS,
            "ts_ms": st.none(),
        }
    )
    found = draw(st.lists(event, min_size=1, max_size=6))
    return schema, [encoded(schema, each) for each in found]


@settings(max_examples=100)
@given(events(), st.sampled_from(["debezium", "flattened"]), st.integers(1, 10))
def test_events_land_the_same_by_columns_and_one_by_one(
    topic: tuple[Any, list[bytes]], envelope: Any, repeated: int
) -> None:
    schema, values = topic
    inner = avro_reader(parse_schema(json.dumps(schema)))
    changes = {"operation": "_op", "timestamp": "_at", "source": "_from"}
    reader = event_reader(inner, envelope, changes)
    said = (
        Field("_op", Kind.STRING),
        Field("_at", Kind.TIMESTAMPTZ),
        Field("_from", Kind.STRING),
    )
    asked = known_type(reader.type)
    assert isinstance(asked, Struct)
    plan = ConversionPlan.of(Struct((*asked.fields, *said)), RowOptions({}, envelope=envelope))
    array = pa.array(values * repeated, pa.binary())

    by_column = convert_typed_block(array, reader, plan)
    by_record = convert_records(array, np.arange(len(array)), plan, reader.record)

    assert outcome(by_record) == outcome(by_column)
    assert by_record.filtered == by_column.filtered
    everything = len(by_column.rows) + len(by_column.rejects) + sum(by_column.filtered.values())
    assert len(array) == everything
