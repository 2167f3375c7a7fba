"""Protobuf by columns and by record land the same, which is what was put into the messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_avro import changed, known_type, outcome, same, with_rescue

from penstock.core.schema import Struct
from penstock.rows.convert.blocks import ConversionPlan, convert_records, convert_typed_block
from penstock.rows.decode.format_reader import FormatReader
from penstock.rows.decode.protobuf.block_reader import protobuf_reader
from penstock.rows.decode.protobuf.schema import message_class
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError

Proto = descriptor_pb2.FieldDescriptorProto
NAMES = ["a", "b", "c", "from", "value"]
SIGNED = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
LONGS = SIGNED | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
NATURALS = st.integers(0, 2**32 - 1)
PLAIN: dict[int, Any] = {
    Proto.TYPE_INT32: SIGNED,
    Proto.TYPE_SINT64: LONGS,
    Proto.TYPE_FIXED32: NATURALS,
    Proto.TYPE_UINT64: NATURALS | st.sampled_from([2**63, 2**64 - 1]),
    Proto.TYPE_BOOL: st.booleans(),
    Proto.TYPE_DOUBLE: st.floats(),
    Proto.TYPE_FLOAT: st.floats(width=32),
    Proto.TYPE_STRING: st.text(max_size=5) | st.sampled_from(["2026-11-01", "12", "true"]),
    Proto.TYPE_BYTES: st.binary(max_size=5),
}
STAMP = ".google.protobuf.Timestamp"
STAMPS = st.fixed_dictionaries(
    {
        "seconds": st.sampled_from([0, -1, 1_700_000_000, 253_402_300_799, 2**60]),
        "nanos": st.sampled_from([0, 1000, 999_999_999, 1]),
    }
)


@st.composite
def messages(
    draw: st.DrawFn, into: Any, depth: int, count: list[int]
) -> tuple[str, st.SearchStrategy[Any]]:
    """Add a message to a file, and give its name with a strategy for its members."""
    count[0] += 1
    proto = into.add(name=f"M{count[0]}")
    values: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
        values[name] = draw(fields(proto, name, depth, count))
    optional = st.fixed_dictionaries({}, optional=values)
    return proto.name, optional


@st.composite
def fields(draw: st.DrawFn, proto: Any, name: str, depth: int, count: list[int]) -> Any:
    number = len(proto.field) + 1
    field = proto.field.add(name=name, number=number, label=Proto.LABEL_OPTIONAL)
    kinds = ["plain", "plain", "stamp", "enum", *(["message", "map"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "plain":
            field.type = draw(st.sampled_from(sorted(PLAIN)))
            values = PLAIN[field.type]
        case "enum":
            field.type, field.type_name = Proto.TYPE_ENUM, ".gen.State"
            values = st.sampled_from([0, 0, 1, 7])
        case "stamp":
            field.type, field.type_name = Proto.TYPE_MESSAGE, STAMP
            values = STAMPS
        case "map":
            return draw(maps(proto, field))
        case _:
            inner, values = draw(messages(proto.nested_type, depth - 1, count))
            field.type, field.type_name = Proto.TYPE_MESSAGE, inner
    if draw(st.integers(0, 2)) == 0:
        field.label = Proto.LABEL_REPEATED
        return st.lists(values, max_size=3)
    if field.type != Proto.TYPE_MESSAGE and draw(st.booleans()):
        field.proto3_optional = True
        field.oneof_index = len(proto.oneof_decl)
        proto.oneof_decl.add(name=f"_{name}")
    return values


@st.composite
def maps(draw: st.DrawFn, proto: Any, field: Any) -> Any:
    key = draw(st.sampled_from([Proto.TYPE_STRING, Proto.TYPE_INT32, Proto.TYPE_BOOL]))
    value = draw(st.sampled_from(sorted(PLAIN)))
    entry = proto.nested_type.add(name=f"{field.name.capitalize()}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=key, label=Proto.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=value, label=Proto.LABEL_OPTIONAL)
    field.type, field.type_name, field.label = Proto.TYPE_MESSAGE, entry.name, Proto.LABEL_REPEATED
    return st.dictionaries(PLAIN[key], PLAIN[value], max_size=3)


@st.composite
def topics(draw: st.DrawFn) -> tuple[bytes, list[Any], list[bytes]]:
    """Draw the descriptors of one message, some members, and the bytes of each."""
    file = descriptor_pb2.FileDescriptorProto(name="gen.proto", package="gen", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="OLD", number=1)
    _, values = draw(messages(file.message_type, 2, [0]))
    stamps = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamps)
    descriptors = descriptor_pb2.FileDescriptorSet(file=[stamps, file]).SerializeToString()
    made = message_class(descriptors, (0,))
    rows = draw(st.lists(values, min_size=1, max_size=5))
    return descriptors, rows, [made(**row).SerializeToString() for row in rows]


@settings(max_examples=150)
@given(topics())
def test_a_record_holds_what_was_put_into_its_message(topic: Any) -> None:
    descriptors, rows, values = topic
    reader = protobuf_reader(descriptors, (0,))
    for row, value in zip(rows, values, strict=True):
        if 7 in _numbers(row):  # perhaps a state without a name
            continue
        read = reader.record(value)
        for name, given_value in row.items():
            if isinstance(given_value, bool | int | str | bytes | float) and not isinstance(
                read[name], str
            ):
                assert same(given_value, read[name])


@settings(max_examples=125)
@given(topics(), st.data())
def test_fields_that_are_repeated_on_the_wire_are_merged_as_the_runtime_merges_messages(
    topic: Any, data: st.DataObject
) -> None:
    """Of a field the last value counts, messages are merged, lists joined, keys overwritten."""
    descriptors, _, values = topic
    made = message_class(descriptors, (0,))
    other = message_class(_packed_otherwise(descriptors), (0,))
    parts = data.draw(st.lists(st.sampled_from(values), min_size=2, max_size=4))
    wire, merged = b"", made()
    for part in parts:
        type(merged).MergeFrom(merged, made.FromString(part))
        writer = data.draw(st.sampled_from([made, other]))
        wire += writer.FromString(part).SerializeToString()

    reader = protobuf_reader(descriptors, (0,))
    whole = made.SerializeToString(merged)
    expected = _record(reader, whole)

    assert repr(expected) == repr(_record(reader, wire))
    if isinstance(expected, dict):
        assert repr(_shown(merged)) == repr(_plain(expected, merged))
    asked = known_type(reader.type)
    assert isinstance(asked, Struct)
    plan = ConversionPlan.of(asked, RowOptions({}))
    array = pa.array([whole, wire], pa.binary())
    by_column = convert_typed_block(array, reader, plan)
    by_record = convert_records(array, np.arange(2), plan, reader.record)
    assert outcome(by_record) == outcome(by_column)


def _packed_otherwise(descriptors: bytes) -> bytes:
    """Return the same messages, whose lists of numbers are written unpacked."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    waiting = [*files.file[-1].message_type]
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            texts = (Proto.TYPE_STRING, Proto.TYPE_BYTES, Proto.TYPE_MESSAGE)
            if field.label == Proto.LABEL_REPEATED and field.type not in texts:
                field.options.packed = False
    return files.SerializeToString()


