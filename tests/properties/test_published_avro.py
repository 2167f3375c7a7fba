"""Rows become Avro: fastavro reads what the row's values are, or the row is a misfit."""

from __future__ import annotations

import decimal
import io
import json
import struct
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_messages import NOTHING, tables

from penstock.rows.encode.encoder import encode
from penstock.rows.encode.framing import schema_id, with_texts
from penstock.rows.encode.rules import MessageRules, MessageSchema
from penstock.rows.escaped_names import escaped

RULES = MessageRules(value_schema=MessageSchema("lake.shop.rows", id=70_000))
FRAME_BYTES = 5
TEXTS = (pa.string(), pa.large_string())
ENOUGH = decimal.Context(prec=60)


def plain(tree: Any) -> Any:
    """Return a schema without what its values mean: fastavro then reads all of them."""
    if isinstance(tree, dict):
        return {name: plain(each) for name, each in tree.items() if name != "logicalType"}
    return [plain(each) for each in tree] if isinstance(tree, list) else tree


def said(value: Any, kind: pa.DataType) -> Any:
    """Return what Avro has to say of a stored value, or NOTHING: by Python, value by value."""
    if value is None:
        return None
    match kind:
        case pa.StructType():
            return whole({escaped(f.name): said(value[f.name], f.type) for f in kind})
        case pa.MapType():
            items = [said(item, kind.item_type) for _, item in value]
            keys = [key for key, _ in value]
            if kind.key_type == pa.string():
                return whole(dict(zip(keys, items, strict=True)))
            pairs = [{"key": k, "value": v} for k, v in zip(keys, items, strict=True)]
            return NOTHING if whole(items) is NOTHING else pairs
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            return whole([said(each, kind.value_type) for each in value])
    if pa.types.is_decimal(kind):
        number = int(value.scaleb(kind.scale, ENOUGH))
        size = next(n for n in range(1, 17) if 10**kind.precision <= 1 << (8 * n - 1))
        return number.to_bytes(size, "big", signed=True)
    if pa.types.is_floating(kind):
        return struct.pack("<d", value)  # NaN is no other number than itself
    return NOTHING if isinstance(value, bytes) and kind in TEXTS else value


def whole(value: Any) -> Any:
    members = value.values() if isinstance(value, dict) else value
    return NOTHING if any(each is NOTHING for each in members) else value


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def read(message: bytes, schema: Any) -> Any:
    assert 70_000 == schema_id(message)
    stream = io.BytesIO(message[FRAME_BYTES:])
    found = fastavro.schemaless_reader(stream, schema, None)
    assert b"" == stream.read()
    return comparable(found)


@given(tables(), st.sets(st.integers(0, 3)))
@settings(max_examples=150)
def test_avro_says_what_the_row_has_or_the_row_is_a_misfit(table, required):
    batch, rows = table
    fields = [f.with_nullable(n not in required) for n, f in enumerate(batch.schema)]
    needed = {f.name for f in fields if not f.nullable and f.type != pa.null()}
    rules = with_texts(RULES, pa.schema(fields))
    made = encode(batch, rules, now_ms=7)
    struct_ = pa.struct(list(batch.schema))
    expected = [
        NOTHING if any(row[name] is None for name in needed) else said(row, struct_) for row in rows
    ]

    fitting = [place for place, each in enumerate(expected) if each is not NOTHING]
    assert fitting == made.places.tolist()
    assert sorted({*range(len(rows))} - {*fitting}) == [each.row for each in made.misfits]
    assert rules.value_schema is not None
    schema = fastavro.parse_schema(plain(json.loads(rules.value_schema.text)))
    values = made.messages.column("value").to_pylist()
    assert [expected[place] for place in fitting] == [read(each, schema) for each in values]


@given(tables())
@settings(max_examples=25)
def test_a_verdict_does_not_depend_on_the_rows_around_it(table):
    batch, _ = table
    rules = with_texts(RULES, batch.schema)
    whole_ = encode(batch, rules, now_ms=7)
    alone = [encode(batch.slice(row, 1), rules, now_ms=7) for row in range(len(batch))]

    assert whole_.messages.to_pylist() == [m for each in alone for m in each.messages.to_pylist()]
    assert [each[1:] for each in whole_.misfits] == [m[1:] for one in alone for m in one.misfits]


@given(tables())
@settings(max_examples=25)
def test_a_made_schema_that_is_given_writes_the_same(table):
    """Its text is read as one that a person wrote."""
    batch, _ = table
    made = with_texts(RULES, batch.schema)
    assert made.value_schema is not None
    given_ = replace(made, value_schema=replace(made.value_schema, is_made=False))

    first, second = (encode(batch, rules, now_ms=7) for rules in (made, given_))
    assert first.messages.to_pylist() == second.messages.to_pylist()
