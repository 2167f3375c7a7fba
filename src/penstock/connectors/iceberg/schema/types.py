"""Maps our type tree to Iceberg's and back, and Iceberg's to the Arrow schema of data files.

Invariants:
- `to_core(to_iceberg(schema))` equals the schema: nothing is widened or narrowed on the way;
- what has no equal on the other side is refused by name, never replaced;
- the Arrow schema of files carries field ids, so a rename later does not lose a column;
- a column of the type `unknown`, of nulls alone, is in no file.

Source: Apache Iceberg table specification, "Schemas and Data Types", "Schema Evolution" and
"Parquet".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.schema.reserved_names import RESERVED
from penstock.core.errors import InvalidError
from penstock.core.names import folded
from penstock.core.schema import (
    Decimal,
    Field,
    Fixed,
    Kind,
    List,
    Map,
    Schema,
    Struct,
    Type,
    scalar_type,
)
from penstock.core.schema_walk import walk

_TYPES: dict[Kind, tuple[iceberg.PrimitiveType, pa.DataType]] = {
    Kind.BOOLEAN: (iceberg.BooleanType(), pa.bool_()),
    Kind.INT: (iceberg.IntegerType(), pa.int32()),
    Kind.LONG: (iceberg.LongType(), pa.int64()),
    Kind.FLOAT: (iceberg.FloatType(), pa.float32()),
    Kind.DOUBLE: (iceberg.DoubleType(), pa.float64()),
    Kind.STRING: (iceberg.StringType(), pa.string()),
    Kind.BINARY: (iceberg.BinaryType(), pa.binary()),
    Kind.UUID: (iceberg.UUIDType(), pa.uuid()),
    Kind.DATE: (iceberg.DateType(), pa.date32()),
    Kind.TIME: (iceberg.TimeType(), pa.time64("us")),
    Kind.TIMESTAMP: (iceberg.TimestampType(), pa.timestamp("us")),
    Kind.TIMESTAMPTZ: (iceberg.TimestamptzType(), pa.timestamp("us", tz="UTC")),
    Kind.TIMESTAMP_NS: (iceberg.TimestampNanoType(), pa.timestamp("ns")),
    Kind.TIMESTAMPTZ_NS: (iceberg.TimestamptzNanoType(), pa.timestamp("ns", tz="UTC")),
}
_ARROW = {**dict(_TYPES.values()), iceberg.UnknownType(): pa.null()}
NANOS = (iceberg.TimestampNanoType, iceberg.TimestamptzNanoType)
"""The types of time stamps that count nanoseconds."""
_OF_VERSION_3 = frozenset({Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS})
_NANOS_SINCE = 3
KINDS: dict[type[iceberg.PrimitiveType], Kind] = {
    type(each): kind for kind, (each, _) in _TYPES.items()
}
"""Our kinds by Iceberg's types, but for those that have parameters."""


def to_iceberg(schema: Schema, format_version: int) -> IcebergSchema:
    """Return the Iceberg schema with ids counted from 1; a catalog assigns its own.

    Raises InvalidError (P435) for types and names that Iceberg cannot hold, in that version of its
    format.
    """
    _check_names(schema, "")
    _check_version(schema, format_version)
    reserved = {folded(name) for name in RESERVED}
    for name in schema.names:
        if folded(name) in reserved:
            why = "Iceberg's readers reserve the name for metadata"
            raise _unusable(f"no column can be named {name}: {why}")
    ids = itertools.count(1)
    return IcebergSchema(*_fields(schema, "", ids))


def to_core(schema: IcebergSchema, table: str) -> Schema:
    """Return the type tree of an Iceberg schema. Raises InvalidError (P435)."""
    return Struct(
        tuple(
            Field(field.name, Kind.UNKNOWN, field.required)
            if is_unknown(field)
            else _core_field(field, table, field.name)
            for field in schema.fields
        )
    )


def is_unknown(field: iceberg.NestedField) -> bool:
    """Return whether a column has no type yet: it is null in all rows."""
    return isinstance(field.field_type, iceberg.UnknownType)


def stored(schema: IcebergSchema) -> IcebergSchema:
    """Return the columns that files have; a table has them all for good, and others as well."""
    return IcebergSchema(*(field for field in schema.fields if not is_unknown(field)))


