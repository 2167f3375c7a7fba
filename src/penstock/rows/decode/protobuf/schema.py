"""A Protobuf message's descriptor as a tree of nodes, with what well-known types mean.

Invariants:
- a node is complete in itself; recursive messages are refused, but for `google.protobuf.Struct`;
- a tree has at most `NODES_MAX` nodes, counted with each use of a message, in `DEPTH_MAX` levels;
- a well-known type is one of the runtime's own files: another of its name is a message as any;
- indexes count the messages that the text declares, not the entries of its maps;
- extensions are not known, so that a record with one is found to hold what has no column.

Source: Protocol Buffers, "Language Guide (proto 3)", "Application Note: Field Presence",
`google/protobuf/timestamp.proto`, `struct.proto`, `wrappers.proto`; Confluent's `decimal.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.rows.decode.logical_types import NS, EpochCount
from penstock.rows.reject_codes import RejectCode, RejectError

NODES_MAX = 10_000
DEPTH_MAX = 64
STAMP = EpochCount(Kind.TIMESTAMPTZ, NS)
_PREFIX, _FILES = "google.protobuf.", "google/protobuf/"


@dataclass(frozen=True, slots=True)
class Primitive:
    """A number, a boolean, text or bytes. `unsigned` numbers may be beyond a long."""

    kind: Kind
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Symbols:
    """One of some names, by their numbers."""

    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A `google.protobuf.Timestamp`: seconds since 1970 in UTC, and nanoseconds behind them."""


@dataclass(frozen=True, slots=True)
class Text:
    """A tree without a schema (`google.protobuf.Struct`, Value, ListValue), shown as JSON text."""


@dataclass(frozen=True, slots=True)
class VariableScaleDecimal:
    """Confluent's Decimal: unscaled bytes and a scale in each record."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A wrapper, which tells a value that was not set from its default."""

    inner: Primitive


@dataclass(frozen=True, slots=True)
class Repeated:
    """Any number of values."""

    element: Node


@dataclass(frozen=True, slots=True)
class Mapped:
    """Values by keys, in the order of keys: that of the wire means nothing."""

    key: Primitive
    value: Node


@dataclass(frozen=True, slots=True)
class Message:
    """Named members in the order of the text. One of several (`oneof`) is a member that may be
    null.
    """

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One field; with `presence`, one that was not set is null, else it has its zero value."""

    name: str
    node: Node
    presence: bool


Node = (
    Primitive
    | Symbols
    | Timestamp
    | Text
    | VariableScaleDecimal
    | Wrapped
    | Repeated
    | Mapped
    | Message
)

_TEXTS = frozenset({"Struct", "Value", "ListValue"})
_WRAPPERS = frozenset(
    {
        *("DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value"),
        *("BoolValue", "StringValue", "BytesValue"),
    }
)
_DECIMALS = frozenset({"confluent.type.Decimal"})

_DOUBLE, _FLOAT, _ENUM, _GROUP, _MESSAGE, _INT32, _BYTES = 1, 2, 14, 10, 11, 5, 12
_PLAIN: Mapping[int, Primitive] = MappingProxyType(
    {
        _DOUBLE: Primitive(Kind.DOUBLE),
        _FLOAT: Primitive(Kind.FLOAT),
        **dict.fromkeys((3, 16, 18), Primitive(Kind.LONG)),
        **dict.fromkeys((4, 6), Primitive(Kind.LONG, unsigned=True)),
        **dict.fromkeys((5, 15, 17), Primitive(Kind.INT)),
        **dict.fromkeys((7, 13), Primitive(Kind.LONG)),
        8: Primitive(Kind.BOOLEAN),
        9: Primitive(Kind.STRING),
        12: Primitive(Kind.BINARY),
    }
)
"""By `FieldDescriptorProto.Type`: 64 bits with a sign; without; 32 bits with a sign; without."""


def message_class(descriptors: bytes, indexes: tuple[int, ...]) -> Any:
    """Return the class of a message, named by its indexes in the last file of a descriptor set.

    Raises MisfitError (P312) when there is no such message.
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


def node_of(descriptor: Any) -> Message:
    """Return the tree of a message. Raises MisfitError (P312)."""
    counted = _Counting()
    return counted.message(descriptor, ())


def type_of_node(node: Node) -> Type:
    """Return the column type that a node asks for; `unknown` where a hint has to tell it."""
    match node:
        case Primitive(kind) | Wrapped(Primitive(kind)):
            return kind
        case Symbols() | Text():
            return Kind.STRING
        case Timestamp():
            return STAMP.type
        case VariableScaleDecimal():
            return Kind.UNKNOWN
        case Repeated(element):
            return List(type_of_node(element))
        case Mapped(key, value):
            return Map(key.kind, type_of_node(value))
        case Message():
            return type_of_message(node)


def type_of_message(message: Message) -> Struct:
    """Return the columns that a message asks for."""
    return Struct(tuple(Field(each.name, type_of_node(each.node)) for each in message.members))


def unusable(reason: str) -> RejectError:
    """Build the error for a schema that cannot be used, and why."""
    return RejectError(RejectCode.SCHEMA_UNUSABLE, reason)


@dataclass(slots=True)
class _Counting:
    nodes: int = 0

    def message(self, descriptor: Any, within: tuple[str, ...]) -> Message:
        """Read a message that stands within others, and count its fields."""
        name = descriptor.full_name
        if name in within:
            raise unusable("it is recursive")
        if len(within) >= DEPTH_MAX:
            raise unusable(f"its messages are nested more than {DEPTH_MAX} deep")
        members = []
        for field in descriptor.fields:
            self.nodes += 1
            if self.nodes > NODES_MAX:
                raise unusable(f"it has more than {NODES_MAX} types")
            node = self._field(field, (*within, name))
            presence = field.has_presence and not isinstance(node, Repeated | Mapped)
            members.append(Member(field.name, node, presence))
        return Message(tuple(members))

    def _field(self, field: Any, within: tuple[str, ...]) -> Node:
        if field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
            return Mapped(_PLAIN[key.type], self._value(value, within))
        value = self._value(field, within)
        return Repeated(value) if field.is_repeated else value

    def _value(self, field: Any, within: tuple[str, ...]) -> Node:
        if field.type == _ENUM:
            values = field.enum_type.values
            return Symbols({value.number: value.name for value in reversed(values)})
        if field.type not in (_GROUP, _MESSAGE):
            return _PLAIN[field.type]
        name = field.message_type.full_name
        if name in _DECIMALS and _is_decimal(field.message_type):
            return VariableScaleDecimal()
        is_own = field.message_type.file.name.startswith(_FILES)
        known = name.removeprefix(_PREFIX) if is_own else ""
        if known == "Timestamp":
            return Timestamp()
        if known in _TEXTS:
            return Text()
        if known in _WRAPPERS:
            return Wrapped(_PLAIN[field.message_type.fields_by_number[1].type])
        return self.message(field.message_type, within)


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
