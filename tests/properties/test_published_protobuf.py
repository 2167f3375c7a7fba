"""Rows become Protobuf: its own library reads what the row has, or the row is a misfit."""

from __future__ import annotations

import decimal
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc_tools
import pyarrow as pa
from grpc_tools import protoc
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_messages import NOTHING, tables
from tests.properties.test_messages import said as said_in_json

from penstock.connectors.registry.compiling import _KNOWN
from penstock.ports.registry import RegisteredSchema
from penstock.rows.decode.protobuf.schema import message_class
from penstock.rows.encode.encoder import encode
from penstock.rows.encode.framing import schema_id, with_fields, with_texts
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.protobuf_files import compiled_tree
from penstock.rows.encode.protobuf_schema import made_tree, schema_text, tree_of
from penstock.rows.encode.rules import PROTOBUF, MessageRules, MessageSchema

RULES = MessageRules(value_schema=MessageSchema("lake.shop.rows", id=70_000, format=PROTOBUF))
FRAME_BYTES = 6
ENOUGH = decimal.Context(prec=60)
DECIMAL_FILE = _KNOWN["confluent/type/decimal.proto"]
AS_TEXT = (pa.uuid(), pa.date32(), pa.time64("us"), pa.timestamp("us"))


def said(value: Any, kind: pa.DataType) -> Any:
    """Return what Protobuf has to say of a stored value, or NOTHING: by Python, value by value."""
    if value is None:
        return None
    match kind:
        case pa.StructType():
            members = {f.name: said(value[f.name], f.type) for f in kind}
            listed = {f.name for f in kind if pa.types.is_nested(f.type)}
            listed -= {f.name for f in kind if pa.types.is_struct(f.type)}
            is_whole = all(members[name] is not None for name in listed)
            return whole(members) if is_whole else NOTHING
        case pa.MapType():
            items = [said(item, kind.item_type) for _, item in value]
            keys = [said(key, kind.key_type) for key, _ in value]
            there = all(each is not None for each in items)
            return whole(dict(zip(keys, items, strict=True))) if there else NOTHING
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            items = [said(each, kind.value_type) for each in value]
            return whole(items) if all(each is not None for each in items) else NOTHING
    if kind in AS_TEXT:
        return said_in_json(value, kind, JsonForm())
    if pa.types.is_timestamp(kind):
        per = {"us": 10**6, "ns": 10**9}[kind.unit]
        seconds, rest = divmod(value, per)
        inside = -62_135_596_800 <= seconds <= 253_402_300_799
        return (seconds, rest * (10**9 // per)) if inside else NOTHING
    if pa.types.is_floating(kind):
        return struct.pack("<d", value)
    is_text = kind in (pa.string(), pa.large_string())
    if pa.types.is_decimal(kind):
        return (int(value.scaleb(kind.scale, ENOUGH)), kind.precision, kind.scale)
    return NOTHING if isinstance(value, bytes) and is_text else value


def whole(value: Any) -> Any:
    members = [*value.values(), *value] if isinstance(value, dict) else value
    return NOTHING if any(each is NOTHING for each in members) else value


def read(message: Any, tree: Any) -> dict[str, Any]:
    """Return what a message of the library says, by columns."""
    found = {}
    for each in tree["fields"]:
        value = getattr(message, each["name"])
        if each["label"] == "map":
            found[each["column"]] = {key: _one(value[key], each) for key in value}
        elif each["label"] == "repeated":
            found[each["column"]] = [_one(item, each) for item in value]
        elif each["label"] == "optional" and not message.HasField(each["name"]):
            found[each["column"]] = None
        else:
            found[each["column"]] = _one(value, each)
    return found


def _one(value: Any, field: Any) -> Any:
    match field["kind"]:
        case "message":
            return read(value, field["message"])
        case "timestamp":
            return (value.seconds, value.nanos)
        case "decimal":
            number = int.from_bytes(value.value, "big", signed=True)
            return (number, value.precision, value.scale)
        case "float" | "double":
            return struct.pack("<d", value)
        case _:
            return value


def compiled(text: str) -> RegisteredSchema:
    """Compile a file as registries' are, within this process: it is quicker."""
    own = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "confluent/type").mkdir(parents=True)
        (Path(made) / "confluent/type/decimal.proto").write_text(DECIMAL_FILE)
        (Path(made) / "rows.proto").write_text(text, "utf-8")
        out = Path(made) / "out"
        arguments = [f"-I{made}", f"-I{own}", "--include_imports", f"--descriptor_set_out={out}"]
        assert 0 == protoc.main(["protoc", *arguments, "rows.proto"]), text
        return RegisteredSchema("protobuf", text, descriptors=out.read_bytes())


def has_form(kind: pa.DataType) -> bool:
    """Return whether Protobuf has values of a type: it has lists of no lists, and no null type."""
    if pa.types.is_struct(kind):
        return all(has_form(each.type) for each in kind)
    if pa.types.is_map(kind):
        return has_form(kind.item_type) and not _is_listed(kind.item_type)
    if _is_listed(kind):
        return has_form(kind.value_type) and not _is_listed(kind.value_type)
    return kind != pa.null()


def _is_listed(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) and not pa.types.is_struct(kind)


def _is_message(kind: pa.DataType) -> bool:
    """Return whether a value is a message, which always may be absent."""
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    return is_instant or pa.types.is_struct(kind) or pa.types.is_decimal(kind)


FORMED = tables().filter(lambda table: all(has_form(each.type) for each in table[0].schema))


@given(FORMED, st.sets(st.integers(0, 3)))
@settings(max_examples=120)
def test_a_message_says_what_the_row_has_or_the_row_is_a_misfit(table, required):
    batch, rows = table
    fields = [f.with_nullable(n not in required) for n, f in enumerate(batch.schema)]
    needed = {f.name for f in fields if not f.nullable and not _is_message(f.type)}
    rules = with_texts(RULES, pa.schema(fields))
    assert rules.value_schema is not None
    made = encode(batch, rules, now_ms=7)
    struct_ = pa.struct(list(batch.schema))
    expected = [
        NOTHING if any(row[name] is None for name in needed) else said(row, struct_) for row in rows
    ]

    fitting = [place for place, each in enumerate(expected) if each is not NOTHING]
    assert fitting == made.places.tolist()
    assert sorted({*range(len(rows))} - {*fitting}) == [each.row for each in made.misfits]
    schema = compiled(rules.value_schema.text)
    parse = message_class(schema.descriptors, (0,)).FromString
    values = made.messages.column("value").to_pylist()
    assert all(schema_id(each) == 70_000 and each[FRAME_BYTES - 1] == 0 for each in values)
    found = [parse(each[FRAME_BYTES:]) for each in values]
    tree = tree_of(rules.value_schema.fields)
    assert [expected[place] for place in fitting] == [read(each, tree) for each in found]

    there = with_fields(replace(rules.value_schema, is_made=False), schema)
    again = encode(batch, replace(rules, value_schema=there), now_ms=7)
    assert made.messages.to_pylist() == again.messages.to_pylist()


HISTORIES = st.lists(
    st.lists(st.sampled_from(["a", "A", "b", "a b", "1x", "é"]), min_size=1, unique=True),
    min_size=2,
    max_size=5,
)
KINDS = st.sampled_from(
    [
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.int32()),
        pa.struct({"A": pa.int32(), "s": pa.struct({"a b": pa.decimal128(9, 2)})}),
    ]
)


@given(HISTORIES, st.lists(KINDS, min_size=6, max_size=6))
@settings(max_examples=40)
def test_whatever_columns_come_and_go_no_number_is_given_twice(history, kinds):
    """Each version is made over the one before, as a registry gives it back."""
    former, given_ = None, dict[int, str]()
    for names in history:
        columns = [pa.field(name, kinds[len(name) + ord(name[0]) % 4]) for name in names]
        text = schema_text(made_tree(columns, "lake.rows", former))
        before = {each["column"]: each["number"] for each in former["fields"]} if former else {}
        former = compiled_tree(compiled(text).descriptors, "")
        now = {each["column"]: each["number"] for each in former["fields"]}

        assert [*now] == names
        assert text == schema_text(made_tree(columns, "lake.rows", former))
        assert before | now == now | before  # who was there before has its number
        new = {name: number for name, number in now.items() if name not in before}
        assert not {*new.values()} & given_.keys()
        given_ |= {number: name for name, number in new.items()}
