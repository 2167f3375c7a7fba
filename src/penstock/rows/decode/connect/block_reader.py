"""A block of payloads of one schema becomes Arrow columns in one parse (block_parser.py).

Payloads are parsed as what JSON can hold: counts as integers, bytes as text. Then columns are given
the meaning of their schema.

Invariants:
- a row that is not uncertain holds what `read_payload` returns for its record;
- a payload that does not parse costs the others a further parse, never a verdict.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.rows.arrow_arrays import list_array, mask_of, struct_array
from penstock.rows.arrow_types import arrow_type
from penstock.rows.decode.connect.payload_reader import read_payload
from penstock.rows.decode.connect.schema import node_of
from penstock.rows.decode.format_reader import (
    DecodedBlock,
    FormatReader,
    as_member,
    or_none,
    unread,
)
from penstock.rows.decode.json.block_parser import can_parse, parse_block, parsed_type
from penstock.rows.decode.json.exact_text import base64_bytes
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.decode.logical_types import ARROW_TYPES, EpochCount, UnscaledDecimal
from penstock.rows.decode.schema_tree import Listed, Mapped, Node, Record, Scalar

_PARTS, _PART_ROWS_MIN = 8, 64
_INEXACT = {Kind.FLOAT: float(1 << 24), Kind.DOUBLE: float(1 << 53)}
_DIGITS = 38


def connect_reader(schema: Any, depth_max: int) -> FormatReader:
    """Return the reader of the payloads of a parsed schema. Raises RejectError (P312)."""
    node, is_bare = node_of(schema)

    def record(value: bytes) -> dict[str, Any]:
        text = as_member(value) if is_bare else value
        return read_payload(node, parse_object(text, depth_max=depth_max))

    def block(values: pa.BinaryArray) -> DecodedBlock:
        if is_bare:
            values = pa.array(map(as_member, values.to_pylist()), pa.binary())
        physical = _physical(node)
        assert isinstance(physical, Struct), "records are parsed as structs"
        if physical.fields and can_parse(physical, depth_max):
            return _parts(node, values, physical)
        return unread(len(values), pa.struct([(name, pa.null()) for name, _ in node.fields]))

    return FormatReader(node.type, block, record)


def _parts(node: Record, values: pa.BinaryArray, physical: Struct) -> DecodedBlock:
    """Read payloads in one parse, or in several where one of them does not parse."""
    parsed = parse_block(values, physical)
    if parsed is not None:
        lifting = _LogicalValues(np.array(mask_of(parsed.is_null())))
        array = lifting.value(node, parsed, np.arange(len(values)))
        return DecodedBlock(array, lifting.uncertain)
    if len(values) <= _PART_ROWS_MIN:
        nothing = pa.array([], parsed_type(physical))
        lifting = _LogicalValues(np.zeros(0, np.bool_))
        return unread(len(values), lifting.value(node, nothing, np.arange(0)).type)
    bounds = np.linspace(0, len(values), _PARTS + 1).astype(int).tolist()
    parts = [_parts(node, values.slice(a, b - a), physical) for a, b in pairwise(bounds)]
    array = pa.concat_arrays([part.array for part in parts])
    return DecodedBlock(array, np.concatenate([part.uncertain for part in parts]))


@dataclass(slots=True)
class _LogicalValues:
    """Converts parsed columns to their logical types; collects the records to read one by one."""

    uncertain: npt.NDArray[np.bool_]

    def value(self, node: Node, array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Bring an array to the form of its schema; `rows` has the record of each item."""
        match node:
            case Scalar():
                return self._scalar(node, array, rows)
            case Listed(items):
                lengths = pc.list_value_length(array).fill_null(0).to_numpy()
                inner = self.value(items, array.flatten(), np.repeat(rows, lengths))
                valid = array.is_valid().buffers()[1] if array.null_count else None
                return list_array(lengths, inner, valid)
            case Record(_, meaning) if meaning is not None:
                return self._keep(pa.nulls(len(array)), array.is_null(), rows)
            case Record(fields):
                return self._record(fields, array, rows)
            case _:
                raise AssertionError(node, "maps are read record by record")

    def _record(
        self, fields: tuple[tuple[str, Node], ...], array: pa.Array, rows: npt.NDArray[np.int64]
    ) -> pa.Array:
        members = [
            self.value(node, member, rows)
            for (_, node), member in zip(fields, array.flatten(), strict=True)
        ]
        if not fields:
            return array
        mask = array.is_null() if array.null_count else None
        return struct_array([name for name, _ in fields], members, len(array), mask)

    def _scalar(self, node: Scalar, array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
        match node.kind:
            case Kind.INT | Kind.LONG:
                return self._integers(node, array, rows)
            case Kind.FLOAT | Kind.DOUBLE:
                # Beyond these the digits may be an integer's, which the number may round.
                sure = pc.less(pc.abs(array), _INEXACT[node.kind]).fill_null(True)
                self._keep(array, sure, rows)
                return array
            case Kind.BINARY:
                return self._bytes(node, array, rows)
            case _:
                return array

    def _integers(self, node: Scalar, array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
        kind = node.logical_type
        target = ARROW_TYPES[kind] if isinstance(kind, EpochCount) else arrow_type(node.kind)
        bits = min(node.bits, target.bit_width)
        if bits < pa.int64().bit_width:
            bound = 1 << (bits - 1)
            sure = pc.and_(pc.less(array, bound), pc.greater_equal(array, -bound)).fill_null(True)
            array = self._keep(array, sure, rows)
        if target.bit_width < array.type.bit_width:
            array = array.cast(pa.int32())
        return array.view(target)

    def _bytes(self, node: Scalar, array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
        texts = array.to_pylist()
        decoded = [None if text is None else or_none(base64_bytes, text) for text in texts]
        meaning = node.logical_type
        if not isinstance(meaning, UnscaledDecimal):
            found = pa.array(decoded, pa.binary())
        elif not 0 <= meaning.scale <= _DIGITS:
            found = pa.nulls(len(decoded), pa.decimal128(_DIGITS, 0))
        else:
            numbers = [_number(each, meaning) for each in decoded]
            found = pa.array(numbers, pa.decimal128(_DIGITS, meaning.scale))
        lost = pc.and_(found.is_null(), array.is_valid())
        self._keep(array, pc.invert(lost), rows)
        return found

    def _keep(
        self, array: pa.Array, sure: pa.BooleanArray, rows: npt.NDArray[np.int64]
    ) -> pa.Array:
        if pc.all(sure, min_count=0).as_py():
            return array
        self.uncertain[rows[~mask_of(sure)]] = True
        return pc.if_else(sure, array, pa.scalar(None, array.type))


def _number(data: bytes | None, meaning: UnscaledDecimal) -> decimal.Decimal | None:
    if data is None or len(data) > pa.decimal128(1).byte_width:
        return None
    number = meaning.value_of(data)
    return number if len(number.as_tuple().digits) <= _DIGITS else None


def _physical(node: Node) -> Type:
    match node:
        case Scalar(Kind.INT | Kind.LONG):
            return Kind.LONG
        case Scalar(Kind.BINARY):
            return Kind.STRING
        case Scalar(kind):
            return kind
        case Listed(items):
            return List(_physical(items))
        case Mapped(key, value):
            return Map(_physical(key), _physical(value))
        case Record(fields):
            return Struct(tuple(Field(name, _physical(member)) for name, member in fields))
        case _:
            raise AssertionError(node)
