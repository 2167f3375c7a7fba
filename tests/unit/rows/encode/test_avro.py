"""Columns and schemas of Avro: what is made, what is given and fits, and what does not."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError, UnavailableError
from penstock.rows.encode.avro_schema import full_name, schema_text, tree_of
from penstock.rows.encode.encoder import encode, require_fit
from penstock.rows.encode.framing import schema_id, with_texts
from penstock.rows.encode.rules import (
    MessageRules,
    MessageSchema,
    rules_from_data,
    rules_to_data,
)
from penstock.rows.escaped_names import escaped

NAME = "lake.gold.segments"
MADE = MessageRules(value_schema=MessageSchema(NAME, id=7))
STAMP = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901)  # noqa: DTZ001  on a clock on the wall
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2**40], pa.int64()),
        "name": pa.array(["é", None]),
        "score": pa.array([float("nan"), 0.5]),
        "price": pa.array([Decimal("-1.50"), None], pa.decimal128(9, 2)),
        "at": pa.array([STAMP, None], pa.timestamp("us", "UTC")),
        "local": pa.array([STAMP, None], pa.timestamp("us")),
        "day": pa.array([STAMP.date(), None]),
        "time": pa.array([STAMP.time(), None]),
        "ref": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes, None], pa.binary(16))),
        "place": pa.array([{"x": 1}, None], pa.struct([pa.field("x", pa.int32(), nullable=False)])),
        "tags": pa.array([["a", None], []], pa.list_(pa.string())),
        "more": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def given(tree: Any) -> MessageRules:
    """Return rules with a schema that a person wrote."""
    fields = [{"name": "v", "type": tree}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return MessageRules(value_schema=MessageSchema("own.avsc", text, is_made=False, id=7))


def read(rules: MessageRules, rows: pa.RecordBatch) -> list[Any]:
    made = encode(rows, rules, now_ms=0)
    assert rules.value_schema is not None
    schema = fastavro.parse_schema(json.loads(rules.value_schema.text))
    values = made.messages.column("value").to_pylist()
    assert {7} == {schema_id(each) for each in values}
    return [fastavro.schemaless_reader(io.BytesIO(each[5:]), schema, None) for each in values]


def test_a_made_schema_has_logical_types_and_says_what_may_be_null():
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("a b", pa.decimal128(9, 2)),
        ]
    )
    decimal = {
        "type": "fixed",
        "name": f"{NAME}.a_x20b",
        "size": 4,
        "logicalType": "decimal",
        "precision": 9,
        "scale": 2,
    }
    fields = [
        {"name": "id", "type": "long"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {
            "name": "a_x20b",
            "type": ["null", decimal],
            "default": None,
            "iceberg-field-name": "a b",
        },
    ]
    made = json.loads(schema_text(columns, full_name("lake.gold.segments")))
    assert {"type": "record", "name": NAME, "fields": fields} == made


def test_values_are_read_as_what_they_are():
    first, second = read(with_texts(MADE, ROWS.schema), ROWS)

    assert first["score"] != first["score"]
    assert {
        "id": 1,
        "name": "é",
        "price": Decimal("-1.50"),
        "at": STAMP.replace(tzinfo=dt.UTC),
        "local": STAMP,
        "day": STAMP.date(),
        "time": STAMP.time(),
        "ref": ID.bytes,
        "place": {"x": 1},
        "tags": ["a", None],
        "more": {"k": 1},
    } == {name: each for name, each in first.items() if name != "score"} | {"ref": ID.bytes}
    assert [2**40, 0.5, []] == [second[name] for name in ("id", "score", "tags")]
    assert {None} == {second[name] for name in second if name not in ("id", "score", "tags")}


@pytest.mark.parametrize(
    ("tree", "values", "expected"),
    [
        ("long", pa.array([5], pa.int32()), 5),
        ("int", pa.array([-5], pa.int64()), -5),
        ("double", pa.array([0.5], pa.float32()), 0.5),
        (["string", "null"], pa.array([None], pa.string()), None),
        (["string", "null"], pa.array(["x"]), "x"),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, pa.array(["b"]), "b"),
        ({"type": "long", "logicalType": "timestamp-millis"},
         pa.array([1_000], pa.timestamp("us", "UTC")),
         dt.datetime(1970, 1, 1, 0, 0, 0, 1_000, dt.UTC)),
        ({"type": "int", "logicalType": "time-millis"},
         pa.array([1_000], pa.time64("us")), dt.time(0, 0, 0, 1_000)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
         pa.array([Decimal("-1.25")], pa.decimal128(9, 2)), Decimal("-1.25")),
        ({"type": "string", "logicalType": "uuid"},
         pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes], pa.binary(16))), ID),
        ({"type": "array", "items": {"type": "record", "name": "P", "fields": [
            {"name": "key", "type": "int"}, {"name": "value", "type": "string"}]}},
         pa.array([[(1, "x")]], pa.map_(pa.int32(), pa.string())), [{"key": 1, "value": "x"}]),
        ({"type": "array", "items": {"type": "int", "unknown": 1}}, pa.array([[7]]), [7]),
        ("string", pa.array(["x"]).dictionary_encode(), "x"),
    ],
)  # fmt: skip
def test_a_given_schema_may_be_wider_or_of_another_form(tree, values, expected):
    assert [{"v": expected}] == read(given(tree), pa.record_batch({"v": values}))


@pytest.mark.parametrize(
    ("tree", "values", "reason"),
    [
        ("int", pa.array([2**31]), "no number of 32 bits"),
        ("long", pa.array([2**63], pa.uint64()), "no number of 64 bits"),
        ("int", pa.array([2**63], pa.uint64()), "no number of 64 bits"),
        ("long", pa.array([None], pa.int64()), "it is null"),
        ("string", pa.array([None], pa.string()), "it is null"),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, pa.array(["b"]), "symbols"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.array([1], pa.timestamp("us", "UTC")),
            "more exact",
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-nanos"},
            pa.array([2**62], pa.timestamp("us")),
            "out of range",
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-nanos"},
            pa.array([-(2**63 // 1000) - 1], pa.timestamp("us")),
            "out of range",
        ),
    ],
)
def test_a_value_that_a_schema_cannot_hold_is_a_misfit(tree, values, reason):
    (found,) = encode(pa.record_batch({"v": values}), given(tree), now_ms=0).misfits

    assert (0, "v") == (found.row, found.column)
    assert reason in found.reason


def test_a_decimal_beyond_its_digits_is_a_misfit():
    storage = pa.array([Decimal(10**12)], pa.decimal128(38, 0)).buffers()
    values = pa.Array.from_buffers(pa.decimal128(9, 0), 1, storage)
    rows = pa.record_batch({"v": values})
    (found,) = encode(rows, with_texts(MADE, rows.schema), now_ms=0).misfits

    assert "it has more digits than its type" == found.reason


@pytest.mark.parametrize(
    ("tree", "kind"),
    [
        ("int", pa.string()),
        ("string", pa.int64()),
        ("float", pa.float64()),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "fixed", "name": "F", "size": 4}, pa.binary(3)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
         pa.decimal128(9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 2)),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32())),
        ({"type": "array", "items": "int"}, pa.map_(pa.int32(), pa.int32())),
        ({"type": "array", "items": "int"}, pa.struct([("a", pa.int32())])),
    ],
)  # fmt: skip
def test_a_given_schema_that_does_not_fit_is_found_without_rows(tree, kind):
    with pytest.raises(InvalidError) as caught:
        require_fit(pa.schema([("v", kind)]), given(tree))
    assert "P871" == caught.value.code
    assert "own.avsc does not fit the table: v" in caught.value.message

    with pytest.raises(InvalidError) as caught:
        require_fit(pa.schema([("other", pa.int32())]), given("int"))
    assert "the table has no such column" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        '"string"',
        "[]",
        '{"type": "record", "name": "R"}',
        '{"type": "record", "name": "R", "fields": [{"name": "v", "type": "Unknown"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "v", "type": "R"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "v", "type": ["int", "long"]}]}',
        '{"type": "record", "name": "1 2", "fields": []}',
    ],
)
def test_what_is_no_schema(text):
    with pytest.raises(InvalidError) as caught:
        tree_of(text, "own.avsc")
    assert "P872" == caught.value.code


def test_names_that_avro_does_not_take():
    assert ["a", "_1a", "a_x20b", "_xE9", "_"] == [*map(escaped, ["a", "1a", "a b", "é", ""])]
    with pytest.raises(InvalidError) as caught:
        schema_text(pa.schema([("a b", pa.int32()), ("a_x20b", pa.int32())]), NAME)
    assert "P870" == caught.value.code


def test_a_type_without_a_form():
    with pytest.raises(InvalidError) as caught:
        require_fit(pa.schema([("a", pa.list_(pa.duration("us")))]), MADE)
    assert "P870" == caught.value.code
    assert "a[]" in caught.value.message


@pytest.mark.parametrize(
    "columns",
    [
        {"id": pa.array([1]), "new": pa.array([1])},
        {"other": pa.array([1])},
        {"id": pa.array(["1"])},
    ],
)
def test_a_schema_of_former_columns_passes(columns):
    with pytest.raises(UnavailableError) as caught:
        encode(
            pa.record_batch(columns),
            with_texts(MADE, pa.schema([("id", pa.int64())])),
            now_ms=0,
        )
    assert "P876" == caught.value.code


def test_a_key_is_a_record_of_its_columns():
    rules = MessageRules(key=("b", "a"), key_schema=MessageSchema("k", id=9))
    rows = pa.record_batch({"a": pa.array([1]), "b": pa.array(["x"])})
    made = with_texts(rules, rows.schema)
    (key,) = encode(rows, made, now_ms=0).messages.column("key").to_pylist()

    assert made.key_schema is not None
    assert ["b", "a"] == [each["name"] for each in json.loads(made.key_schema.text)["fields"]]
    assert b"\x00\x00\x00\x00\x09\x02\x02x\x02\x02" == key
    assert made == rules_from_data(json.loads(json.dumps(rules_to_data(made))))
    assert "key_schema" not in rules_to_data(MessageRules())
