"""The Arrow form of our types: what converters give and file writers take.

Invariants: one type has one Arrow form; time stamps count microseconds, with zone always UTC; list
elements are called `element` (Parquet's and Iceberg's name); nullability is carried at each level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Schema, Struct, Type

_UUID_BYTES = 16

_SCALARS = {
    Kind.UNKNOWN: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.UUID: pa.binary(_UUID_BYTES),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow form of a type."""
    match type_:
        case Kind():
            return _SCALARS[type_]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length):
            return pa.binary(length)
        case Struct(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case List(element, required):
            return pa.list_(pa.field("element", arrow_type(element), nullable=not required))
        case Map(key, value, required):
            return pa.map_(
                arrow_type(key), pa.field("value", arrow_type(value), nullable=not required)
            )


def lengths_of(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return the length in bytes of each value; that of a null has no meaning."""
    if not len(values):
        return np.zeros(0, np.int32)
    offsets = values.buffers()[1]
    ends = np.frombuffer(offsets, np.int32, count=len(values) + 1, offset=4 * values.offset)
    lengths: npt.NDArray[np.int32] = np.diff(ends)
    return lengths


def counts_of(values: pa.BinaryArray, what: bytes) -> npt.NDArray[np.int64]:
    """Count how often some bytes stand in each value; of a null, no meaning has what is given."""
    if not len(values) or values.buffers()[2] is None:
        return np.zeros(len(values), np.int64)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32, count=len(values) + 1, offset=4 * values.offset)
    held = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    stop = max(len(held) - len(what) + 1, 0)
    found = np.ones(stop, np.bool_)
    for place, byte in enumerate(what):
        found &= held[place : place + stop] == byte
    places = np.flatnonzero(found) + ends[0]
    first, last = (
        np.searchsorted(places, ends[:-1]),
        np.searchsorted(places, ends[1:] - len(what) + 1),
    )
    counts: npt.NDArray[np.int64] = np.maximum(last - first, 0)
    return counts


def validity_of(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.array(array.is_valid().to_numpy(zero_copy_only=False))


def arrow_field(field: Field) -> pa.Field:
    """Return the Arrow form of a struct's member."""
    return pa.field(field.name, arrow_type(field.type), nullable=not field.required)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow form of a table's schema, columns in order."""
    return pa.schema([arrow_field(field) for field in schema.fields])


def spread(array: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Put nulls where nothing is present."""
    if present.all():
        return array
    if not len(array):
        return pa.nulls(len(present), array.type)
    index = np.maximum(np.cumsum(present) - 1, 0)
    return array.take(pa.array(index, mask=~present))
