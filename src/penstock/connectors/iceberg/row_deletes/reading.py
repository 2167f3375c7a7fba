"""Lists live data files, and reads the rows of one that are not deleted, with their places.

Invariant: bounds may be wider than what a file holds, never narrower; floats have none, for NaN is
in none.

Source: Apache Iceberg table specification, "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from penstock.connectors.iceberg.files.manifest_entries import inherited_by
from penstock.connectors.iceberg.read.file_rows import FileToRead, rows_in
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.table_errors import file_missing
from penstock.ports.row_deletes import LiveFile, Sought

_INT_BYTES = 4
_PLAIN = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType, iceberg.StringType)
_OF_TIME = (iceberg.DateType, iceberg.TimestampType, iceberg.TimestamptzType)


def live_files_of(live: LiveRows, schema: Schema) -> list[LiveFile]:
    """List the data files of a snapshot, also those without a live row.

    Raises what `LiveRows.delete_state` raises.
    """
    names = {field.field_id: field.name for field in schema.fields}
    return [
        LiveFile(
            path,
            entry.data_file.record_count,
            entry.data_file.file_size_in_bytes,
            live.count_deleted(path),
            live.delete_state(path),
            Bounds(entry.data_file, schema),
            _nulls_in(entry.data_file, names),
        )
        for path, entry in live.data.items()
    ]


def _nulls_in(file: DataFile, names: Mapping[int, str]) -> dict[str, int]:
    counts = file.null_value_counts or {}
    return {name: counts[number] for number, name in names.items() if number in counts}


def rows_of(
    table: Table,
    live: LiveRows,
    path: str,
    columns: Sequence[str],
    name: str,
    *,
    sought: Sought | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of a file that are not deleted, of those sought; the last column is
    `POSITION`.

    Raises what `rows_in` raises, and UnavailableError (P403): the file is none of the state's.
    """
    if path not in live.data:
        raise file_missing(name, f"{path} is not live")
    deleted, entry = live.deleted_in(path), live.data[path]
    inherited = inherited_by(entry)
    source = FileToRead(name, table.io, table.metadata, entry.data_file, inherited)
    yield from rows_in(source, columns, deleted=deleted, sought=sought)


class Bounds(Mapping[str, tuple[Any, Any]]):
    """Least and greatest values of a file's columns, as Arrow returns them to Python.

    They are decoded when asked for: a turn lists many files and reads few columns.
    """

    def __init__(self, file: DataFile, schema: Schema) -> None:
        self._lower: Mapping[int, bytes] = file.lower_bounds or {}
        self._upper: Mapping[int, bytes] = file.upper_bounds or {}
        self._schema = schema

    def __getitem__(self, name: str) -> tuple[Any, Any]:
        """Return the bounds of a column at the top. Raises KeyError where they are not known."""
        field = next((each for each in self._schema.fields if each.name == name), None)
        if field is None or not (kind := _bounded(field.field_type)):
            raise KeyError(name)
        try:
            raws = self._lower[field.field_id], self._upper[field.field_id]
            return _decoded(kind, raws[0]), _decoded(kind, raws[1])
        except (KeyError, ValueError, OverflowError, struct.error):
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        """Yield the names of columns with known bounds."""
        for field in self._schema.fields:
            if field.name in self:
                yield field.name

    def __len__(self) -> int:
        """Count them."""
        return sum(1 for _ in self)


def _bounded(kind: iceberg.IcebergType) -> iceberg.PrimitiveType | None:
    return kind if isinstance(kind, (*_PLAIN, *_OF_TIME)) else None


def _decoded(kind: iceberg.PrimitiveType, raw: bytes) -> Any:
    """Decode a bound. Raises ValueError, struct.error; OverflowError: Python has no such year.

    A file of before its column was widened has the shorter form.
    """
    if isinstance(kind, iceberg.LongType) and len(raw) == _INT_BYTES:
        return from_bytes(iceberg.IntegerType(), raw)
    value: Any = from_bytes(kind, raw)
    if isinstance(kind, _OF_TIME):
        [field] = file_schema(Schema(iceberg.NestedField(1, "it", kind)))
        return pa.scalar(value, field.type).as_py()
    return value
