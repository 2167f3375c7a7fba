"""Reads the rows of one data file that are not deleted, with their places; on workers as well.

Invariants:
- rows come in the order of their file, so their places are counted;
- columns are found by field id, as a scan finds them: in files of before a column was renamed,
  added or widened as well;
- those of row ids (schema/row_ids.py) are read by name like others, whole.

Source: Apache Iceberg table specification, "Column Projection".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.read.arrow_scan import MicrosScan
from penstock.connectors.iceberg.read.projection import has_ids, projected, stored_names
from penstock.connectors.iceberg.schema.row_ids import NOTHING_INHERITED, ROW_ID_FIELDS, Inherited
from penstock.connectors.iceberg.schema.types import file_schema, is_unknown
from penstock.core.table_errors import no_column, time_beyond_orc
from penstock.files.positions import NONE, Positions, without
from penstock.files.row_groups import groups_from
from penstock.ports.row_deletes import POSITION, Sought

_BATCH_ROWS = 1 << 16
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A data file, what opens it, and the metadata of its table, snapshots aside."""

    table: str
    io: FileIO
    metadata: TableMetadata
    file: DataFile
    inherited: Inherited = NOTHING_INHERITED


def rows_in(
    source: FileToRead,
    columns: Sequence[str],
    *,
    deleted: Positions = NONE,
    sought: Sought | None = None,
    start: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Read columns of rows that are not deleted, of those sought; the last column is `POSITION`.

    Row groups that end before the place `start` are left out.
    Raises InvalidError (P435): there is no such column at the top; (P299): a time in an ORC file
    that Arrow cannot read; OSError, ValueError.
    """
    by_name = {
        **ROW_ID_FIELDS,
        **{field.name: field for field in source.metadata.schema().fields},
    }
    if missing := [each for each in columns if each not in by_name]:
        raise no_column(source.table, missing[0])
    wanted = Schema(*(by_name[each] for each in dict.fromkeys(columns)))
    types = columns_of(wanted)
    place = pa.field(POSITION, pa.int64(), nullable=False)
    for begun, batch in _batches(source, wanted, types, start):
        arrays = [_array(source, batch, each, begun) for each in types]
        rows = pa.RecordBatch.from_arrays(arrays, schema=types)
        found = np.arange(batch.num_rows) if sought is None else sought(rows)
        places = without(found + begun, deleted)
        if len(places):
            rows = rows if len(places) == batch.num_rows else rows.take(pa.array(places - begun))
            yield rows.append_column(place, pa.array(places))


def _array(source: FileToRead, batch: pa.RecordBatch, field: pa.Field, begun: int) -> pa.Array:
    column = batch.column(field.name).cast(field.type)
    is_of_ids = field.name in ROW_ID_FIELDS
    return source.inherited.filled(field.name, column, begun) if is_of_ids else column


def columns_of(wanted: Schema) -> pa.Schema:
    """Return columns as they are read, without what files say of them."""
    return pa.schema([field.remove_metadata() for field in file_schema(wanted)])


def _batches(
    source: FileToRead, wanted: Schema, types: pa.Schema, start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read columns as the table names them, with the places of first rows; PyIceberg does where a
    file of Parquet has them otherwise, or one of ORC has no ids.

    It takes 3 ms for each file, whatever is read of it.
    """
    file = source.file
    if file.file_format is FileFormat.ORC:
        with source.io.new_input(file.file_path).open() as stream:
            pieces = _pieces_of_orc(stream, wanted)
            if pieces is not None:
                with _times_of_orc(source):
                    yield from _placed(pieces, wanted, types, start)
                return
    if file.file_format is FileFormat.PARQUET:
        with source.io.new_input(file.file_path).open() as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=True)
            names = _names_in(parquet.schema_arrow, wanted, types)
            if names is not None:
                groups, begun = groups_from(parquet, start)
                there = [each for each in names if each is not None]
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=there):
                    yield begun, _named(batch, names, types)
                    begun += batch.num_rows
                return
    begun, scan = 0, MicrosScan(source.metadata, source.io, wanted, AlwaysTrue())
    for batch in scan.to_record_batches([FileScanTask(file)]):
        yield begun, batch
        begun += batch.num_rows


def _named(batch: pa.RecordBatch, names: Sequence[str | None], types: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.nulls(batch.num_rows, kind) if name is None else batch.column(name)
        for name, kind in zip(names, types.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=types.names)


def _pieces_of_orc(stream: Any, wanted: Schema) -> Iterator[pa.RecordBatch] | None:
    """Read what holds the wanted columns of an ORC file; None where it has no field ids."""
    fragment = ds.OrcFileFormat().make_fragment(stream)
    stored = fragment.physical_schema
    if not has_ids(stored):
        return None
    names = stored_names(stored, wanted)
    scanner = ds.Scanner.from_fragment(
        fragment, schema=stored, columns=names, batch_size=_BATCH_ROWS, use_threads=False
    )
    found: Iterator[pa.RecordBatch] = scanner.to_batches()
    return found


def _placed(
    pieces: Iterator[pa.RecordBatch], wanted: Schema, types: pa.Schema, start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    begun = 0
    for each in pieces:
        if begun + each.num_rows > start:
            yield begun, pa.RecordBatch.from_arrays(projected(each, wanted), names=types.names)
        begun += each.num_rows


@contextmanager
def _times_of_orc(source: FileToRead) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        if "out of range for nanosecond" not in str(error):
            raise
        raise time_beyond_orc(source.table, source.file.file_path) from error


def _names_in(stored: pa.Schema, wanted: Schema, types: pa.Schema) -> list[str | None] | None:
    """Return the names of columns in a file, None for one of row ids that it does not have, or of
    no type yet; None where another is not there with the table's type.
    """
    there = {
        field.metadata[_FIELD_ID]: field
        for field in stored
        if field.metadata and _FIELD_ID in field.metadata
    }
    names: list[str | None] = []
    for field, kind in zip(wanted.fields, types.types, strict=True):
        own = there.get(str(field.field_id).encode())
        if is_unknown(field) or (own is None and field in ROW_ID_FIELDS.values()):
            names.append(None)
        elif own is None or own.type != kind:
            return None
        else:
            names.append(own.name)
    return names if any(names) else None
