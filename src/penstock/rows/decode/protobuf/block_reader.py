"""A block of Protobuf messages becomes Arrow columns, field by field.

The runtime parses each message in C; its fields are then taken for all records at once, a step of C
for a field of a record, and no tree is built.

Invariants:
- a record that is not doubtful holds what `ProtobufReader.record` gives for it;
- doubtful are records that do not parse or hold what the schema does not know, and values that have
  no place in the Arrow type.

Source: docs/design/0090.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Kind
from penstock.rows.arrow_types import arrow_type
from penstock.rows.decode.logical_types import NS
from penstock.rows.decode.protobuf.schema import (
    Mapped,
    Member,
    Message,
    Node,
    Primitive,
    Repeated,
    Symbols,
    Text,
    Timestamp,
    Wrapped,
)
from penstock.rows.decode.protobuf.well_known_types import (
    discard_unknown,
    has_field,
    json_text,
    keys_in_order,
)
from penstock.rows.reject_codes import RejectError

Rows = npt.NDArray[np.int64]
Values = Sequence[Any]

_LONG_MAX = (1 << 63) - 1
_SECONDS_MAX = ((1 << 63) - 1) // NS - 1
_LISTED_MAX = (1 << 31) - 1


@dataclass(slots=True)
class ParsedMessages:
    """The messages of a block, and which records are to be read one by one."""

    messages: list[Any]
    uncertain: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.BinaryArray, parse: Any) -> ParsedMessages:
        """Parse values; in place of one that is none stands an empty message."""
        from google.protobuf.message import DecodeError  # noqa: PLC0415  of the extra `protobuf`

        doubtful = np.zeros(len(values), np.bool_)
        messages = []
        for index, value in enumerate(values.to_pylist()):
            try:
                message = parse(value)
            except DecodeError:
                message = parse(b"")
                doubtful[index] = True
            if discard_unknown(message):
                doubtful[index] = True
            messages.append(message)
        return cls(messages, doubtful)

    def mark_uncertain(self, rows: Rows, wrong: npt.NDArray[np.bool_]) -> None:
        """Mark the records of some values."""
        if wrong.any():
            self.uncertain[rows[wrong]] = True


def message_column(node: Message, parsed: ParsedMessages) -> pa.StructArray:
    """Return the members of all messages as columns."""
    return _struct(node, parsed.messages, np.arange(len(parsed.messages)), parsed)


def _struct(node: Message, messages: Values, rows: Rows, parsed: ParsedMessages) -> pa.StructArray:
    if not node.members:
        return pa.array([{}] * len(messages), pa.struct([]))
    arrays = [_member(member, messages, rows, parsed) for member in node.members]
    names = [member.name for member in node.members]
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _member(member: Member, messages: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    take = attrgetter(member.name)
    if not member.presence:
        return _array(member.node, list(map(take, messages)), rows, parsed)
    name = member.name
    present = np.fromiter((has_field(each, name) for each in messages), np.bool_, len(messages))
    if present.all():
        return _array(member.node, list(map(take, messages)), rows, parsed)
    there = [take(each) for each, is_there in zip(messages, present, strict=True) if is_there]
    array = _array(member.node, there, rows[present], parsed)
    if not len(array):
        return pa.nulls(len(messages), array.type)
    index = np.maximum(np.cumsum(present) - 1, 0)
    return array.take(pa.array(index, mask=~present))


def _array(node: Node, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    """Return values of a node, none of them null, as an array of the same length."""
    match node:
        case Primitive():
            return _plain(node, values, rows, parsed)
        case Wrapped(inner):
            return _plain(inner, [each.value for each in values], rows, parsed)
        case Symbols(names):
            return _known([names.get(each) for each in values], pa.string(), rows, parsed)
        case Timestamp():
            return _stamps(values, rows, parsed)
        case Text():
            return _known([_text(each) for each in values], pa.string(), rows, parsed)
        case Repeated(element):
            return _list(element, values, rows, parsed)
        case Mapped():
            return _map(node, values, rows, parsed)
        case Message():
            return _struct(node, values, rows, parsed)
        case _:
            parsed.mark_uncertain(rows, np.ones(len(rows), np.bool_))
            return pa.nulls(len(values))


def _plain(node: Primitive, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    type_ = arrow_type(node.kind)
    if node.unsigned and values and max(values) > _LONG_MAX:
        return _known([v if v <= _LONG_MAX else None for v in values], type_, rows, parsed)
    if node.kind is Kind.STRING and bytes in set(map(type, values)):
        # The runtime gives text of proto2 that is not UTF-8 as bytes.
        kept = [None if isinstance(value, bytes) else value for value in values]
        return _known(kept, type_, rows, parsed)
    return pa.array(values, type_)


def _known(values: Values, type_: pa.DataType, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    array = pa.array(values, type_)
    if array.null_count:
        parsed.mark_uncertain(rows, array.is_null().to_numpy(zero_copy_only=False))
    return array


def _text(value: Any) -> str | None:
    try:
        return json_text(value)
    except RejectError:
        return None


def _stamps(values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    seconds = np.array([each.seconds for each in values], np.int64)
    nanos = np.array([each.nanos for each in values], np.int64)
    wrong = (nanos < 0) | (nanos >= NS)
    wrong |= (seconds > _SECONDS_MAX) | (seconds < -_SECONDS_MAX)
    parsed.mark_uncertain(rows, wrong)
    counts = np.where(wrong, 0, seconds) * NS + np.where(wrong, 0, nanos)
    return pa.array(counts).view(pa.timestamp("ns", "UTC"))


def _list(element: Node, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    items = list(chain.from_iterable(values))
    inner = _array(element, items, np.repeat(rows, lengths), parsed)
    listed = pa.list_(pa.field("element", inner.type))
    return pa.ListArray.from_arrays(_offsets(lengths), inner, type=listed)


def _map(node: Mapped, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    ordered = [_keys(each) for each in values]
    wrong = np.array([keys is None for keys in ordered], np.bool_)
    parsed.mark_uncertain(rows, wrong)
    known = [keys or [] for keys in ordered]
    lengths = np.fromiter(map(len, known), np.int64, len(known))
    owners = np.repeat(rows, lengths)
    keys = _plain(node.key, list(chain.from_iterable(known)), owners, parsed)
    members = [value[key] for value, among in zip(values, known, strict=True) for key in among]
    inner = _array(node.value, members, owners, parsed)
    if keys.null_count:
        # Arrow ends the process over a key that is null; the records with one are doubtful.
        parsed.mark_uncertain(owners, np.ones(len(owners), np.bool_))
        return pa.array([[]] * len(values), pa.map_(keys.type, inner.type))
    return pa.MapArray.from_arrays(_offsets(lengths), keys, inner)


def _keys(entries: Any) -> list[Any] | None:
    try:
        return keys_in_order(entries)
    except RejectError:
        return None


def _offsets(lengths: Rows) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    assert offsets[-1] <= _LISTED_MAX, "a block has fewer bytes"
    return pa.array(offsets.astype(np.int32))
