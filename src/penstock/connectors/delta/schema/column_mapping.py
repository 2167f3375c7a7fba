"""Column mapping: names and ids under which a table's files hold its columns.

Invariants:
- files, statistics and partition values bear physical names only, so a column that others rename
  meanwhile stays the same column;
- every member of a struct has its id in the Parquet schema, in both modes; a new column gets an id
  above all ids ever given and a name that no other column has had.

Source: Delta transaction log protocol, "Column Mapping", "Writer Requirements for Column Mapping".
"""

from __future__ import annotations

import itertools
import json
import secrets as tokens
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connectors.delta.schema.types import arrow_schema
from penstock.core.schema import Field, List, Map, Schema, Struct, Type

MODE = "delta.columnMapping.mode"
LARGEST_ID = "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_NAME = "delta.columnMapping.physicalName"
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Stored:
    """A table's columns as its files hold them; `ids` of all struct members from the top down.

    Without mapping the names are the columns' own, and there are no ids.
    """

    schema: Schema
    ids: tuple[int, ...] = ()

    def name_of(self, schema: Schema, column: str) -> str:
        """Return the name under which files hold a column of the table's schema, by dotted path."""
        return _path_in(self.schema, schema, column) or column


def is_mapped(configuration: Mapping[str, str]) -> bool:
    """Return whether a table maps its columns."""
    return configuration.get(MODE, "none") != "none"


def stored_as(text: str, schema: Schema, configuration: Mapping[str, str]) -> Stored:
    """Return the columns of a schema string as files hold them."""
    if not is_mapped(configuration):
        return Stored(schema)
    fields = json.loads(text)["fields"]
    return Stored(_renamed(fields, schema), tuple(_ids(fields)))


def stored_schema(stored: Stored) -> pa.Schema:
    """Return the Arrow schema of data files, with ids where columns are mapped."""
    plain = arrow_schema(stored.schema)
    if not stored.ids:
        return plain
    ids = iter(stored.ids)
    return pa.schema([_with_ids(field, ids) for field in plain])


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the names of a schema of the same shape; values are not copied."""
    columns = [
        _named(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def mapped_anew(schema: Mapping[str, Any], largest: int) -> tuple[dict[str, Any], int]:
    """Return a schema's JSON with ids above `largest`, and names, for columns without.

    Also gives the largest id then.
    """
    ids = itertools.count(largest + 1)
    mapped = _mapped(schema, ids)
    return mapped, next(ids) - 1


def _path_in(stored: Struct, schema: Struct, column: str) -> str:
    """Find a column, whose name may hold dots itself; "" when there is none."""
    for own, field in zip(stored.fields, schema.fields, strict=True):
        if field.name == column:
            return own.name
        rest = column.removeprefix(f"{field.name}.")
        if rest != column and isinstance(own.type, Struct) and isinstance(field.type, Struct):
            below = _path_in(own.type, field.type, rest)
            if below:
                return f"{own.name}.{below}"
    return ""


def _mapped(data: Any, ids: Iterator[int]) -> Any:
    match data:
        case {"type": "struct", "fields": list(fields)}:
            return {**data, "fields": [_mapped_field(each, ids) for each in fields]}
        case {"type": "array", "elementType": element}:
            return {**data, "elementType": _mapped(element, ids)}
        case {"type": "map", "valueType": value}:
            return {**data, "valueType": _mapped(value, ids)}
        case _:
            return data


def _mapped_field(field: Mapping[str, Any], ids: Iterator[int]) -> dict[str, Any]:
    metadata = dict(field["metadata"])
    if _ID not in metadata:
        metadata |= {_ID: next(ids), _NAME: f"col-{tokens.token_hex(16)}"}
    return {**field, "type": _mapped(field["type"], ids), "metadata": metadata}


def _renamed(fields: list[Mapping[str, Any]], struct: Struct) -> Struct:
    return Struct(
        tuple(
            Field(field["metadata"][_NAME], _renamed_type(field["type"], own.type), own.required)
            for field, own in zip(fields, struct.fields, strict=True)
        )
    )


def _renamed_type(data: Any, type_: Type) -> Type:
    match type_:
        case Struct():
            return _renamed(data["fields"], type_)
        case List():
            return List(_renamed_type(data["elementType"], type_.element), type_.element_required)
        case Map():
            key = _renamed_type(data["keyType"], type_.key)
            return Map(key, _renamed_type(data["valueType"], type_.value), type_.value_required)
        case _:
            return type_


def _ids(fields: list[Mapping[str, Any]]) -> Iterator[int]:
    for field in fields:
        yield int(field["metadata"][_ID])
        yield from _ids_in(field["type"])


def _ids_in(data: Any) -> Iterator[int]:
    match data:
        case {"type": "struct"}:
            yield from _ids(data["fields"])
        case {"type": "array"}:
            yield from _ids_in(data["elementType"])
        case {"type": "map"}:
            yield from _ids_in(data["keyType"])
            yield from _ids_in(data["valueType"])


def _with_ids(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    number = str(next(ids)).encode()
    return field.with_type(_type_with_ids(field.type, ids)).with_metadata({_FIELD_ID: number})


def _type_with_ids(type_: pa.DataType, ids: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_with_ids(field, ids) for field in type_])
    if pa.types.is_map(type_):
        key = _type_with_ids(type_.key_type, ids)
        return pa.map_(key, type_.item_field.with_type(_type_with_ids(type_.item_type, ids)))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_type_with_ids(type_.value_type, ids)))
    return type_


def _named(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_ and not type_.num_fields:
        return array
    mask = array.is_null()
    if pa.types.is_struct(type_):
        members = [_named(array.field(n), field.type) for n, field in enumerate(type_)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=mask)
    offsets = pa.array(array.offsets.to_numpy())  # a slice's own, from its first element on
    if pa.types.is_map(type_):
        keys, items = _named(array.keys, type_.key_type), _named(array.items, type_.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)
    values = _named(array.values, type_.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=mask)
