"""Rows by schemas of Protobuf: what is made of columns, what a person wrote, what has no form."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import InvalidError
from penstock.ports.registry import RegisteredSchema
from penstock.rows.decode.protobuf.schema import message_class
from penstock.rows.encode.encoder import Encoded, encode, require_fit
from penstock.rows.encode.framing import with_fields, with_texts
from penstock.rows.encode.protobuf_schema import OWN_NUMBERS, made_tree, schema_text
from penstock.rows.encode.rules import PROTOBUF, MessageRules, MessageSchema

MADE = MessageRules(value_schema=MessageSchema("lake.shop.rows", id=7, format=PROTOBUF))
INT = pa.array([1], pa.int64())
GIVEN = """
syntax = "proto3";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; OLD = -7; }
message Row {
  sint32 a = 3;
  optional fixed64 b = 1;
  repeated sfixed32 c = 70000;
  State state = 4;
  google.protobuf.StringValue note = 5;
  map<string, State> states = 6;
}
"""


def given(text: str) -> MessageRules:
    schema = MessageSchema("rows.proto", text, is_made=False, format=PROTOBUF)
    return MessageRules(
        value_schema=with_fields(schema, compiled(RegisteredSchema(PROTOBUF, text)))
    )


def messages(made: Encoded, text: str) -> list[Any]:
    descriptors = compiled(RegisteredSchema(PROTOBUF, text)).descriptors
    parse = message_class(descriptors, (0,)).FromString
    return [parse(each[6:]) for each in made.messages.column("value").to_pylist()]


def text_of(columns: pa.Schema) -> str:
    rules = with_texts(MADE, columns)
    assert rules.value_schema is not None
    return rules.value_schema.text


def test_a_schema_that_a_person_wrote_is_written_by():
    """Other numbers, signs and widths, an enum for text, a message around what may be null."""
    kind = pa.map_(pa.string(), pa.string())
    rows = pa.record_batch(
        {
            "a": pa.array([-5, 2, 2**31, 1], pa.int64()),
            "b": pa.array([2**63, None, 0, 1], pa.uint64()),
            "c": pa.array([[1, -1], [], [], []], pa.list_(pa.int32())),
            "state": ["OLD", "NEW", "NEW", "other"],
            "note": ["", None, None, None],
            "states": pa.array([[("x", "OLD")], [], [], []], kind),
            "more": pa.array([1, 2, 3, 4]),
        }
    )
    made = encode(rows, given(GIVEN), now_ms=0)
    first, second = messages(made, GIVEN)

    assert [(2, "a"), (3, "state")] == [(each.row, each.column) for each in made.misfits]
    assert (-5, 2**63, [1, -1], -7, "") == (
        first.a,
        first.b,
        [*first.c],
        first.state,
        first.note.value,
    )
    assert {"x": -7} == dict(first.states)
    assert (2, False, False) == (second.a, second.HasField("b"), second.HasField("note"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message Row { oneof one { int32 a = 1; int32 b = 2; } }", "oneof"),
        ("message Row { Row a = 1; }", "within itself"),
        ("message Row { int32 a = 1", "does not compile"),
        ("enum State { NEW = 0; }", "no message"),
    ],
)
def test_a_schema_that_nothing_is_written_by_is_refused(text, said):
    with pytest.raises(InvalidError, match=said) as raised:
        given(f'syntax = "proto3"; {text}')
    assert "P872" == raised.value.code


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("string a", INT),
        ("int64 a", pa.array(["x"])),
        ("float a", pa.array([1.0])),
        ("repeated int64 a", INT),
        ("int64 other", INT),
        ("map<string, int64> a", INT),
    ],
)
def test_a_schema_that_does_not_fit_the_table_is_found_before_its_rows(field, column):
    rules = given(f'syntax = "proto3"; message Row {{ {field} = 1; }}')
    with pytest.raises(InvalidError) as raised:
        require_fit(pa.schema({"a": column.type}), rules)
    assert "P871" == raised.value.code


LISTS = pa.list_(pa.list_(pa.int32()))
MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    "columns",
    [
        {"a": pa.null()},
        {"a": LISTS},
        {"a": pa.struct({"b": pa.map_(pa.string(), pa.list_(pa.int32()))})},
        {"a": pa.map_(pa.float64(), pa.int32())},
        {"a": pa.duration("s")},
        {"a": pa.decimal256(50, 2)},
        {"a b": pa.int32(), "a_x20b": pa.int32()},
        {"aB": pa.int32(), "a_b": pa.int32()},
        {"A": MAP, "a": MAP},
        {"AEntry": pa.int32(), "a": MAP},
        {"a\0": pa.int32()},
    ],
)
def test_what_protobuf_has_no_form_for_is_refused_by_name(columns):
    with pytest.raises(InvalidError, match="the column a") as raised:
        require_fit(pa.schema(columns), MADE)
    assert "P272" == raised.value.code


def test_times_and_ids_are_those_of_the_usual_messages_or_text():
    moment = dt.datetime(2026, 11, 28, 3, 4, 5, 678_901, dt.UTC)
    number = uuid.UUID(int=7)
    rows = pa.record_batch(
        {
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "wall": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
            "day": [moment.date()],
            "time": pa.array([moment.time()], pa.time64("us")),
            "id": pa.array([number.bytes], pa.uuid()),
            "price": pa.array([Decimal("-12.34")], pa.decimal128(12, 2)),
        }
    )
    made = encode(rows, with_texts(MADE, rows.schema), now_ms=0)
    (found,) = messages(made, text_of(rows.schema))

    assert moment == found.at.ToDatetime(dt.UTC)
    assert ("2026-11-28T03:04:05.678901", "2026-11-28") == (found.wall, found.day)
    assert ("03:04:05.678901", str(number)) == (found.time, found.id)
    assert (-1234, 12, 2) == (
        int.from_bytes(found.price.value, "big", signed=True),
        found.price.precision,
        found.price.scale,
    )


def test_names_that_protobuf_does_not_take_keep_their_columns():
    """It is their name in JSON."""
    names = ["a b", "a_b", 'q"\n', "1", "é", "message", "at"]
    struct = pa.struct({"x": pa.int32()})
    columns = pa.schema([*((name, pa.int64()) for name in names), ("At", struct), ("s", struct)])
    text = text_of(columns)
    schema = with_fields(
        MessageSchema("there", format=PROTOBUF), compiled(RegisteredSchema(PROTOBUF, text))
    )
    rows = pa.RecordBatch.from_pylist([{n: n_ for n_, n in enumerate(names)}], columns)
    there = encode(rows, MessageRules(value_schema=replace(schema, is_made=False)), now_ms=0)

    made = encode(rows, with_texts(MADE, columns), now_ms=0)
    assert [v[5:] for v in made.messages.column("value").to_pylist()] == [
        v[5:] for v in there.messages.column("value").to_pylist()
    ]


def test_numbers_go_on_behind_those_that_are_protobufs_own():
    last = OWN_NUMBERS.start - 1
    former = {"fields": [{"name": "a", "column": "a", "number": last}]}
    tree = made_tree([*pa.schema({"a": pa.int32(), "b": pa.int32()})], "rows", former)

    assert [last, OWN_NUMBERS.stop] == [each["number"] for each in tree["fields"]]
    assert schema_text(tree).startswith('syntax = "proto3";\n\nmessage rows {')


def test_members_of_structs_keep_their_numbers_and_types_their_names():
    def columns(*members: str) -> list[pa.Field]:
        return [*pa.schema({"s": pa.struct({each: pa.int32() for each in members})})]

    first = made_tree(columns("a", "b"), "rows")
    second = made_tree(columns("c", "b"), "rows", first)
    third = made_tree(columns("c", "b", "a"), "rows", second)
    inner = [tree["fields"][0]["message"] for tree in (first, second, third)]

    assert [{"a": 1, "b": 2}, {"c": 3, "b": 2}, {"c": 3, "b": 2, "a": 4}] == [
        {each["name"]: each["number"] for each in message["fields"]} for message in inner
    ]
    assert ([1], ["a"]) == (inner[1]["reserved"], inner[1]["reserved_names"])
    assert ([1], []) == (inner[2]["reserved"], inner[2]["reserved_names"])
    assert {"S"} == {each["name"] for each in inner}
