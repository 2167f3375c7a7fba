"""Reads the files that a checkpoint names as live, with all that it says of them.

Invariant: statistics and partition values may stand in a checkpoint as texts, as values of columns,
or as both. The latter are given as numbers and bytes (`core.statistics.Value`), since Python cannot
hold them all: times after the year 9999.

Source: Delta transaction log protocol, "Checkpoint Schema", "Per-file Statistics".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.files.contents import comparable

PARSED = "stats_parsed"
PARTITION_PARSED = "partitionValues_parsed"
_READ = ("add.path", "add.partitionValues", "add.size", "add.stats", "sidecar.path")
_IN_COLUMNS = (f"add.{PARSED}", f"add.{PARTITION_PARSED}")


def rows_of(file: pa.NativeFile) -> list[dict[str, Any]]:
    """Return the `add` and `sidecar` actions of a checkpoint's Parquet file, a row each.

    Raises OSError, and ArrowException for a damaged one.
    """
    checkpoint = pq.ParquetFile(file)
    rows: list[dict[str, Any]] = checkpoint.read(columns=_READ).to_pylist()
    parsed = checkpoint.read(columns=_IN_COLUMNS)
    if "add" in parsed.column_names:
        held = (each for chunk in parsed["add"].chunks for each in _values(chunk))
        for row, more in zip(rows, held, strict=True):
            if row.get("add") and more:
                row["add"] |= more
    return rows


def _values(column: pa.Array) -> list[Any]:
    """Return values of a column, of a struct as dictionaries; lists and maps have no statistics."""
    kind = column.type
    if pa.types.is_struct(kind):
        members = [_values(column.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = zip(*members, strict=True) if members else [()] * len(column)
        known = column.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if there else None
            for row, there in zip(rows, known, strict=True)
        ]
    if pa.types.is_nested(kind):
        return [None] * len(column)
    return [int(v) if isinstance(v, bool) else v for v in comparable(column).to_pylist()]
