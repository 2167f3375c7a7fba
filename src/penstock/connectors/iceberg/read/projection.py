"""Turns columns of ORC files into those of a table, by field id.

Invariants:
- a column is found by its id alone, nested ones as well, whatever its name and wherever it was;
- a column that a file lacks has its default for files that lack it, else null;
- times are micros or nanoseconds as the table says, though Arrow reads those of ORC in
  nanoseconds.

Source: Apache Iceberg table specification, "Column Projection", "Schema Evolution".
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from penstock.connectors.iceberg.schema.orc_types import FIELD_ID
from penstock.connectors.iceberg.schema.types import arrow_type


def has_ids(stored: pa.Schema) -> bool:
    """Return whether the columns of a file bear field ids; those that were imported have none."""
    return all(FIELD_ID in (field.metadata or {}) for field in stored)


def stored_names(stored: pa.Schema, wanted: Schema) -> list[str]:
    """Name the columns of a file that hold wanted ones."""
    ids = {_key(field) for field in wanted.fields}
    return [field.name for field in stored if (field.metadata or {}).get(FIELD_ID) in ids]


def projected(batch: pa.RecordBatch, wanted: Schema) -> list[pa.Array]:
    """Return the wanted columns of a batch. Raises ValueError: a value does not fit its type."""
    return _fields(batch.columns, batch.schema, wanted.fields, batch.num_rows)


def _fields(
    arrays: Iterable[pa.Array],
    stored: Iterable[pa.Field],
    wanted: Iterable[iceberg.NestedField],
    rows: int,
) -> list[pa.Array]:
    there = {
        (field.metadata or {}).get(FIELD_ID): array
        for array, field in zip(arrays, stored, strict=True)
    }
    return [
        _missing(field, rows) if (own := there.get(_key(field))) is None else _value(own, field)
        for field in wanted
    ]


def _missing(field: iceberg.NestedField, rows: int) -> pa.Array:
    kind = arrow_type(field.field_type)
    if field.initial_default is None:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(field.initial_default, kind), rows)


def _value(array: pa.Array, field: iceberg.NestedField) -> pa.Array:
    kind, type_ = field.field_type, arrow_type(field.field_type)
    match kind:
        case iceberg.StructType():
            members = _fields(array.flatten(), array.type, kind.fields, len(array))
            return pa.StructArray.from_arrays(members, fields=[*type_], mask=array.is_null())
        case iceberg.ListType():
            whole = pa.concat_arrays([array])
            items = _value(whole.values, kind.element_field)
            mask = whole.is_null()
            return pa.ListArray.from_arrays(whole.offsets, items, type=type_, mask=mask)
        case iceberg.MapType():
            whole = pa.concat_arrays([array])
            keys, items = _value(whole.keys, kind.key_field), _value(whole.items, kind.value_field)
            mask = whole.is_null()
            return pa.MapArray.from_arrays(whole.offsets, keys, items, type=type_, mask=mask)
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp(type_.unit, array.type.tz), safe=False).cast(type_)
    return array.cast(type_)


def _key(field: iceberg.NestedField) -> bytes:
    return str(field.field_id).encode()
