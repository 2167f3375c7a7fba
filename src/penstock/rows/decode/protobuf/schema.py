"""A Protobuf message's descriptor as a tree of nodes, with what well-known types mean.

Invariants:
- recursive messages are rejected, but for `google.protobuf.Struct`;
- messages are nested at most `DEPTH_MAX` deep;
- a field that was not set is null where the schema tracks presence (`Nullable`), else its zero
  value;
- a well-known type is one of the runtime's own files: another of its name is a message as any;
- a field whose name in JSON is that of a column which Protobuf does not take is that column;
- indexes count the messages that the text declares, not the entries of its maps;
- extensions are not known, so that a record with one is found to hold what has no column.

Source: Protocol Buffers, "Language Guide (proto 3)", "Application Note: Field Presence",
`google/protobuf/timestamp.proto`, `struct.proto`, `wrappers.proto`; Confluent's `decimal.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.schema import Kind
from penstock.rows.decode.logical_types import (
    NS,
    EpochCount,
    JsonText,
    LogicalType,
    VariableScaleDecimal,
)
from penstock.rows.decode.schema_tree import (
    Listed,
    Mapped,
    Node,
    NodeCount,
    Nullable,
    Record,
    Scalar,
    Symbols,
    Wrapped,
    unusable,
)
from penstock.rows.escaped_names import column_of

DEPTH_MAX = 64
STAMP = EpochCount(Kind.TIMESTAMPTZ, NS)
_PREFIX, _FILES = "google.protobuf.", "google/protobuf/"
_WELL_KNOWN: Mapping[str, LogicalType] = {
    "Timestamp": STAMP,
    **dict.fromkeys(("Struct", "Value", "ListValue"), JsonText()),
}
_WRAPPERS = frozenset(
    {
        *("DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value"),
        *("BoolValue", "StringValue", "BytesValue"),
    }
)
_DECIMAL = "confluent.type.Decimal"

_INT32, _GROUP, _MESSAGE, _BYTES, _ENUM = 5, 10, 11, 12, 14
_PLAIN: Mapping[int, Scalar] = {
    1: Scalar(Kind.DOUBLE),
    2: Scalar(Kind.FLOAT),
    **dict.fromkeys((3, 16, 18), Scalar(Kind.LONG)),
    **dict.fromkeys((4, 6), Scalar(Kind.LONG, unsigned=True)),
    **dict.fromkeys((_INT32, 15, 17), Scalar(Kind.INT)),
    **dict.fromkeys((7, 13), Scalar(Kind.LONG)),
    8: Scalar(Kind.BOOLEAN),
    9: Scalar(Kind.STRING),
    _BYTES: Scalar(Kind.BINARY),
}
"""By `FieldDescriptorProto.Type`: 64 bits with a sign; without; 32 bits with a sign; without."""


def message_class(descriptors: bytes, indexes: tuple[int, ...]) -> Any:
    """Return the class of a message, named by its indexes in the last file of a descriptor set.

    Raises RejectError (P312) when there is no such message.
    """
    from google.protobuf import (  # noqa: PLC0415  of the extra `protobuf`
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    for file in files:
        _without_extensions(file)
        pool.AddSerializedFile(file.SerializeToString())
    messages = pool.FindFileByName(files[-1].name).message_types_by_name
    among: Any = [messages[each.name] for each in files[-1].message_type]
    found = None
    for index in indexes:
        if not 0 <= index < len(among):
            numbers = ", ".join(map(str, indexes[:16]))
            raise unusable(f"it has no message of the indexes [{numbers}]")
        found = among[index]
        among = [each for each in found.nested_types if not each.GetOptions().map_entry]
    assert found is not None, "indexes are never empty"
    return message_factory.GetMessageClass(found)


def node_of(descriptor: Any) -> Record:
    """Return the tree of a message. Raises RejectError (P312)."""
    return _message(descriptor, (), NodeCount())


def _message(descriptor: Any, within: tuple[str, ...], count: NodeCount) -> Record:
    name = descriptor.full_name
    if name in within:
        raise unusable("it is recursive")
    if len(within) >= DEPTH_MAX:
        raise unusable(f"its messages are nested more than {DEPTH_MAX} deep")
    fields, escaped = [], {}
    for field in descriptor.fields:
        count.add()
        node = _field(field, (*within, name), count)
        column = column_of(field.name, field.json_name)
        if column != field.name:
            escaped[column] = field.name
        fields.append((column, Nullable(node) if field.has_presence else node))
    return Record(tuple(fields), escaped=escaped)


def _field(field: Any, within: tuple[str, ...], count: NodeCount) -> Node:
    if field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
        return Mapped(_PLAIN[key.type], _value(value, within, count))
    value = _value(field, within, count)
    return Listed(value) if field.is_repeated else value


def _value(field: Any, within: tuple[str, ...], count: NodeCount) -> Node:
    if field.type == _ENUM:
        values = field.enum_type.values
        return Symbols({value.number: value.name for value in reversed(values)})
    if field.type not in (_GROUP, _MESSAGE):
        return _PLAIN[field.type]
    name = field.message_type.full_name
    if name == _DECIMAL and _is_decimal(field.message_type):
        return Record((), VariableScaleDecimal())
    is_own = field.message_type.file.name.startswith(_FILES)
    known = name.removeprefix(_PREFIX) if is_own else ""
    if known in _WRAPPERS:
        return Wrapped(_PLAIN[field.message_type.fields_by_number[1].type])
    logical_type = _WELL_KNOWN.get(known)
    if logical_type is not None:
        return Record((), logical_type)
    return _message(field.message_type, within, count)


def _is_decimal(descriptor: Any) -> bool:
    types = {field.number: (field.name, field.type) for field in descriptor.fields}
    return types.get(1) == ("value", _BYTES) and types.get(3) == ("scale", _INT32)


def _without_extensions(file: Any) -> None:
    """Have extensions be unknown fields: those that are declared would be read, and not be seen."""
    del file.extension[:]
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        del message.extension[:]
        waiting += message.nested_type
