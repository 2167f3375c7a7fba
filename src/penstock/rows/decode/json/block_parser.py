"""A block of records becomes Arrow columns in one parse.

Each value is wrapped as `{"v":<value>}` on a line of its own and the whole is read by pyarrow.json
with an explicit schema and `unexpected_field_behavior="error"`. A wrap cannot be forged:

- the text between two values, `}`, newline, `{"v":`, is never inside a string (a raw newline in a
  string is an error), and after a `}` a `{` only begins a new document: so each value lies in
  documents of its own, at least one; as many rows as values means exactly one each;
- that document begins with `{"v":` and ends with our `}`; a second member is an unexpected field,
  a second `v` a duplicate, both errors;
- a null document between two forged ones adds a row, so the count rejects it. The first document is
  never null, which pyarrow.json would not survive.

What pyarrow.json takes and we do not is either not asked of it (dates, timestamps, decimals in
128 bits: `parsed_type`) or found afterwards: NaN and infinity, inexact integers (json_columns.py),
UTF-8 and decimals that are too small to be distinguished from 0 (here). For
anything else the result is None: the block must be split.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from penstock.core.schema import Decimal, Fixed, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import within
from penstock.rows.arrow_arrays import bounds_of

BLOCK_ROWS_MAX = 50_000
BLOCK_BYTES_MAX = 64 << 20

_HEAD, _TAIL, _NO_SEPARATOR = b'{"v":', b"}\n", b""  # as bytes: the first scalar imports pandas
_BLOCK_BYTES_MIN = 1 << 16
_ASCII_MAX = 0x7F
_PRECISION_MAX = 38
_SMALL = r'[:\[,]\s*"?-?[0-9.]+[eE]-[0-9]{2,}"?\s*[,\]}]'
"""A number with a negative exponent of two digits or more: a word of JSON of its own, or a text."""

_PARSED = {
    Kind.UNKNOWN: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
}


def parsed_type(type_: Type) -> pa.DataType:
    """Return the type pyarrow.json is asked for: the exact one, or text, or a wider decimal.

    Decimals take 256 bits: 38 digits moved by up to 38 places cannot overflow there, while in 128
    bits pyarrow.json wraps around without a word.
    """
    match type_:
        case Decimal(_, scale):
            return pa.decimal256(_PRECISION_MAX, scale)
        case Struct(fields):
            return pa.struct([pa.field(field.name, parsed_type(field.type)) for field in fields])
        case List(element):
            return pa.list_(pa.field("element", parsed_type(element)))
        case Kind():
            return _PARSED.get(type_, pa.string())
        case Fixed():
            return pa.string()
        case Map():
            raise AssertionError("maps are read record by record")


def can_parse(type_: Type, depth_max: int) -> bool:
    """Return whether blocks of a type can be parsed at all: no maps, no deeper than the limit."""
    if isinstance(type_, Struct | List) and depth_max < 1:
        return False
    inside = (can_parse(inner, depth_max - 1) for _, inner in within(type_))
    return not isinstance(type_, Map) and all(inside)


def parse_block(values: pa.BinaryArray, schema: Schema) -> pa.StructArray | None:
    """Parse non-null, non-empty values into a struct of `parsed_type`s, one row each; None where
    they do not parse as a whole.
    """
    if not _is_utf8(values):
        return None
    lines = pc.binary_join_element_wise(_HEAD, values, _TAIL, _NO_SEPARATOR).buffers()[2]
    try:
        table = arrow_json.read_json(
            pa.BufferReader(lines),
            read_options=arrow_json.ReadOptions(
                use_threads=False, block_size=max(lines.size, _BLOCK_BYTES_MIN)
            ),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([pa.field("v", parsed_type(schema))]),
                unexpected_field_behavior="error",
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    column = table.column("v")
    parsed = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return None if _has_vanished(values, parsed) else parsed


def _has_vanished(values: pa.BinaryArray, parsed: pa.Array) -> bool:
    """Look for a number that is not 0 and was read as the decimal 0, such as 1e-194.

    For more digits after the point than its table of powers has, pyarrow 26 reads past the
    table, and says 0 where it finds zeros there.
    """
    return _has_zero(parsed) and bool(pc.any(pc.match_substring_regex(values, _SMALL)).as_py())


def _has_zero(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return any(map(_has_zero, array.flatten()))
    if pa.types.is_list(array.type):
        return _has_zero(array.flatten())
    if not pa.types.is_decimal(array.type):
        return False
    return bool(pc.any(pc.equal(array, pa.scalar(0, array.type))).as_py())


def _is_utf8(values: pa.BinaryArray) -> bool:
    ends = bounds_of(values)
    if np.frombuffer(values.buffers()[2], np.uint8)[ends[0] : ends[-1]].max() <= _ASCII_MAX:
        return True
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