def _record(reader: FormatReader, value: bytes) -> Any:
    try:
        return reader.record(value)
    except RejectError as error:
        return str(error.code)


def _shown(message: Any) -> dict[str, Any]:
    """Show a message as the runtime reads it: members that were set, and that are no stamps."""
    shown = {}
    for field in type(message).DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            shown[field.name] = {key: value[key] for key in sorted(value)}
        elif field.message_type and field.message_type.full_name == STAMP[1:]:
            continue
        elif field.is_repeated:
            shown[field.name] = [_of(field, each) for each in value]
        elif field.has_presence and not type(message).HasField(message, field.name):
            shown[field.name] = None
        else:
            shown[field.name] = _of(field, value)
    return shown


def _of(field: Any, value: Any) -> Any:
    if field.message_type:
        return _shown(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value


def _plain(record: dict[str, Any], message: Any) -> dict[str, Any]:
    """Return a record without its stamps."""
    plain = {}
    for field in type(message).DESCRIPTOR.fields:
        value, inner = record[field.name], field.message_type
        if inner and inner.full_name == STAMP[1:]:
            continue
        if inner and not inner.GetOptions().map_entry and value is not None:
            under = getattr(message, field.name)
            if field.is_repeated:
                value = [_plain(*each) for each in zip(value, under, strict=True)]
            else:
                value = _plain(value, under)
        plain[field.name] = value
    return plain


def _numbers(value: Any) -> set[Any]:
    match value:
        case dict():
            return set().union(*map(_numbers, value.values()))
        case list():
            return set().union(*map(_numbers, value))
        case _:
            return {value}


@settings(max_examples=125)
@given(topics(), st.data(), st.integers(1, 10))
def test_the_column_way_and_the_record_way_give_equal_rows_and_rejects(
    topic: Any, data: st.DataObject, repeated: int
) -> None:
    descriptors, _, values = topic
    if data.draw(st.booleans()):
        bad = bytearray(data.draw(st.sampled_from(values)))
        at = data.draw(st.integers(0, len(bad)))
        bad[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        values = [*values, bytes(bad)]
    reader = protobuf_reader(descriptors, (0,))
    asked = known_type(reader.type)
    assert isinstance(asked, Struct)
    kept = [field for field in asked.fields if data.draw(st.integers(0, 9))]
    table = Struct(tuple(changed(data.draw, field) for field in kept))
    policies = st.sampled_from(["quarantine", "drop_value", "rescue", "freeze"])
    options = RowOptions({}, columns=data.draw(policies), types=data.draw(policies))
    plan = ConversionPlan.of(with_rescue(table), options)
    array = pa.array(values * repeated, pa.binary())

    by_column = convert_typed_block(array, reader, plan)
    by_record = convert_records(array, np.arange(len(array)), plan, reader.record)

    by_column.rows.validate(full=True)
    assert outcome(by_record) == outcome(by_column)
    assert len(array) == len(by_column.rows) + len(by_column.rejects)