def file_schema(schema: IcebergSchema) -> pa.Schema:
    """Return the Arrow schema of data files: plain types, with the field ids Parquet needs."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def widened(metadata: TableMetadata, wide: Schema) -> IcebergSchema:
    """Return the next schema of a table, with the columns of a wider one.

    Existing columns keep their ids, documentation and defaults.
    Raises InvalidError (P435) for types and names that Iceberg cannot hold, in the version of its
    format that the table has.
    """
    _check_names(wide, "")
    _check_version(wide, metadata.format_version)
    schema = metadata.schema()
    ids = itertools.count(metadata.last_column_id + 1)
    return IcebergSchema(
        *_widened_fields(schema.as_struct(), wide, "", ids),
        schema_id=max(each.schema_id for each in metadata.schemas) + 1,
        identifier_field_ids=schema.identifier_field_ids,
    )


def _widened_fields(
    before: iceberg.StructType, wide: Struct, path: str, ids: Iterator[int]
) -> list[iceberg.NestedField]:
    there = {field.name: field for field in before.fields}
    fields = []
    for field in wide.fields:
        place, old = f"{path}{field.name}", there.get(field.name)
        if old is None:
            number = next(ids)
            made = _iceberg_type(field.type, place, ids)
            fields.append(iceberg.NestedField(number, field.name, made, required=False))
            continue
        made = _widened_type(old.field_type, field.type, place, ids)
        fields.append(old.model_copy(update={"field_type": made, "required": field.required}))
    return fields


def _widened_type(
    old: iceberg.IcebergType, wide: Type, path: str, ids: Iterator[int]
) -> iceberg.IcebergType:
    match old, wide:
        case iceberg.StructType(), Struct():
            return iceberg.StructType(*_widened_fields(old, wide, f"{path}.", ids))
        case iceberg.ListType(), List(element, required):
            made = _widened_type(old.element_type, element, f"{path}[]", ids)
            return old.model_copy(update={"element_type": made, "element_required": required})
        case iceberg.MapType(), Map(_, value, required):
            made = _widened_type(old.value_type, value, f"{path}{{}}", ids)
            return old.model_copy(update={"value_type": made, "value_required": required})
        case iceberg.UnknownType(), Kind.UNKNOWN:
            return old
        case _:
            return _iceberg_type(wide, path, ids)


def _check_names(struct: Struct, path: str) -> None:
    seen: set[str] = set()
    for field in struct.fields:
        if not field.name or field.name in seen:
            twice = f"the column {path}{field.name!r} appears twice"
            raise _unusable(twice if field.name else "a nameless column cannot be in a table")
        seen.add(field.name)


def _check_version(schema: Struct, format_version: int) -> None:
    """Raise InvalidError (P435) for a type that only a later version of the format has."""
    late = next((each for each in walk(schema) if each[1] in _OF_VERSION_3), None)
    if late is not None and format_version < _NANOS_SINCE:
        raise InvalidError(
            f"the column {late[0]} has the type {late[1]}, which Iceberg has from format-version 3",
            code="P435",
            hint="create the table with  properties: { format-version: 3 },  or leave out  _ns",
        )


def _unusable(what: str) -> InvalidError:
    hint = "rename or leave out the column in the spec's schema"
    return InvalidError(what, code="P435", hint=hint)


def _fields(struct: Struct, path: str, ids: Iterator[int]) -> list[iceberg.NestedField]:
    fields = []
    for number, field in [(next(ids), field) for field in struct.fields]:
        made = _iceberg_type(field.type, f"{path}{field.name}", ids)
        fields.append(iceberg.NestedField(number, field.name, made, required=field.required))
    return fields


def _iceberg_type(type_: Type, path: str, ids: Iterator[int]) -> iceberg.IcebergType:
    match type_:
        case Struct():
            _check_names(type_, f"{path}.")
            return iceberg.StructType(*_fields(type_, f"{path}.", ids))
        case List():
            number = next(ids)
            element = _iceberg_type(type_.element, f"{path}[]", ids)
            return iceberg.ListType(number, element, element_required=type_.element_required)
        case Map():
            key, value = next(ids), next(ids)
            return iceberg.MapType(
                key,
                _iceberg_type(type_.key, f"{path}{{}}", ids),
                value,
                _iceberg_type(type_.value, f"{path}{{}}", ids),
                value_required=type_.value_required,
            )
        case Decimal():
            return iceberg.DecimalType(type_.precision, type_.scale)
        case Fixed():
            return iceberg.FixedType(type_.length)
        case Kind() if type_ in _TYPES:
            return _TYPES[type_][0]
    fact = f"the column {path} has the type {type_}, which Iceberg cannot hold"
    raise InvalidError(fact, code="P435", hint="give the column a type under schema.hints")


def _core_field(field: iceberg.NestedField, table: str, path: str) -> Field:
    return Field(field.name, _core_type(field.field_type, table, path), field.required)


def _core_type(type_: iceberg.IcebergType, table: str, path: str) -> Type:
    match type_:
        case iceberg.StructType():
            return Struct(tuple(_core_field(f, table, f"{path}.{f.name}") for f in type_.fields))
        case iceberg.ListType():
            element = _core_type(type_.element_type, table, f"{path}[]")
            return List(element, type_.element_required)
        case iceberg.MapType():
            key = _core_type(type_.key_type, table, f"{path}{{}}")
            value = _core_type(type_.value_type, table, f"{path}{{}}")
            return Map(key, value, type_.value_required)
        case _:
            found = scalar_type(str(type_))  # both write types as the specification does
    if found is None:
        fact = f"the column {path} of {table} has the type {type_}, which Penstock cannot write"
        hint = "leave the column out of the table, or land into another one"
        raise InvalidError(fact, code="P435", hint=hint)
    return found


def _arrow_field(field: iceberg.NestedField) -> pa.Field:
    return pa.field(
        field.name,
        arrow_type(field.field_type),
        nullable=not field.required,
        metadata={b"PARQUET:field_id": str(field.field_id).encode()},
    )


def arrow_type(type_: iceberg.IcebergType) -> pa.DataType:
    """Return the Arrow type of a column's rows."""
    match type_:
        case iceberg.StructType():
            return pa.struct([_arrow_field(field) for field in type_.fields])
        case iceberg.ListType():
            return pa.list_(_arrow_field(type_.element_field))
        case iceberg.MapType():
            return pa.map_(_arrow_field(type_.key_field), _arrow_field(type_.value_field))
        case iceberg.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case iceberg.FixedType():
            return pa.binary(len(type_))
        case iceberg.PrimitiveType():
            return _ARROW[type_]
    raise AssertionError(f"an Iceberg type nobody knows: {type_}")
