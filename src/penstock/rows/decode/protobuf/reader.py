"""The reader of one Protobuf message: single records as trees, blocks by block_reader.py.

Invariants:
- a record that holds a field which its schema does not have is rejected: nothing is left out
  unseen;
- what was not set is null where the schema can tell it, never a default of the schema.

Source: Protocol Buffers, "Encoding", "Application Note: Field Presence"; JSON mapping of `Struct`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.schema import Kind, Struct
from penstock.rows.decode.format_reader import DecodedBlock
from penstock.rows.decode.logical_types import EpochCount, JsonText, VariableScaleDecimal, unscaled
from penstock.rows.decode.protobuf.block_reader import ParsedMessages, message_column
from penstock.rows.decode.protobuf.schema import message_class, node_of
from penstock.rows.decode.protobuf.well_known_types import (
    discard_unknown,
    has_field,
    json_text,
    keys_in_order,
    nanoseconds,
)
from penstock.rows.decode.schema_tree import (
    Listed,
    Mapped,
    Node,
    Nullable,
    Record,
    Scalar,
    Symbols,
    Wrapped,
)
from penstock.rows.reject_codes import RejectCode, RejectError


@dataclass(frozen=True, slots=True)
class ProtobufReader:
    """Reads messages of one class."""

    node: Record
    parse: Any

    @classmethod
    def of(cls, descriptors: bytes, indexes: tuple[int, ...]) -> ProtobufReader:
        """Return the reader of a message of a compiled schema. Raises RejectError (P312)."""
        found = message_class(descriptors, indexes)
        return cls(node_of(found.DESCRIPTOR), found.FromString)

    @property
    def type(self) -> Struct:
        """Return the columns that the schema asks for."""
        return self.node.type

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read messages, each the whole of its value."""
        parsed = ParsedMessages.of(values, self.parse)
        return DecodedBlock(message_column(self.node, parsed), parsed.uncertain)

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one message. Raises RejectError."""
        from google.protobuf.message import DecodeError  # noqa: PLC0415  of the extra `protobuf`

        try:
            message = self.parse(value)
        except DecodeError as error:
            if "UTF-8" in str(error):
                raise RejectError(RejectCode.NOT_UTF8, "a string is not UTF-8") from error
            reason = "the bytes are no message of the record's schema"
            raise RejectError(RejectCode.MALFORMED, reason) from error
        if discard_unknown(message):
            reason = "the message has a field, or a value of an enum, that its schema does not have"
            raise RejectError(RejectCode.MALFORMED, reason)
        return _members(self.node, message)


def _members(node: Record, message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, member in node.fields:
        if not isinstance(member, Nullable):
            found[name] = _value(member, getattr(message, name))
        elif has_field(message, name):
            found[name] = _value(member.node, getattr(message, name))
        else:
            found[name] = None
    return found


def _value(node: Node, value: Any) -> Any:
    match node:
        case Scalar():
            if isinstance(value, bytes) and node.kind is Kind.STRING:
                raise RejectError(RejectCode.NOT_UTF8, "a string is not UTF-8")
            return value
        case Symbols(names):
            if value not in names:
                reason = "an enum has no value of the record's number"
                raise RejectError(RejectCode.MALFORMED, reason)
            return names[value]
        case Record(_, EpochCount() as stamp):
            return stamp.value_of(nanoseconds(value.seconds, value.nanos))
        case Record(_, JsonText()):
            return json_text(value)
        case Record(_, VariableScaleDecimal()):
            return unscaled(value.value, value.scale)
        case Record():
            return _members(node, value)
        case Listed(items):
            return [_value(items, each) for each in value]
        case Mapped(key, inner):
            return {_value(key, each): _value(inner, value[each]) for each in keys_in_order(value)}
        case Wrapped(inner):
            return _value(inner, value.value)
        case _:
            raise AssertionError(node)
