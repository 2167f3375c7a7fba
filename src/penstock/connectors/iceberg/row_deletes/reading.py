"""Lists live data files, and reads the rows of one that are not deleted, with their places.

Invariants:
- rows come in the order of their file, so their places are counted;
- columns are found by field id, as a scan finds them: in files of before a column was renamed,
  added or widened as well;
- bounds may be wider than what a file holds, never narrower; floats have none, for NaN is in none.

Source: Apache Iceberg table specification, "Column Projection", "Appendix D: Single-value
serialization".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.table_errors import file_missing, no_column
from penstock.files.positions import NONE, Positions, without
from penstock.ports.row_deletes import POSITION, LiveFile, Sought

_BATCH_ROWS = 1 << 16
_FIELD_ID = b"PARQUET:field_id"
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
    file, deleted = live.data[path].data_file, live.deleted_in(path)
    yield from rows_in(table, file, columns, name, deleted=deleted, sought=sought)


def rows_in(
    table: Table,
    file: DataFile,
    columns: Sequence[str],
    name: str,
    *,
    deleted: Positions = NONE,
    sought: Sought | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of a file but for some, of those sought; the last column is
    `POSITION`.

    Raises InvalidError (P435): there is no such column at the top; OSError, ValueError.
    """
    by_name = {field.name: field for field in table.schema().fields}
    if missing := [each for each in columns if each not in by_name]:
        raise no_column(name, missing[0])
    wanted = Schema(*(by_name[each] for each in dict.fromkeys(columns)))
    types = pa.schema([field.remove_metadata() for field in file_schema(wanted)])
    place, start = pa.field(POSITION, pa.int64(), nullable=False), 0
    for batch in _batches(table, file, wanted, types):
        columns = [batch.column(each.name).cast(each.type) for each in types]
        rows = pa.RecordBatch.from_arrays(columns, schema=types)
        found = np.arange(batch.num_rows) if sought is None else sought(rows)
        places = without(found + start, deleted)
        if len(places):
            rows = rows if len(places) == batch.num_rows else rows.take(pa.array(places - start))
            yield rows.append_column(place, pa.array(places))
        start += batch.num_rows


def _batches(
    table: Table, file: DataFile, wanted: Schema, types: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read columns as the table names them; PyIceberg does where a file has them otherwise.

    It takes 3 ms for each file, whatever is read of it.
    """
    if file.file_format is FileFormat.PARQUET:
        with table.io.new_input(file.file_path).open() as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=True)
            names = _names_in(parquet.schema_arrow, wanted, types)
            if names is not None:
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=names):
                    yield batch.select(names).rename_columns(types.names)
                return
    scan = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue())
    yield from scan.to_record_batches([FileScanTask(file)])


def _names_in(stored: pa.Schema, wanted: Schema, types: pa.Schema) -> list[str] | None:
    """Return the names of columns in a file; None where one is not there with the table's type."""
    there = {
        field.metadata[_FIELD_ID]: field
        for field in stored
        if field.metadata and _FIELD_ID in field.metadata
    }
    names = []
    for field, kind in zip(wanted.fields, types.types, strict=True):
        own = there.get(str(field.field_id).encode())
        if own is None or own.type != kind:
            return None
        names.append(own.name)
    return names or None


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
        except (KeyError, ValueError, struct.error):
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
    """Decode a bound. Raises ValueError, struct.error.

    A file of before its column was widened has the shorter form.
    """
    if isinstance(kind, iceberg.LongType) and len(raw) == _INT_BYTES:
        return from_bytes(iceberg.IntegerType(), raw)
    value: Any = from_bytes(kind, raw)
    if isinstance(kind, _OF_TIME):
        [field] = file_schema(Schema(iceberg.NestedField(1, "it", kind)))
        return pa.scalar(value, field.type).as_py()
    return value
