"""Tables grow with records of every format: their schemas give a column's type."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass, replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.unit.rows.test_connect import decimal, field, struct
from tests.unit.rows.test_connect import value as connect

from penstock.core.schema import Decimal, Field, Kind, List, Map, Schema, Struct
from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import changes_between, requested_schema
from penstock.rows.schema.survey import survey

INNER = Struct((Field("a", Kind.INT), Field("must", Kind.STRING, required=True)))
TABLE: Schema = Struct(
    (
        Field("n", Kind.INT),
        Field("price", Decimal(5, 2)),
        Field("inner", INNER),
        Field("items", List(INNER, element_required=True)),
        Field("by_name", Map(Kind.STRING, INNER)),
        Field("_kafka_offset", Kind.LONG),
    )
)
EVOLVE = RowOptions({"offset": "_kafka_offset"}, columns="evolve", types="evolve")
AVRO = replace(EVOLVE, format="avro")


@dataclass(frozen=True)
class One:
    """Hold one schema under every number."""

    schema: RegisteredSchema

    def find(self, _: SchemaKey) -> RegisteredSchema:
        return self.schema


def record(name: str, **types: Any) -> dict[str, Any]:
    fields = [{"name": each, "type": type_} for each, type_ in types.items()]
    return {"type": "record", "name": name, "fields": fields}


def avro(schema: Any, *rows: Any, options: RowOptions = AVRO, room: int = 100) -> list[str]:
    values = []
    for row in rows:
        out = io.BytesIO(b"\x00\x00\x00\x00\x01")
        out.seek(5)
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        values.append(out.getvalue())
    found = ReaderCache(One(RegisteredSchema("avro", json.dumps(schema))))
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    return changes_between(TABLE, requested_schema(batch, TABLE, options, found, room))


def test_a_schema_brings_all_of_its_columns_at_once() -> None:
    inner = record("Inner", a="long", must=["null", "string"], b="boolean")
    schema = record(
        "R",
        n="long",
        at={"type": "long", "logicalType": "timestamp-micros"},
        note=["null", "string"],
        inner=["null", inner],
        items={"type": "array", "items": ["null", "Inner"]},
        by_name={"type": "map", "values": "Inner"},
        _kafka_offset="string",
    )
    full = {"a": 1, "must": None, "b": True}
    row = {"n": 1, "at": 0, "note": None, "inner": full, "items": [None], "by_name": {"k": full}}

    assert [
        "n int to long",
        "inner.a int to long",
        "inner.must optional",
        "inner.b boolean added",
        "items[].a int to long",
        "items[].b boolean added",
        "by_name{}.a int to long",
        "by_name{}.must optional",
        "by_name{}.b boolean added",
        "at timestamptz added",
        "note string added",
    ] == [
        change
        for change in avro(schema, {**row, "_kafka_offset": "x"})
        if change != "items[] optional"
    ]


@pytest.mark.parametrize(
    ("precision", "scale", "changes"),
    [
        (10, 2, ["price decimal(5,2) to decimal(10,2)"]),
        (10, 1, ["price decimal(5,2) to decimal(11,2)"]),
        (10, 3, []),
        (4, 2, []),
        (38, 1, []),
    ],
)
def test_decimals_get_more_digits_in_front(precision: int, scale: int, changes: list[str]) -> None:
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    schema = record("R", price=["null", type_])

    assert changes == avro(schema, {"price": None})


def test_leave_is_kept_and_so_is_room() -> None:
    schema = record("R", n="long", one="int", two="int")
    row = {"n": 1, "one": 1, "two": 2}

    assert ["n int to long"] == avro(schema, row, options=replace(AVRO, columns="quarantine"))
    assert ["one int added", "two int added"] == avro(
        schema, row, options=replace(AVRO, types="quarantine")
    )
    assert [] == avro(schema, row, room=1)


def test_names_that_no_table_can_carry_become_no_columns() -> None:
    schema = struct(field("a b", "int32"), field("N", "int32"), field("ok", "int32"))
    options = replace(EVOLVE, format="json-schema-envelope")
    batch = pa.record_batch({"value": pa.array([connect(schema, {"a b": 1})], pa.binary())})

    wide = requested_schema(batch, TABLE, options, ReaderCache(), 100)

    assert ["ok int added"] == changes_between(TABLE, wide)


def test_a_schema_of_connect_gives_the_type_that_json_alone_would_not_give() -> None:
    schema = struct(field("cost", decimal(2, **{"connect.decimal.precision": "9"})))
    options = replace(EVOLVE, format="json-schema-envelope")
    batch = pa.record_batch({"value": pa.array([connect(schema, {"cost": 1.5})], pa.binary())})

    wide = requested_schema(batch, TABLE, options, ReaderCache(), 100)

    assert ["cost decimal(9,2) added"] == changes_between(TABLE, wide)


def test_packed_json_in_an_envelope_gives_its_columns_itself() -> None:
    event = {"op": "c", "after": {"n": 1 << 40, "new": "x"}, "source": {"ts_ms": 1}}
    options = replace(EVOLVE, envelope="debezium", compression="gzip")
    value = gzip.compress(json.dumps(event).encode())
    batch = pa.record_batch({"value": pa.array([value, None], pa.binary())})

    wide = requested_schema(batch, TABLE, options, ReaderCache(), 100)

    assert ["n int to long", "new string added"] == changes_between(TABLE, wide)


def test_an_identifier_stays_required_whatever_records_lack_it() -> None:
    schema = struct(field("n", "int64"), field("inner", struct(field("must", "string"))))
    table = Struct((Field("n", Kind.INT, required=True), Field("inner", INNER, required=True)))
    options = RowOptions(
        {}, format="json-schema-envelope", types="evolve", identifiers=("n", "inner.must")
    )
    values = [connect(schema, {"n": None, "inner": None}), connect(schema, {"n": 1, "inner": {}})]
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})

    assert ["n int to long"] == changes_between(
        table, requested_schema(batch, table, options, ReaderCache(), 100)
    )


def test_a_schema_adds_no_column_of_a_reserved_name() -> None:
    row = {"n": 1, "_pos": 2, "more": 3}
    schema = record("R", n="int", _pos="long", more="long")

    assert ["more long added"] == avro(schema, row, options=replace(AVRO, reserved=("_POS",)))


def test_a_table_is_created_without_columns_of_reserved_names() -> None:
    options = RowOptions({}, reserved=("_file",))
    values = [b'{"id": 1, "_File": "a", "_file": "b", "o": {"_file": 1}}']

    records = pa.record_batch({"value": pa.array(values, pa.binary())})

    shown = survey(records, options, ReaderCache(), columns_max=100)

    assert ("id", "o") == shown.names
    assert Struct((Field("_file", Kind.LONG),)) == shown.fields[1].type
