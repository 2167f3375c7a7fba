"""File descriptions: on the worker from a footer, on the driver back to what the log takes.

The library accepts any `add` and lets it hurt at read time (protocol.md 5): a missing
column, a wrong partition, a path elsewhere. So a description is checked whole before it is sent.

Invariant: `Addition.path` is a plain name in the table's own directory.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.commits import DataFile
from penstock.core.schema import Field, Schema, type_to_json
from penstock.core.table_errors import unfit

DESCRIPTION_VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,239}\.parquet")


@dataclass(frozen=True, slots=True)
class Addition:
    """What the log takes of one file."""

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]
    modified_ms: int
    statistics: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What files of a table must fit: where it is, its columns, what it is partitioned by."""

    table: str
    location: str
    schema: Schema
    partition_by: tuple[str, ...]


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


def additions(files: Sequence[DataFile], shape: Shape) -> list[Addition]:
    """Check descriptions against a table and give what the log takes.

    Raises InvalidError (P439): the file was written for another table or another shape of it.
    """
    known = {_print(field) for field in shape.schema.fields}
    required = {
        _print(field): field.name
        for field in shape.schema.fields
        if field.required and field.name not in shape.partition_by
    }
    found = [_addition(file, shape, known, required) for file in files]
    if len({each.path for each in found}) != len(found):
        raise unfit(files[0].path, shape.table, "a file of its commit appears twice")
    return found


def _addition(
    file: DataFile, shape: Shape, known: set[int], required: Mapping[int, str]
) -> Addition:
    try:
        detail: dict[str, Any] = json.loads(file.detail)
        statistics = json.loads(detail["stats"])
        if detail["v"] > DESCRIPTION_VERSION:
            raise unfit(file.path, shape.table, f"its description has version {detail['v']}")
        if statistics["numRecords"] != file.record_count or file.size_bytes <= 0:
            raise unfit(file.path, shape.table, "its counts differ")
        if list(detail["partition"]) != list(shape.partition_by):
            raise unfit(file.path, shape.table, "it was written for another partitioning")
        # A file may lack columns added since, never hold one dropped since.
        held = set(detail["columns"])
        if held - known:
            raise unfit(file.path, shape.table, "it holds columns the table lost")
        if lacking := required.keys() - held:
            names = ", ".join(sorted(required[each] for each in lacking))
            raise unfit(file.path, shape.table, f"it lacks the required columns {names}")
        path = relative(file.path, shape.location)
        if not path:
            raise unfit(file.path, shape.table, "it is not in the table's directory")
        return Addition(
            path=path,
            size_bytes=file.size_bytes,
            partition=detail["partition"],
            modified_ms=int(detail["modified_ms"]),
            statistics=detail["stats"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise unfit(
            file.path, shape.table, f"{type(error).__name__}: {str(error)[:120]}"
        ) from error


def relative(path: str, location: str) -> str:
    """Return a file's name in the table's directory, "" when it is not one of ours there."""
    name = path.removeprefix(f"{location}/")
    return name if name != path and NAME.fullmatch(name) else ""


def _print(field: Field) -> int:
    """Return a short fingerprint of a column: its name and type, not whether it is required."""
    text = json.dumps([field.name, type_to_json(field.type)])
    return zlib.crc32(text.encode())
