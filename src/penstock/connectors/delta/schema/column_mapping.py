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

from penstock.connectors.delta.schema.types import schema_of
from penstock.core.schema import Schema, Struct

MODE = "delta.columnMapping.mode"
LARGEST_ID = "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_NAME = "delta.columnMapping.physicalName"


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
    renamed = json.dumps(json.loads(text, object_hook=_physical))
    return Stored(schema_of(renamed, "the table", {}), tuple(_ids(json.loads(text))))


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the names of a schema of the same shape; values are not copied."""
    columns = zip(batch.columns, schema.types, strict=True)
    return pa.RecordBatch.from_arrays([each.view(type_) for each, type_ in columns], schema=schema)


def mapped_anew(schema: Mapping[str, Any], largest: int) -> tuple[dict[str, Any], int]:
    """Return a schema's JSON with ids above `largest`, and names, for columns without.

    Return the largest id as well then.
    """
    ids = itertools.count(largest + 1)
    mapped = _mapped(schema, ids)
    return mapped, next(ids) - 1


def _path_in(stored: Struct, schema: Struct, column: str) -> str:
    """Find a column, with a name that may hold dots itself; "" when there is none."""
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


def _physical(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "name": data["metadata"][_NAME]} if "nullable" in data else data


def _ids(data: Any) -> Iterator[int]:
    match data:
        case {"type": "struct"}:
            for field in data["fields"]:
                yield int(field["metadata"][_ID])
                yield from _ids(field["type"])
        case {"type": "array"}:
            yield from _ids(data["elementType"])
        case {"type": "map"}:
            yield from _ids(data["keyType"])
            yield from _ids(data["valueType"])
