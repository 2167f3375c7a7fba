"""A block of Protobuf messages becomes Arrow columns, field by field.

The runtime parses each message in C; its fields are then taken for all records at once, a step of C
for a field of a record, and no tree is built.

Invariants:
- a record that is not uncertain holds what `ProtobufReader.record` gives for it;
- uncertain are records that do not parse or hold what the schema does not know, and values that
  have no place in the Arrow type.

Source: docs/design/0090.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Kind
from penstock.rows.arrow_arrays import list_array, mask_of, offsets_of, spread, struct_array
from penstock.rows.arrow_types import arrow_type
from penstock.rows.decode.logical_types import NS, EpochCount, JsonText
from penstock.rows.decode.protobuf.well_known_types import (
    discard_unknown,
    has_field,
    json_text,
    keys_in_order,
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
from penstock.rows.reject_codes import RejectError

Rows = npt.NDArray[np.int64]
Values = Sequence[Any]

_LONG_MAX = (1 << 63) - 1
_SECONDS_MAX = ((1 << 63) - 1) // NS - 1


@dataclass(slots=True)
class ParsedMessages:
    """The messages of a block, and which records are to be read one by one."""

    messages: list[Any]
    uncertain: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: pa.BinaryArray, parse: Any) -> ParsedMessages:
        """Parse values; in place of one that is none stands an empty message."""
        from google.protobuf.message import DecodeError  # noqa: PLC0415  of the extra `protobuf`

        uncertain = np.zeros(len(values), np.bool_)
        messages = []
        for index, value in enumerate(values.to_pylist()):
            try:
                message = parse(value)
            except DecodeError:
                message = parse(b"")
                uncertain[index] = True
            if discard_unknown(message):
                uncertain[index] = True
            messages.append(message)
        return cls(messages, uncertain)

    def mark_uncertain(self, rows: Rows, wrong: npt.NDArray[np.bool_]) -> None:
        """Mark the records of some values."""
        if wrong.any():
            self.uncertain[rows[wrong]] = True


def message_column(node: Record, parsed: ParsedMessages) -> pa.StructArray:
    """Return the members of all messages as columns."""
    return _struct(node, parsed.messages, np.arange(len(parsed.messages)), parsed)


def _struct(node: Record, messages: Values, rows: Rows, parsed: ParsedMessages) -> pa.StructArray:
    arrays = [_member(name, member, messages, rows, parsed) for name, member in node.fields]
    return struct_array([name for name, _ in node.fields], arrays, len(messages))


def _member(
    name: str, node: Node, messages: Values, rows: Rows, parsed: ParsedMessages
) -> pa.Array:
    take = attrgetter(name)
    if not isinstance(node, Nullable):
        return _array(node, list(map(take, messages)), rows, parsed)
    present = np.fromiter((has_field(each, name) for each in messages), np.bool_, len(messages))
    there = messages if present.all() else compress(messages, present)
    return spread(_array(node.node, list(map(take, there)), rows[present], parsed), present)


def _array(node: Node, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    """Return values of a node, none of them null, as an array of the same length."""
    match node:
        case Scalar():
            return _plain(node, values, rows, parsed)
        case Wrapped(inner):
            return _array(inner, [each.value for each in values], rows, parsed)
        case Symbols(names):
            return _known([names.get(each) for each in values], pa.string(), rows, parsed)
        case Record(_, EpochCount()):
            return _stamps(values, rows, parsed)
        case Record(_, JsonText()):
            return _known([_text(each) for each in values], pa.string(), rows, parsed)
        case Record(_, None):
            return _struct(node, values, rows, parsed)
        case Listed(items):
            lengths = np.fromiter(map(len, values), np.int64, len(values))
            each = list(chain.from_iterable(values))
            return list_array(lengths, _array(items, each, np.repeat(rows, lengths), parsed))
        case Mapped(Scalar() as key, inner):
            return _map(key, inner, values, rows, parsed)
        case _:
            parsed.mark_uncertain(rows, np.ones(len(rows), np.bool_))
            return pa.nulls(len(values))


def _plain(node: Scalar, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
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
        parsed.mark_uncertain(rows, mask_of(array.is_null()))
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


def _map(key: Scalar, value: Node, values: Values, rows: Rows, parsed: ParsedMessages) -> pa.Array:
    ordered = [_keys(each) for each in values]
    parsed.mark_uncertain(rows, np.array([keys is None for keys in ordered], np.bool_))
    known = [keys or [] for keys in ordered]
    lengths = np.fromiter(map(len, known), np.int64, len(known))
    owners = np.repeat(rows, lengths)
    keys = _plain(key, list(chain.from_iterable(known)), owners, parsed)
    members = [each[at] for each, among in zip(values, known, strict=True) for at in among]
    inner = _array(value, members, owners, parsed)
    if keys.null_count:
        # Arrow ends the process over a key that is null; the records with one are uncertain.
        parsed.mark_uncertain(owners, np.ones(len(owners), np.bool_))
        return pa.array([[]] * len(values), pa.map_(keys.type, inner.type))
    return pa.MapArray.from_arrays(pa.array(offsets_of(lengths)), keys, inner)


def _keys(entries: Any) -> list[Any] | None:
    try:
        return keys_in_order(entries)
    except RejectError:
        return None
