"""File descriptions: on the worker from a footer, on the driver back to what the log takes.

The library accepts any `add` and lets it hurt at read time (protocol.md 5): a missing
column, a wrong partition, a path elsewhere. So a description is checked whole before it is sent.

Invariant: a path that goes into the log is a plain name in the table's own directory.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connectors.delta.files.target import Target
from penstock.core.commits import DataFile
from penstock.core.schema import Field, Schema, type_to_json
from penstock.core.table_errors import file_rejected

DESCRIPTION_VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,239}\.parquet")


def detail_of(
    columns: Schema, partition: Mapping[str, str | None], modified_ms: int, statistics: str
) -> str:
    """Write the connector's part of a description."""
    data = {
        "v": DESCRIPTION_VERSION,
        "columns": [_print(field) for field in columns.fields],
        "partition": dict(partition),
        "modified_ms": modified_ms,
        "stats": statistics,
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def additions(files: Sequence[DataFile], target: Target) -> list[dict[str, Any]]:
    """Check descriptions against a table and return the `add` actions of its log.

    Raises InvalidError (P439): the file was written for another table or another shape of it.
    """
    columns = target.stored.schema.fields
    known = {_print(field) for field in columns}
    required = {
        _print(field): field.name
        for field in columns
        if field.required and field.name not in target.partition_by
    }
    found = [_addition(file, target, known, required) for file in files]
    if len({each["path"] for each in found}) != len(found):
        raise file_rejected(files[0].path, target.table, "a file of its commit appears twice")
    return found


def _addition(
    file: DataFile, target: Target, known: set[int], required: Mapping[int, str]
) -> dict[str, Any]:
    try:
        detail: dict[str, Any] = json.loads(file.detail)
        statistics = json.loads(detail["stats"])
        if detail["v"] > DESCRIPTION_VERSION:
            raise file_rejected(
                file.path, target.table, f"its description has version {detail['v']}"
            )
        if statistics["numRecords"] != file.record_count or file.size_bytes <= 0:
            raise file_rejected(file.path, target.table, "its counts differ")
        if list(detail["partition"]) != list(target.partition_by):
            raise file_rejected(file.path, target.table, "it was written for another partitioning")
        # A file may lack columns added since, never hold one dropped since.
        held = set(detail["columns"])
        if held - known:
            raise file_rejected(file.path, target.table, "it holds columns the table lost")
        if lacking := required.keys() - held:
            names = ", ".join(sorted(required[each] for each in lacking))
            raise file_rejected(file.path, target.table, f"it lacks the required columns {names}")
        path = relative(file.path, target.location)
        if not path:
            raise file_rejected(file.path, target.table, "it is not in the table's directory")
        return {
            "path": path,
            "partitionValues": detail["partition"],
            "size": file.size_bytes,
            "modificationTime": int(detail["modified_ms"]),
            "dataChange": True,
            "stats": detail["stats"],
        }
    except (ValueError, KeyError, TypeError) as error:
        raise file_rejected(
            file.path, target.table, f"{type(error).__name__}: {str(error)[:120]}"
        ) from error


def relative(path: str, location: str) -> str:
    """Return a file's name in the table's directory, "" when it is not one of ours there."""
    name = path.removeprefix(f"{location}/")
    return name if name != path and NAME.fullmatch(name) else ""


def _print(field: Field) -> int:
    # Name and type, not whether it is required.
    text = json.dumps([field.name, type_to_json(field.type)])
    return zlib.crc32(text.encode())
