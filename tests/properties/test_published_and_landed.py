"""Rows that are published and landed again are the rows that they were, in every format."""

from __future__ import annotations

import math
import struct
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.nasty_values import FLAT, values_of
from tests.properties.test_published_protobuf import compiled, has_form

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.encode.encoder import Encoded, encode
from penstock.rows.encode.framing import with_texts
from penstock.rows.encode.rules import MessageRules, MessageSchema
from penstock.rows.options import RowOptions

NAMES = ["id", "A", "b", "c d", "é", "value", "1st"]
KEYS = [Kind.STRING, Kind.STRING, Kind.INT, Kind.LONG, Kind.BOOLEAN, Kind.DATE]
AT = TopicPartition("t1", 0, "orders")
FORMATS = ["json", "avro", "json-schema", "protobuf"]


def _structs(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Struct]:
    fields = st.builds(Field, st.sampled_from(NAMES), inner)
    unique = st.lists(fields, min_size=1, max_size=3, unique_by=lambda each: each.name)
    return unique.map(lambda found: Struct(tuple(found)))


SCALARS = st.sampled_from([*FLAT.values()])
INNER = st.recursive(
    SCALARS.filter(lambda type_: type_ is not Kind.UUID),  # Arrow casts none within others
    lambda inner: st.one_of(
        inner.map(List), st.builds(Map, st.sampled_from(KEYS), inner), _structs(inner)
    ),
    max_leaves=4,
)
TYPES = st.one_of(SCALARS, INNER)


def values(type_: Type) -> st.SearchStrategy[Any]:
    match type_:
        case Struct(fields):
            return st.fixed_dictionaries({each.name: nullable(each.type) for each in fields})
        case List(element):
            return st.lists(nullable(element), max_size=3)
        case Map(key, value):
            return st.dictionaries(values(key), nullable(value), max_size=3).map(
                lambda found: [*found.items()]
            )
    return st.sampled_from(values_of(type_))


def nullable(type_: Type) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values(type_))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Struct, pa.RecordBatch]:
    fields = draw(_structs(TYPES))
    rows = draw(st.lists(values(fields), max_size=4))
    return fields, as_read(pa.RecordBatch.from_pylist(rows, arrow_schema(fields)), fields)


def as_read(rows: pa.RecordBatch, fields: Struct) -> pa.RecordBatch:
    """Give UUIDs their own type, as readers of Parquet do."""
    kinds = [
        pa.field(each.name, pa.uuid() if field.type is Kind.UUID else each.type)
        for each, field in zip(rows.schema, fields.fields, strict=True)
    ]
    arrays = [column.cast(kind.type) for column, kind in zip(rows.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(kinds))


@dataclass(frozen=True, slots=True)
class Only:
    """A registry that has one schema."""

    schema: RegisteredSchema

    def find(self, _: SchemaKey) -> RegisteredSchema | None:
        return self.schema


def landed(
    made: Encoded, own: MessageSchema | None, schema: Struct, options: RowOptions
) -> ConvertedBatch:
    """Land messages in a table that has the columns of the one they are from."""
    number, messages = len(made.messages), made.messages
    headers = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    records = {
        "offset": pa.array(range(number), pa.int64()),
        **{name: messages.column(name) for name in ("timestamp", "key", "value")},
        "headers": pa.nulls(number, headers),
    }
    readers = ReaderCache()
    if own is not None:
        text, written = own.text, own.format
        there = compiled(text) if written == "protobuf" else RegisteredSchema(written, text)
        readers = ReaderCache(Only(there))
    batch = pa.RecordBatch.from_pydict(records)
    return convert_batch(batch, at=AT, schema=schema, options=options, readers=readers)


def comparable(value: Any) -> Any:
    """Return a value so that NaN is itself, and maps have no order."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else struct.pack("<d", value)
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case [tuple(), *_]:
            return sorted(((key, comparable(item)) for key, item in value), key=repr)
        case uuid.UUID():
            return value.bytes
        case list():
            return [comparable(each) for each in value]
    return value


def is_formed(rows: pa.RecordBatch, written: str) -> bool:
    return written != "protobuf" or all(has_form(each.type) for each in rows.schema)


@pytest.mark.parametrize("written", FORMATS)
@given(table=tables())
@settings(max_examples=60)
def test_what_is_published_lands_again_as_it_was(written, table):
    """What a format has no form for is a misfit, and is no message: nothing else is lost."""
    schema, rows = table
    own = None if written == "json" else MessageSchema("lake.shop.rows", id=7, format=written)
    rules = MessageRules(value_schema=own)
    if not is_formed(rows, written):
        with pytest.raises(InvalidError, match="cannot be published as Protobuf"):
            with_texts(rules, rows.schema)
        return
    rules = with_texts(rules, rows.schema)
    made = encode(rows, rules, now_ms=7)
    done = landed(made, rules.value_schema, schema, RowOptions({}, format=written))

    assert ((), {}) == (done.rejects, done.dropped)
    expected = rows.take(pa.array(made.places)).to_pylist()
    assert [*map(comparable, expected)] == [*map(comparable, done.rows.to_pylist())]
    assert len(rows) == len(expected) + len(made.misfits)
    assert written != "avro" or not made.misfits


@pytest.mark.parametrize("written", FORMATS)
@given(table=tables())
@settings(max_examples=30)
def test_keys_that_are_published_land_again_as_they_were(written, table):
    """A key of several columns is a struct."""
    schema, rows = table
    own = None if written == "json" else MessageSchema("lake.shop.key", id=7, format=written)
    if not is_formed(rows, written):
        return
    rules = MessageRules(key=tuple(rows.schema.names), key_is_object=True, key_schema=own)
    rules = with_texts(rules, rows.schema)
    made = encode(rows, rules, now_ms=7)
    options = RowOptions({"key": "whole"}, columns="drop_value", key_format=written)
    done = landed(made, rules.key_schema, Struct((Field("whole", schema),)), options)

    assert () == done.rejects
    expected = rows.take(pa.array(made.places)).to_pylist()
    found = done.rows.column("whole").to_pylist()
    assert [*map(comparable, expected)] == [*map(comparable, found)]
