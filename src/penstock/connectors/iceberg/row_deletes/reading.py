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
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.table_errors import file_missing, no_column
from penstock.files.positions import Positions
from penstock.ports.row_deletes import POSITION, LiveFile

_INT_BYTES = 4
_PLAIN = (iceberg.IntegerType, iceberg.LongType, iceberg.DecimalType, iceberg.StringType)
_OF_TIME = (iceberg.DateType, iceberg.TimestampType, iceberg.TimestamptzType)


def live_files_of(live: LiveRows, schema: Schema) -> list[LiveFile]:
    """List the data files of a snapshot, also those without a live row.

    Raises what `LiveRows.delete_state` raises.
    """
    return [
        LiveFile(
            path,
            entry.data_file.record_count,
            entry.data_file.file_size_in_bytes,
            live.count_deleted(path),
            live.delete_state(path),
            Bounds(entry.data_file, schema),
        )
        for path, entry in live.data.items()
    ]


def rows_of(
    table: Table, live: LiveRows, path: str, columns: Sequence[str], name: str
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of a file that are not deleted; the last column is `POSITION`.

    Raises InvalidError (P435): there is no such column at the top; UnavailableError (P403): the
    file is none of the state's; OSError, ValueError.
    """
    schema = table.schema()
    there = {field.name for field in schema.fields}
    if missing := [each for each in columns if each not in there]:
        raise no_column(name, missing[0])
    if path not in live.data:
        raise file_missing(name, f"{path} is not live")
    by_name = {field.name: field for field in schema.fields}
    wanted = Schema(*(by_name[each] for each in dict.fromkeys(columns)))
    scan = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue())
    types = pa.schema([field.remove_metadata() for field in file_schema(wanted)])
    deleted, start = live.deleted_in(path), 0
    for batch in scan.to_record_batches([FileScanTask(live.data[path].data_file)]):
        kept = kept_of(deleted, start, batch.num_rows)
        start += batch.num_rows
        rows = pa.Table.from_batches([batch]).select(types.names).cast(types)
        rows = rows if len(kept) == batch.num_rows else rows.take(kept - (start - batch.num_rows))
        rows = rows.append_column(pa.field(POSITION, pa.int64(), nullable=False), pa.array(kept))
        yield from rows.combine_chunks().to_batches()


def kept_of(deleted: Positions, start: int, count: int) -> Positions:
    """Return the positions of so many rows from a place on that are not deleted."""
    all_of_them = np.arange(start, start + count, dtype=np.int64)
    first, stop = np.searchsorted(deleted, (start, start + count))
    return np.delete(all_of_them, deleted[first:stop] - start)


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
