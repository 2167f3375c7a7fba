"""The Arrow form of our types: what converters return and file writers take.

Invariants: one type has one Arrow form; timestamps count microseconds, or nanoseconds where their
type says so, with zone always UTC; list elements are called `element` (Parquet's and Iceberg's
name); nullability is carried at each level.
"""

from __future__ import annotations

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
    Kind.TIMESTAMP_NS: pa.timestamp("ns"),
    Kind.TIMESTAMPTZ_NS: pa.timestamp("ns", "UTC"),
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


def arrow_field(field: Field) -> pa.Field:
    """Return the Arrow form of a struct's member."""
    return pa.field(field.name, arrow_type(field.type), nullable=not field.required)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow form of a table's schema, columns in order."""
    return pa.schema([arrow_field(field) for field in schema.fields])
