"""One Protobuf message becomes a tree of values: the authority on what it means.

Invariants:
- a record that holds a field which its schema does not have is rejected: nothing is left out
  unseen;
- what was not set is null where the schema tracks presence, never a default of the schema;
- the runtime's methods are called on its classes: a field may have the name of one.

Source: Protocol Buffers, "Encoding", "Application Note: Field Presence"; JSON mapping of `Struct`.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.core.schema import Kind
from penstock.rows.decode.logical_types import (
    NS,
    EpochCount,
    JsonText,
    VariableScaleDecimal,
    unscaled,
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


def read_message(node: Record, parse: Any, value: bytes) -> dict[str, Any]:
    """Read one message, which is the whole of `value`. Raises RejectError."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415  of the extra `protobuf`

    try:
        message = parse(value)
    except DecodeError as error:
        if "UTF-8" in str(error):
            raise RejectError(RejectCode.NOT_UTF8, "a string is not UTF-8") from error
        reason = "the bytes are no message of the record's schema"
        raise RejectError(RejectCode.MALFORMED, reason) from error
    if discard_unknown(message):
        reason = "the message has a field, or a value of an enum, that its schema does not have"
        raise RejectError(RejectCode.MALFORMED, reason)
    return _members(node, message)


def _members(node: Record, message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, member in node.fields:
        inner = member.node if isinstance(member, Nullable) else member
        own = node.escaped.get(name, name)
        there = inner is member or has_field(message, own)
        found[name] = _value(inner, getattr(message, own)) if there else None
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
            return stamp.value_of(_nanoseconds(value))
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


def _nanoseconds(stamp: Any) -> int:
    if not 0 <= stamp.nanos < NS:
        raise RejectError(RejectCode.MALFORMED, "the nanos of a Timestamp are not within a second")
    return int(stamp.seconds * NS + stamp.nanos)


def discard_unknown(message: Any) -> bool:
    """Leave unknown fields out of a message and those in it; return whether it had any."""
    own = type(message)
    size = len(own.SerializePartialToString(message))
    own.DiscardUnknownFields(message)
    return len(own.SerializePartialToString(message)) != size


def has_field(message: Any, name: str) -> bool:
    """Return whether a field of a message was set."""
    found: bool = type(message).HasField(message, name)
    return found


def json_text(message: Any) -> str:
    """Show a Struct, Value or ListValue as JSON text, keys in order. Raises RejectError."""
    from google.protobuf import json_format  # noqa: PLC0415  of the extra `protobuf`

    try:
        tree = json_format.MessageToDict(message)
    except (ValueError, RecursionError, json_format.SerializeToJsonError) as error:
        raise RejectError(RejectCode.MALFORMED, "a Value that JSON cannot show") from error
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def keys_in_order(entries: Any) -> list[Any]:
    """Return the keys of a map in their order. Raises RejectError for text that is not UTF-8."""
    if bytes in set(map(type, entries)):
        raise RejectError(RejectCode.NOT_UTF8, "a string is not UTF-8")
    return sorted(entries)
