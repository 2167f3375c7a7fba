"""JSON Schemas of columns: what is made, what others read in it, and rows of other columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.rows.decode.json_schema import PlainJson, reader_for
from penstock.rows.encode.encoder import encode, require_fit
from penstock.rows.encode.framing import with_texts
from penstock.rows.encode.json_schema import schema_text
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.rules import (
    JSON_SCHEMA,
    MessageRules,
    MessageSchema,
    rules_from_data,
    rules_to_data,
)

NAME = "lake.gold.segments"
MADE = MessageRules(value_schema=MessageSchema(NAME, id=7, format=JSON_SCHEMA))
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("size", pa.uint16()),
        pa.field("score", pa.float32()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("raw", pa.binary()),
        pa.field("ref", pa.uuid()),
        pa.field("place", pa.struct([pa.field("x", pa.bool_(), nullable=False)])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("more", pa.map_(pa.string(), pa.int64())),
    ]
)


def test_a_made_schema_is_closed_and_says_what_may_be_null():
    columns = [COLUMNS.field("id"), COLUMNS.field("place")]
    null, place = {"type": "null"}, {"oneOf": [{"type": "null"}, {"type": "boolean"}]}
    inner = {"type": "object", "properties": {"x": place}, "additionalProperties": False}

    assert {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": NAME,
        "type": "object",
        "properties": {
            "id": {"type": "integer", "connect.type": "int64"},
            "place": {"oneOf": [null, inner]},
        },
        "additionalProperties": False,
        "required": ["id"],
    } == json.loads(schema_text(columns, NAME, JsonForm()))


@pytest.mark.parametrize(
    ("form", "price", "at"),
    [
        (JsonForm(), Kind.STRING, Kind.TIMESTAMPTZ),
        (JsonForm("number", "millis"), Kind.DOUBLE, Kind.LONG),
    ],
)
def test_landing_reads_the_types_of_the_columns(form, price, at):
    found = reader_for(schema_text(COLUMNS, NAME, form), (), 100)

    local = Kind.LONG if at is Kind.LONG else Kind.STRING
    assert isinstance(found, PlainJson)
    assert isinstance(found.type, Struct)
    assert {
        "id": Kind.LONG,
        "size": Kind.INT,
        "score": Kind.FLOAT,
        "price": price,
        "at": at,
        "local": local,
        "day": Kind.DATE,
        "raw": Kind.BINARY,
        "ref": Kind.UUID,
        "place": Struct((Field("x", Kind.BOOLEAN),)),
        "tags": List(Kind.STRING),
        "more": Map(Kind.STRING, Kind.LONG),
    } == {each.name: each.type for each in found.type.fields}


def test_keys_are_objects_of_their_columns_in_order():
    rules = MessageRules(key=("b", "a"), key_schema=MessageSchema("k", id=9, format=JSON_SCHEMA))
    rows = pa.record_batch({"a": [1], "b": ["x"]})
    made = encode(rows, with_texts(rules, rows.schema), now_ms=0)

    assert [b'\0\0\0\0\x09{"b":"x","a":1}'] == made.messages.column("key").to_pylist()


@pytest.mark.parametrize(
    "columns",
    [
        pa.schema({"a": pa.int64(), "b": pa.string()}),
        pa.schema({}),
        pa.schema({"a": pa.string()}),
    ],
)
def test_rows_with_other_columns_than_a_made_schema_give_the_transaction_up(columns):
    rules = with_texts(MADE, pa.schema({"a": pa.int64()}))
    nothing = [pa.nulls(0, each.type) for each in columns]
    with pytest.raises(UnavailableError) as caught:
        encode(pa.RecordBatch.from_arrays(nothing, schema=columns), rules, now_ms=0)

    assert "P876" == caught.value.code


def test_an_audit_leaves_out_columns_that_came_later_and_misses_those_that_went():
    text = schema_text(pa.schema({"a": pa.int64()}), NAME, JsonForm())
    former = MessageSchema("7", text, is_made=False, id=7, format=JSON_SCHEMA)
    rules = MessageRules(value_schema=former)
    made = encode(pa.record_batch({"b": ["x"], "a": [1]}), rules, now_ms=0)
    with pytest.raises(InvalidError) as caught:
        encode(pa.record_batch({"b": ["x"]}), rules, now_ms=0)

    assert [b'\0\0\0\0\x07{"a":1}'] == made.messages.column("value").to_pylist()
    assert "P871" == caught.value.code


def test_a_column_without_a_form_is_named():
    with pytest.raises(InvalidError) as caught:
        require_fit(pa.schema({"a": pa.struct({"b": pa.duration("s")})}), MADE)

    assert "P839" == caught.value.code
    assert "the column a.b is of the type duration[s]" in caught.value.message


def test_rules_are_the_same_after_a_journey():
    rules = with_texts(MADE, COLUMNS)

    assert rules == rules_from_data(json.loads(json.dumps(rules_to_data(rules))))
