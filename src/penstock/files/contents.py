"""Reads what a data file holds, for comparing it with what metadata says of it.

Invariants:
- a file is read a few rows at a time, about `_BATCH_BYTES` of them, and only in columns that
  something is said of;
- a column that was added after a file was written is null in it; where a file does not name its
  columns (no field ids, and another name), the column is left out;
- a type that was widened since compares by its numbers, and a date as a time.

Source: Parquet format, "Logical Types"; Apache Iceberg table specification, "Column Projection".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.schema import Kind
from penstock.core.statistics import (
    ColumnContents,
    FileContents,
    FileStatistics,
    Leaf,
    PartitionValue,
    is_same_value,
)

_BATCH_BYTES = 16 << 20
_BATCH_ROWS_MAX = 65_536
_READ_BYTES = 1 << 20
_DISTINCT_MAX = 8
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
_NANOS = (Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS)
_FIELD_ID = b"PARQUET:field_id"
_DAY_MS = 86_400_000


@dataclass(slots=True)
class _Partition:
    """Gathers a few distinct values of one partition field: that it says, and others."""

    stated: PartitionValue
    distinct: list[Any] = field(default_factory=list)

    def take(self, column: pa.Array) -> None:
        try:
            values: list[Any] = pc.unique(self.stated.derived(column)).to_pylist()
        except ValueError as error:
            # A row has no value, so no metadata can be right. Iceberg's Java library wraps it
            # around, into a partition that no filter reads.
            values = [str(error)]
        for value in values:
            known = any(is_same_value(value, each) for each in self.distinct)
            if not known and len(self.distinct) < _DISTINCT_MAX:
                self.distinct.append(value)


def contents_of(source: pa.NativeFile | BinaryIO, stated: FileStatistics) -> FileContents:
    """Read what a Parquet file holds of what is said of it.

    Raises OSError, and ArrowException for what is no Parquet file, or a damaged one.
    """
    size_bytes = _size_of(source)
    file = pq.ParquetFile(
        source, coerce_int96_timestamp_unit="us", buffer_size=_READ_BYTES, pre_buffer=False
    )
    leaves = {each.column for each in stated.columns} | {each.column for each in stated.partition}
    placed = _placed(leaves, file.schema_arrow)
    there = {leaf: place for leaf, place in placed.items() if place}
    columns = {each.column: ColumnContents() for each in stated.columns}
    partition = [_Partition(each) for each in stated.partition if each.column in there]
    for batch in _batches(file, sorted({".".join(place) for place in there.values()})):
        arrays = {leaf: _widened(_reached(batch, at), leaf) for leaf, at in there.items()}
        for leaf in columns.keys() & arrays.keys():
            columns[leaf] += _summary(arrays[leaf])
        for each in partition:
            each.take(arrays[each.stated.column])
    records = file.metadata.num_rows
    for leaf in columns.keys() - there.keys():
        columns[leaf] = ColumnContents(values=records, nulls=records)
    found = {leaf: each for leaf, each in columns.items() if placed[leaf] is not None}
    values = {each.stated.name: tuple(each.distinct) for each in partition}
    return FileContents(records, size_bytes, found, values)


def _size_of(source: pa.NativeFile | BinaryIO) -> int:
    """Return a file's bytes; PyArrow seeks to no end of a file in Google's storage."""
    if isinstance(source, pa.NativeFile):
        return int(source.size())
    source.seek(0, 2)
    size_bytes = source.tell()
    source.seek(0)
    return size_bytes


def _placed(leaves: set[Leaf], schema: pa.Schema) -> dict[Leaf, tuple[str, ...] | None]:
    """Return the path of each column in a file, () where it has none, None where unknown."""
    walked = list(_walked(schema, ()))
    known = {path for path, _ in walked}
    paths = {number: path for path, number in walked if number is not None}

    def place(leaf: Leaf) -> tuple[str, ...] | None:
        if leaf.field_id is not None and paths:
            return paths.get(leaf.field_id, ())
        if leaf.path in known:
            return leaf.path
        return () if leaf.field_id is None else None

    return {leaf: place(leaf) for leaf in leaves}


def _walked(
    fields: pa.Schema | pa.StructType, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for each in fields:
        path = (*above, each.name)
        number = (each.metadata or {}).get(_FIELD_ID)
        yield path, None if number is None else int(number)
        if pa.types.is_struct(each.type):
            yield from _walked(each.type, path)


def _batches(file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Read columns, as many rows at a time as their size allows, one row group after another."""
    for group in range(file.num_row_groups if columns else 0):
        stated = file.metadata.row_group(group)
        rows = max(1, stated.num_rows * _BATCH_BYTES // max(1, stated.total_byte_size))
        yield from file.iter_batches(
            min(rows, _BATCH_ROWS_MAX), row_groups=[group], columns=columns
        )


def _reached(batch: pa.RecordBatch, place: tuple[str, ...]) -> pa.Array:
    top, *below = place
    column = batch.column(batch.schema.get_field_index(top))
    column = pc.struct_field(column, below) if below else column  # null where a struct above is
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _widened(column: pa.Array, leaf: Leaf) -> pa.Array:
    """Return times for dates, where the column has become one of times since, and the counts of
    nanoseconds, which metadata has of such a column.
    """
    if leaf.kind in _NANOS and pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    since = leaf.kind is Kind.TIMESTAMP and pa.types.is_date(column.type)
    return column.cast(pa.timestamp("us")) if since else column


def _summary(column: pa.Array) -> ColumnContents:
    nans = 0
    values = comparable(column)
    if pa.types.is_floating(values.type):
        is_nan = pc.is_nan(values)
        nans = is_nan.true_count
        values = values.filter(pc.invert(is_nan)) if nans else values
    ends = pc.min_max(values).as_py() if values.type != pa.null() else {"min": None, "max": None}
    return ColumnContents(
        len(column), column.null_count, nans, _plain(ends["min"]), _plain(ends["max"])
    )


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def comparable(column: pa.Array) -> pa.Array:
    """Return a column's values as `core.statistics.Value` has them."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return (column.cast(pa.int32()) if pa.types.is_date32(kind) else column).cast(pa.int64())
    if pa.types.is_date64(kind):
        return pc.divide(column.cast(pa.int64()), _DAY_MS)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        numbers = column.cast(width).cast(pa.int64())
        if kind.unit == "ns":
            rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 1000), 1000))
            rest = pc.if_else(pc.less(rest, 0), pc.add(rest, 1000), rest)  # before 1970
            return pc.divide(pc.subtract(numbers, rest), 1000)
        return pc.multiply(numbers, _MICROSECONDS[kind.unit])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column
