"""Writes the log entry that adds columns to a table.

Invariants:
- existing columns keep their place, type and metadata: the schema's own JSON is added to;
- what readers or the protocol would have to learn first is refused by name: wider types, columns
  made optional, a first time stamp without zone.

Source: Delta transaction log protocol, "Change Metadata", "Timestamp without timezone".
"""

from __future__ import annotations

import json
import time
from typing import Any

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.schema.column_mapping import LARGEST_ID, is_mapped, mapped_anew
from penstock.connectors.delta.schema.types import delta_json, mapped_json
from penstock.core.errors import InvalidError
from penstock.core.schema import Kind, Schema
from penstock.core.schema_walk import leaves
from penstock.core.version import __version__

_ZONELESS = "timestampNtz"


def schema_entry(name: str, handle: Handle, before: Schema, wide: Schema) -> bytes:
    """Write an entry that adds the columns of a wider schema to a table. Raises InvalidError."""
    if (
        _ZONELESS not in (handle.protocol().writer_features or ())
        and Kind.TIMESTAMP in leaves(wide)
        and Kind.TIMESTAMP not in leaves(before)
    ):
        raise _not_made(name, "a time stamp without zone", "make it a timestamptz by a hint")
    metadata = handle.metadata()
    configuration = dict(metadata.configuration)
    mapped = is_mapped(configuration)
    asked = json.loads(mapped_json(wide) if mapped else delta_json(wide))
    schema = _added(name, json.loads(handle.schema().to_json()), asked)
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
    lines = [{"commitInfo": info}, {"metaData": action}]
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines).encode()


def _added(name: str, old: Any, wide: Any) -> Any:
    match old, wide:
        case {"type": "struct", "fields": list(fields)}, {"type": "struct", "fields": list(more)}:
            asked = {field["name"]: field for field in more}
            kept = [
                {**field, "type": _added(name, field["type"], asked[field["name"]]["type"])}
                for field in fields
            ]
            loosened = [f["name"] for f in fields if asked[f["name"]]["nullable"] != f["nullable"]]
            if loosened:
                raise _not_made(name, f"{loosened[0]} made optional", "make it so by ALTER TABLE")
            for field in fields:
                del asked[field["name"]]
            return {**old, "fields": [*kept, *asked.values()]}
        case {"type": "array"}, {"type": "array"}:
            return {**old, "elementType": _added(name, old["elementType"], wide["elementType"])}
        case {"type": "map"}, {"type": "map"}:
            return {**old, "valueType": _added(name, old["valueType"], wide["valueType"])}
        case _ if old == wide:
            return old
        case _:
            raise _not_made(name, f"{old} widened to {wide}", "set  schema.types: quarantine")


def _not_made(name: str, change: str, hint: str) -> InvalidError:
    return InvalidError(f"{name} cannot be given {change}", code="P468", hint=hint)
