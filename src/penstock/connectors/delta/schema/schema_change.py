"""Makes the log entry that adds columns to a table, and gives others wider types.

Invariants:
- existing columns keep their place and metadata: the schema's own JSON is added to;
- a type is widened, or a column made optional, only where the table has type widening enabled, and
  the column says what type it had;
- what readers or the protocol would have to learn first is refused by name: wider types elsewhere,
  a first time stamp without zone.

Source: Delta transaction log protocol, "Change Metadata", "Timestamp without timezone", "Type
Change Metadata".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.schema.column_mapping import LARGEST_ID, is_mapped, mapped_anew
from penstock.connectors.delta.schema.features import TYPE_WIDENING, demanded_by, widens_types
from penstock.connectors.delta.schema.types import delta_json, mapped_json
from penstock.core.errors import InvalidError
from penstock.core.schema import Kind, Schema
from penstock.core.schema_walk import leaves
from penstock.core.version import __version__

_ZONELESS = "timestampNtz"
_TYPE_CHANGES = "delta.typeChanges"


def schema_entry(name: str, handle: Handle, before: Schema, wide: Schema) -> list[dict[str, Any]]:
    """Return an entry that adds the columns of a wider schema to a table. Raises InvalidError."""
    if (
        _ZONELESS not in (handle.protocol().writer_features or ())
        and Kind.TIMESTAMP in leaves(wide)
        and Kind.TIMESTAMP not in leaves(before)
    ):
        raise _not_made(name, "a time stamp without zone", "make it a timestamptz by a hint")
    metadata = handle.metadata()
    configuration = dict(metadata.configuration)
    widens = widens_types(configuration, demanded_by(handle)[1])
    mapped = is_mapped(configuration)
    asked = json.loads(mapped_json(wide) if mapped else delta_json(wide))
    schema = _grown(name, json.loads(handle.schema().to_json()), asked, [] if widens else None)
    if mapped:
        largest = int(configuration.get(LARGEST_ID, "0"))
        schema, largest = mapped_anew(schema, largest)
        configuration[LARGEST_ID] = str(largest)
    action: dict[str, Any] = {
        "id": str(metadata.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": list(metadata.partition_columns),
        "configuration": configuration,
    }
    given = {"name": metadata.name, "description": metadata.description}
    given["createdTime"] = metadata.created_time
    action |= {key: value for key, value in given.items() if value is not None}
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": "ADD COLUMNS",
        "operationParameters": {},
        "engineInfo": f"Penstock/{__version__}",
    }
    return [{"commitInfo": info}, {"metaData": action}]


Changes = list[dict[str, str]] | None
"""Where changes of types are noted; None where none may be made."""


def _grown(name: str, old: Any, wide: Any, changes: Changes = None, *path: str) -> Any:
    """Return a type with all of a wider one; `path` leads to it from the column, through lists and
    maps.
    """
    match old, wide:
        case {"type": "struct", "fields": list(fields)}, {"type": "struct", "fields": list(more)}:
            asked = {field["name"]: field for field in more}
            kept = [_grown_field(name, each, asked.pop(each["name"]), changes) for each in fields]
            return {**old, "fields": [*kept, *asked.values()]}
        case {"type": "array"}, {"type": "array"}:
            element = _grown(
                name, old["elementType"], wide["elementType"], changes, *path, "element"
            )
            return {**old, "elementType": element, "containsNull": wide["containsNull"]}
        case {"type": "map"}, {"type": "map"}:
            value = _grown(name, old["valueType"], wide["valueType"], changes, *path, "value")
            return {**old, "valueType": value, "valueContainsNull": wide["valueContainsNull"]}
        case _ if old == wide:
            return old
        case _ if changes is None:
            hint = f"set  schema.types: quarantine, or {TYPE_WIDENING} = true on it with Spark"
            raise _not_made(name, f"{old} widened to {wide}", hint)
        case _:
            place = {"fieldPath": ".".join(path)} if path else {}
            changes.append({"fromType": old, "toType": wide, **place})
            return wide


def _grown_field(
    name: str, old: Mapping[str, Any], wide: Mapping[str, Any], changes: Changes
) -> dict[str, Any]:
    """Return a member of a struct, which notes the changes that are nearest to it."""
    if changes is None and old["nullable"] != wide["nullable"]:
        raise _not_made(name, f"{old['name']} made optional", "make it so by ALTER TABLE")
    own: Changes = None if changes is None else []
    type_ = _grown(name, old["type"], wide["type"], own)
    grown = {**old, "type": type_, "nullable": wide["nullable"]}
    if not own:
        return grown
    known = old["metadata"].get(_TYPE_CHANGES, [])
    return {**grown, "metadata": {**old["metadata"], _TYPE_CHANGES: [*known, *own]}}


def _not_made(name: str, change: str, hint: str) -> InvalidError:
    return InvalidError(f"{name} cannot be given {change}", code="P468", hint=hint)
