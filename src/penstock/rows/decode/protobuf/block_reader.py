"""A block of Protobuf messages becomes Arrow columns, field by field.

The runtime parses each message in C; its fields are then taken for all records at once, a step of C
for a field of a record, and no tree is built.

Invariants:
- a record that is not uncertain holds what `read_message` returns for it;
- uncertain are records that do not parse or hold what the schema does not know, and values that
  have no place in the Arrow type.

Source: docs/design/0090.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Kind
from penstock.rows.arrow_arrays import Mask, list_array, mask_of, offsets_of, spread, struct_array
from penstock.rows.arrow_types import arrow_type
from penstock.rows.decode.format_reader import DecodedBlock, FormatReader, or_none
from penstock.rows.decode.logical_types import NS, EpochCount, JsonText
from penstock.rows.decode.protobuf.message_reader import (
    discard_unknown,
    has_field,
    json_text,
    keys_in_order,
    read_message,
)
from penstock.rows.decode.protobuf.schema import message_class, node_of
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

Rows = npt.NDArray[np.int64]
Values = Sequence[Any]

_LONG_MAX = (1 << 63) - 1
_SECONDS_MAX = ((1 << 63) - 1) // NS - 1


def protobuf_reader(descriptors: bytes, indexes: tuple[int, ...]) -> FormatReader:
    """Return the reader of a message of a compiled schema. Raises RejectError (P312)."""
    found = message_class(descriptors, indexes)
    node, parse = node_of(found.DESCRIPTOR), found.FromString
    return FormatReader(
        node.type, partial(_read_block, node, parse), partial(read_message, node, parse)
    )


def _read_block(node: Record, parse: Any, values: pa.BinaryArray) -> DecodedBlock:
    from google.protobuf.message import DecodeError  # noqa: PLC0415  of the extra `protobuf`

    block = _Block(np.zeros(len(values), np.bool_))
    messages = []
    for index, value in enumerate(values.to_pylist()):
        try:
            message = parse(value)
        except DecodeError:
            message = parse(b"")
            block.uncertain[index] = True
        if discard_unknown(message):
            block.uncertain[index] = True
        messages.append(message)
    return DecodedBlock(block.struct(node, messages, np.arange(len(values))), block.uncertain)


@dataclass(slots=True)
class _Block:
    """Makes columns of values; `rows` has the record of each value."""

    uncertain: Mask

    def mark_uncertain(self, rows: Rows, wrong: Mask) -> None:
        if wrong.any():
            self.uncertain[rows[wrong]] = True

    def struct(self, node: Record, messages: Values, rows: Rows) -> pa.StructArray:
        arrays = [
            self._member(node.escaped.get(name, name), member, messages, rows)
            for name, member in node.fields
        ]
        return struct_array([name for name, _ in node.fields], arrays, len(messages))

    def _member(self, name: str, node: Node, messages: Values, rows: Rows) -> pa.Array:
        take = attrgetter(name)
        if not isinstance(node, Nullable):
            return self._array(node, list(map(take, messages)), rows)
        present = np.fromiter((has_field(each, name) for each in messages), np.bool_, len(messages))
        there = messages if present.all() else compress(messages, present)
        return spread(self._array(node.node, list(map(take, there)), rows[present]), present)

    def _array(self, node: Node, values: Values, rows: Rows) -> pa.Array:
        """Return values of a node, none of them null, as an array of the same length."""
        match node:
            case Scalar():
                return self._plain(node, values, rows)
            case Wrapped(inner):
                return self._array(inner, [each.value for each in values], rows)
            case Symbols(names):
                return self._known([names.get(each) for each in values], pa.string(), rows)
            case Record(_, EpochCount()):
                return self._stamps(values, rows)
            case Record(_, JsonText()):
                return self._known([or_none(json_text, each) for each in values], pa.string(), rows)
            case Record(_, None):
                return self.struct(node, values, rows)
            case Listed(items):
                lengths = np.fromiter(map(len, values), np.int64, len(values))
                each = list(chain.from_iterable(values))
                return list_array(lengths, self._array(items, each, np.repeat(rows, lengths)))
            case Mapped(Scalar() as key, inner):
                return self._map(key, inner, values, rows)
            case _:
                self.mark_uncertain(rows, np.ones(len(rows), np.bool_))
                return pa.nulls(len(values))

    def _plain(self, node: Scalar, values: Values, rows: Rows) -> pa.Array:
        type_ = arrow_type(node.kind)
        if node.unsigned and values and max(values) > _LONG_MAX:
            return self._known([v if v <= _LONG_MAX else None for v in values], type_, rows)
        if node.kind is Kind.STRING and bytes in set(map(type, values)):
            # The runtime returns text of proto2 that is not UTF-8 as bytes.
            kept = [None if isinstance(value, bytes) else value for value in values]
            return self._known(kept, type_, rows)
        return pa.array(values, type_)

    def _known(self, values: Values, type_: pa.DataType, rows: Rows) -> pa.Array:
        array = pa.array(values, type_)
        if array.null_count:
            self.mark_uncertain(rows, mask_of(array.is_null()))
        return array

    def _stamps(self, values: Values, rows: Rows) -> pa.Array:
        seconds = np.array([each.seconds for each in values], np.int64)
        nanos = np.array([each.nanos for each in values], np.int64)
        wrong = (nanos < 0) | (nanos >= NS)
        wrong |= (seconds > _SECONDS_MAX) | (seconds < -_SECONDS_MAX)
        self.mark_uncertain(rows, wrong)
        counts = np.where(wrong, 0, seconds) * NS + np.where(wrong, 0, nanos)
        return pa.array(counts).view(pa.timestamp("ns", "UTC"))

    def _map(self, key: Scalar, value: Node, values: Values, rows: Rows) -> pa.Array:
        ordered = [or_none(keys_in_order, each) for each in values]
        self.mark_uncertain(rows, np.array([keys is None for keys in ordered], np.bool_))
        known = [keys or [] for keys in ordered]
        lengths = np.fromiter(map(len, known), np.int64, len(known))
        owners = np.repeat(rows, lengths)
        keys = self._plain(key, list(chain.from_iterable(known)), owners)
        members = [each[at] for each, among in zip(values, known, strict=True) for at in among]
        inner = self._array(value, members, owners)
        if keys.null_count:
            # Arrow ends the process over a key that is null; the records with one are uncertain.
            self.mark_uncertain(owners, np.ones(len(owners), np.bool_))
            return pa.array([[]] * len(values), pa.map_(keys.type, inner.type))
        return pa.MapArray.from_arrays(pa.array(offsets_of(lengths)), keys, inner)
