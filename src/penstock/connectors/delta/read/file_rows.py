"""Reads rows of one data file that are live in a state, with their places; on workers as well.

Invariants:
- a row's place counts all rows that were written into the file, deleted or not, from 0;
- columns are those of the table: by the names that files have them under, of the types that the
  table has, null where a file was written before they were added;
- columns of row ids are read by name like others, whole;
- partition values are in the log, and no file is read for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.delta.files.target import Target
from penstock.connectors.delta.read.bounds import partition_value
from penstock.connectors.delta.read.row_ids import Inherited
from penstock.connectors.delta.schema.types import arrow_schema
from penstock.core import table_errors
from penstock.files.positions import Positions, without
from penstock.files.row_groups import groups_from
from penstock.ports.row_deletes import POSITION, Sought

_BATCH_ROWS = 1 << 16
_ID = pa.int64()


def rows_in(
    file: pa.NativeFile,
    target: Target,
    add: Mapping[str, Any],
    columns: Sequence[str],
    *,
    inherited: Mapping[str, Inherited],
    deleted: Positions,
    sought: Sought | None = None,
    start: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Read columns of a file's rows that are not deleted, of those sought; the last column is their
    `POSITION`.

    Columns of row ids are those with something `inherited`. Row groups that end before the place
    `start` are left out.
    Raises InvalidError (P435 no such column), OSError, ArrowException, ValueError.
    """
    for column in columns:
        if column not in inherited and target.schema.field(column) is None:
            raise table_errors.no_column(target.table, column)
    parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    found = _columns(target, add, columns, inherited)
    yield from _batches(parquet, found, deleted, sought, start)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as it is asked for: its name and type there, and in files; or its only value; or
    what its rows inherit.
    """

    name: str
    type: pa.DataType
    stored_name: str
    stored_type: pa.DataType
    constant: pa.Scalar | None = None
    inherited: Inherited | None = None

    def of(self, batch: pa.RecordBatch, begun: int) -> pa.Array:
        """Return its values for rows of a file from a place on."""
        found = self._held(batch)
        return found if self.inherited is None else self.inherited.filled(found, begun)

    def _held(self, batch: pa.RecordBatch) -> pa.Array:
        """Return what the file holds; members of structs are found by stored names."""
        if self.constant is not None:
            return pa.repeat(self.constant, batch.num_rows)
        if self.stored_name not in batch.schema.names:
            return pa.nulls(batch.num_rows, self.type)
        found = batch.column(self.stored_name).cast(self.stored_type)
        return found if self.stored_type == self.type else found.view(self.type)


def columns_of(target: Target) -> pa.Schema:
    """Return a table's columns as they are read."""
    kinds = arrow_schema(target.schema)
    return pa.schema([pa.field(each.name, _optional(each.type)) for each in kinds])


def _columns(
    target: Target,
    add: Mapping[str, Any],
    names: Sequence[str],
    inherited: Mapping[str, Inherited],
) -> list[_Column]:
    schema, stored = target.schema, target.stored
    types, stored_types = arrow_schema(schema), arrow_schema(stored.schema)
    found = []
    for name in names:
        if name in inherited:
            found.append(_Column(name, _ID, name, _ID, inherited=inherited[name]))
            continue
        there = stored.name_of(schema, name)
        constant = partition_value(add, target, name) if there in target.partition_by else None
        kinds = _optional(types.field(name).type), _optional(stored_types.field(there).type)
        found.append(_Column(name, kinds[0], there, kinds[1], constant))
    return found


def _batches(
    parquet: pq.ParquetFile,
    columns: Sequence[_Column],
    deleted: Positions,
    sought: Sought | None,
    start: int,
) -> Iterator[pa.RecordBatch]:
    there = set(parquet.schema_arrow.names)
    asked = [each.stored_name for each in columns if each.constant is None]
    schema = pa.schema([pa.field(each.name, each.type) for each in columns])
    place = pa.field(POSITION, pa.int64())
    for begun, batch in _read(parquet, [name for name in asked if name in there], start):
        # Cast before rows are taken: deltalake writes views of strings, of which Arrow takes none.
        rows = pa.RecordBatch.from_arrays(
            [each.of(batch, begun) for each in columns], schema=schema
        )
        wanted = np.arange(batch.num_rows) if sought is None else sought(rows)
        places = without(wanted + begun, deleted)
        if len(places):
            rows = rows if len(places) == batch.num_rows else rows.take(pa.array(places - begun))
            yield rows.append_column(place, pa.array(places))


def _optional(kind: pa.DataType) -> pa.DataType:
    """Let no member of a type be required: files of others say so or not as they like."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _optional(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _optional(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_optional(kind.key_type), _optional(kind.item_type))
    return kind


def _read(
    parquet: pq.ParquetFile, columns: Sequence[str], start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read columns, with the places of first rows."""
    if columns:
        groups, begun = groups_from(parquet, start)
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns)):
            yield begun, batch
            begun += batch.num_rows
        return
    rows = parquet.metadata.num_rows
    for begun in range(0, rows, _BATCH_ROWS):
        nothing = pa.nulls(min(_BATCH_ROWS, rows - begun))
        yield begun, pa.RecordBatch.from_arrays([nothing], ["nothing"])
