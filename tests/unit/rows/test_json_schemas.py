"""JSON with a registry: its schema gives the columns, and refuses nothing by itself."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct, Type
from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.json_schema import PlainJson, reader_for
from penstock.rows.decode.schema_tree import NODES_MAX
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import requested_schema
from penstock.rows.schema.inference import table_schema
from penstock.rows.schema.survey import survey

AT = TopicPartition("id", 0, "events")
OPTIONS = RowOptions({}, format="json-schema")
FRAME = b"\x00\x00\x00\x00\x01"


class One:
    """Hold one schema under every number."""

    def __init__(self, schema: Any, **references: Any) -> None:
        texts = tuple((name, json.dumps(each)) for name, each in references.items())
        self.schema = RegisteredSchema("json-schema", json.dumps(schema), texts)

    def find(self, _: SchemaKey) -> RegisteredSchema:
        return self.schema


def batch(*rows: Any) -> pa.RecordBatch:
    values = [FRAME + json.dumps(row).encode() for row in rows]
    return pa.record_batch(
        {
            "offset": pa.array(range(len(rows)), pa.int64()),
            "timestamp": pa.nulls(len(rows), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(rows), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def created(schema: Any, *rows: Any) -> tuple[Struct, ConvertedBatch]:
    """Create a table from records, and land them in it."""
    readers = ReaderCache(One(schema))
    asked = survey(batch(*rows), OPTIONS, readers, columns_max=100)
    table = table_schema(asked, {}, OPTIONS)
    return table, convert_batch(batch(*rows), at=AT, schema=table, options=OPTIONS, readers=readers)


def type_of(schema: Any) -> Type:
    found = reader_for(json.dumps(schema), (), 64)
    assert isinstance(found, PlainJson)
    return found.type


TEXT: dict[str, Any] = {"type": "string"}
RECURSIVE = {"properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, Kind.STRING),
        ({"type": ["null", "string"]}, Kind.STRING),
        ({"type": "string", "format": "date-time"}, Kind.TIMESTAMPTZ),
        ({"type": "string", "format": "date"}, Kind.DATE),
        ({"type": "string", "format": "uuid"}, Kind.UUID),
        ({"type": "string", "format": "email"}, Kind.STRING),
        ({"type": "string", "contentEncoding": "base64"}, Kind.BINARY),
        ({"type": "integer"}, Kind.LONG),
        ({"type": "integer", "format": "int32"}, Kind.INT),
        ({"type": "number"}, Kind.DOUBLE),
        ({"type": ["integer", "number"]}, Kind.DOUBLE),
        ({"type": "boolean"}, Kind.BOOLEAN),
        ({"enum": ["NEW", "OLD"]}, Kind.STRING),
        ({"const": "NEW"}, Kind.STRING),
        ({"type": "array", "items": TEXT}, List(Kind.STRING)),
        ({"type": "object", "additionalProperties": TEXT}, Map(Kind.STRING, Kind.STRING)),
        ({"properties": {"a": TEXT}}, Struct((Field("a", Kind.STRING),))),
        ({"oneOf": [{"type": "null"}, TEXT]}, Kind.STRING),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, Kind.DOUBLE),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": TEXT}}, Kind.STRING),
        ({"allOf": [{"properties": {"a": TEXT}}]}, Struct((Field("a", Kind.STRING),))),
        (RECURSIVE, Struct((Field("n", Kind.LONG), Field("next", Kind.UNKNOWN)))),
        *(
            (open_, Kind.UNKNOWN)
            for open_ in (
                *({}, True, None, [], {"type": 5}, {"type": "object"}, {"$ref": "#/none"}),
                *(
                    {"oneOf": [TEXT, {"type": "integer"}]},
                    {"anyOf": [TEXT, {}]},
                    {"enum": [1, "a"]},
                ),
            )
        ),
    ],
)
def test_a_schema_gives_a_type_or_leaves_it_open(schema: Any, expected: Type) -> None:
    assert expected == type_of(schema)


def test_a_schema_refers_to_others_by_their_names() -> None:
    others = {"money.json": {"$defs": {"cents": {"$ref": "#/$defs/n"}, "n": {"type": "integer"}}}}
    references = [(name, json.dumps(each)) for name, each in others.items()]
    schema = {"properties": {"price": {"$ref": "money.json#/$defs/cents"}}}

    found = reader_for(json.dumps(schema), references, 64)

    assert PlainJson(Struct((Field("price", Kind.LONG),))) == found


def test_a_schema_of_too_many_types_is_refused_with_its_records() -> None:
    schema = {"properties": {f"a{n}": TEXT for n in range(NODES_MAX)}}
    table = Struct((Field("a", Kind.STRING),))

    done = convert_batch(
        batch({"a": "x"}), at=AT, schema=table, options=OPTIONS, readers=ReaderCache(One(schema))
    )

    assert ["P312"] == [reject.code for reject in done.rejects]


def test_a_new_table_has_the_schemas_types_and_what_it_leaves_open_by_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
            "rate": {"type": "number"},
            "later": {"type": "integer"},
            "free": {},
        },
        "required": ["at"],
    }
    rows = [{"at": "2026-11-21T10:00:00Z", "day": "1969-12-31", "rate": 1, "free": "x", "more": 5}]

    table, done = created(schema, *rows)

    assert {
        "at": Kind.TIMESTAMPTZ,
        "day": Kind.DATE,
        "rate": Kind.DOUBLE,
        "later": Kind.LONG,
        "free": Kind.STRING,
        "more": Kind.LONG,
    } == {each.name: each.type for each in table.fields}
    at = datetime(2026, 11, 21, 10, tzinfo=UTC)
    row = {"at": at, "day": date(1969, 12, 31), "rate": 1.0, "later": None, "free": "x", "more": 5}
    assert [row] == done.rows.to_pylist()


def test_a_record_that_violates_its_schema_is_refused_only_where_a_value_does_not_fit() -> None:
    """No validator runs: serializers do that, and `minimum` makes no value wrong for a column."""
    schema = {
        "properties": {"n": {"type": "integer", "minimum": 10}, "at": TEXT | {"format": "date"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    _, done = created(schema, {"n": 12}, {"n": 3}, {"at": None}, {"n": "x"}, {"at": "soon"})

    assert [0, 1, 2] == done.offsets.tolist()
    assert [(3, "P366"), (4, "P366")] == [(each.offset, each.code) for each in done.rejects]


LOGICAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "connect.type": "int32"},
        "price": {
            "type": "number",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        "at": {
            "oneOf": [
                {"type": "null"},
                {
                    "type": "integer",
                    "title": "org.apache.kafka.connect.data.Timestamp",
                    "connect.type": "int64",
                },
            ]
        },
        "extra": {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"type": "number", "connect.type": "float64"},
        },
    },
}


def test_a_schema_that_connect_wrote_gives_values_the_meaning_they_had_there() -> None:
    rows = [
        {"id": 1, "price": 12.34, "at": 1_700_000_000_001, "extra": {"x": 0.5}},
        {"id": 2, "price": "+y4=", "at": None, "extra": {}},
        {"id": "x"},
    ]

    table, done = created(LOGICAL, *rows)

    assert [Kind.INT, Decimal(10, 2), Kind.TIMESTAMPTZ, Map(Kind.STRING, Kind.DOUBLE)] == [
        each.type for each in table.fields
    ]
    at = datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC)
    assert [
        {"id": 1, "price": Exact("12.34"), "at": at, "extra": [("x", 0.5)]},
        {"id": 2, "price": Exact("-12.34"), "at": None, "extra": []},
    ] == done.rows.to_pylist()
    assert [(2, "P302")] == [(each.offset, each.code) for each in done.rejects]


@pytest.mark.parametrize("names", [["price"], ["price", "extra"], []])
@pytest.mark.parametrize("others", [[], [{}], [{}] * 20])
def test_a_frame_with_nothing_after_it_is_an_empty_value_alone_and_among_others(
    names: list[str], others: list[Any]
) -> None:
    properties = {"note": TEXT, **{name: LOGICAL["properties"][name] for name in names}}
    readers = ReaderCache(One({"type": "object", "properties": properties}))
    table = Struct((Field("note", Kind.STRING),))
    whole = batch(*others, None)
    values = [*whole.column("value").to_pylist()[:-1], FRAME]
    whole = whole.set_column(3, "value", pa.array(values, pa.binary()))

    done = convert_batch(whole, at=AT, schema=table, options=OPTIONS, readers=readers)

    assert [(len(others), "P301", "the value is empty")] == [
        (each.offset, each.code, each.message) for each in done.rejects
    ]
    assert len(others) == done.rows.num_rows


def test_a_table_grows_by_the_columns_of_the_schema() -> None:
    schema = {"properties": {"a": TEXT, "at": TEXT | {"format": "date-time"}, "n": {}}}
    table = Struct((Field("a", Kind.STRING),))
    evolve = RowOptions({}, format="json-schema", columns="evolve")

    request = requested_schema(
        batch({"a": "x", "n": 1, "more": True}),
        table,
        evolve,
        ReaderCache(One(schema)),
        columns_left=10,
    )

    assert [
        ("a", Kind.STRING),
        ("at", Kind.TIMESTAMPTZ),
        ("n", Kind.LONG),
        ("more", Kind.BOOLEAN),
    ] == [(each.name, each.type) for each in request.fields]
