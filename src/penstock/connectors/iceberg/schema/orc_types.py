"""Maps the columns of an Iceberg table to those of its ORC files.

Invariant: every column bears its field id, nested ones as well, and what ORC's own types do not
say.

Source: Apache Iceberg table specification, "Appendix A: Format-specific Requirements", "ORC".
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema as IcebergSchema

from penstock.connectors.iceberg.schema.types import arrow_type

FIELD_ID = b"iceberg.id"
_MICROS, _NANOS = ({b"iceberg.timestamp-unit": unit} for unit in (b"MICROS", b"NANOS"))
_ATTRIBUTES: Mapping[type[iceberg.IcebergType], Mapping[bytes, bytes]] = {
    iceberg.TimeType: {b"iceberg.long-type": b"TIME"},
    iceberg.UUIDType: {b"iceberg.binary-type": b"UUID"},
    iceberg.TimestampType: _MICROS,
    iceberg.TimestamptzType: _MICROS,
    iceberg.TimestampNanoType: _NANOS,
    iceberg.TimestamptzNanoType: _NANOS,
}


def orc_schema(schema: IcebergSchema) -> pa.Schema:
    """Return the Arrow schema of ORC files."""
    return pa.schema([_stored(field) for field in schema.fields])


def _stored(field: iceberg.NestedField) -> pa.Field:
    attributes = {
        FIELD_ID: str(field.field_id).encode(),
        b"iceberg.required": str(field.required).lower().encode(),
        **_attributes_of(field.field_type),
    }
    return pa.field(
        field.name, _stored_type(field.field_type), nullable=not field.required, metadata=attributes
    )


def _attributes_of(kind: iceberg.IcebergType) -> Mapping[bytes, bytes]:
    if isinstance(kind, iceberg.FixedType):
        length = str(len(kind)).encode()
        return {b"iceberg.binary-type": b"FIXED", b"iceberg.length": length}
    return _ATTRIBUTES.get(type(kind), {})


def _stored_type(kind: iceberg.IcebergType) -> pa.DataType:
    match kind:
        case iceberg.StructType():
            return pa.struct([_stored(each) for each in kind.fields])
        case iceberg.ListType():
            return pa.list_(_stored(kind.element_field))
        case iceberg.MapType():
            return pa.map_(_stored(kind.key_field), _stored(kind.value_field))
        case iceberg.TimeType():
            return pa.int64()
        case iceberg.UUIDType() | iceberg.FixedType():
            return pa.binary()
        case _:
            return arrow_type(kind)
