"""Computes partition values of whole batches and splits batches by them.

Invariants:
- values are those of the Iceberg specification, in its internal form: days and microseconds as
  integers, bytes for binary, fixed and uuid, None for null;
- a value that is rounded down to none of its type raises ValueError: Iceberg's Java library wraps
  such numbers around, into a partition that no filter searches for them. Records that hold one are
  rejected before (`least_values`);
- the partition of -0.0 is that of 0.0, for a filter at zero means both, and readers order the two;
  NaN have one partition, and are one object, so that a dictionary knows it again.

Source: Apache Iceberg table specification, "Partition Transforms" and "Appendix B: 32-bit Hash
Requirements".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_PREC, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import SortField
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from penstock.files.partitions import split_rows
from penstock.ports.tables import ColumnPath

KNOWN_TRANSFORMS = (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
_CALENDAR: dict[type[Transform[Any, Any]], str] = {
    YearTransform: "datetime64[Y]",
    MonthTransform: "datetime64[M]",
}
_MICROSECONDS: dict[type[Transform[Any, Any]], int] = {
    DayTransform: 86_400_000_000,
    HourTransform: 3_600_000_000,
}
_NANOSECONDS = 1000
"""Those of a microsecond."""
_WHOLE = (iceberg.IntegerType, iceberg.LongType)
_TIMES = (
    iceberg.TimeType,
    iceberg.TimestampType,
    iceberg.TimestamptzType,
    iceberg.TimestampNanoType,
    iceberg.TimestamptzNanoType,
)
_EXACT = Context(prec=MAX_PREC)
_Numbers = npt.NDArray[Any]


def splitter(
    spec: PartitionSpec, schema: IcebergSchema
) -> Callable[[pa.RecordBatch], Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]]:
    """Return what yields the values and the rows of each partition in a batch."""
    values_of = partition_columns(spec, schema)

    def split(batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        if not spec.fields or not batch.num_rows:
            yield (None,) * len(spec.fields), batch
            return
        encoded = [_encoded(each).dictionary_encode("encode") for each in values_of(batch)]
        yield from split_rows(batch, encoded, [_known(each.dictionary) for each in encoded])

    return split


def partition_columns(
    spec: PartitionSpec, schema: IcebergSchema
) -> Callable[[pa.RecordBatch], list[pa.Array]]:
    """Return what computes the values of each partition field for the rows of a batch."""
    parts = [_part(field, schema) for field in spec.fields]
    return lambda batch: [transform(column_at(batch, path)) for path, transform in parts]


def least_values(spec: PartitionSpec, schema: IcebergSchema) -> dict[ColumnPath, Decimal]:
    """Return, by path through structs, the least values that truncation keeps in a column's type.

    What is lower wraps around in Iceberg's own implementation, so that no filter finds it, or is
    more than a manifest's decimal holds. Source: `TruncateUtil`, `DecimalUtil` of Apache Iceberg.
    """
    found: dict[ColumnPath, Decimal] = {}
    for field in spec.fields:
        if not isinstance(field.transform, TruncateTransform):
            continue
        kind = schema.find_field(field.source_id).field_type
        lowest = _lowest(kind)
        if lowest is None:
            continue
        width = field.transform.width
        scale = kind.scale if isinstance(kind, iceberg.DecimalType) else 0
        least = Decimal(-(-lowest // width * width)).scaleb(-scale, _EXACT)
        path = tuple(name for _, name in path_of(schema.fields, field.source_id))
        found[path] = max(least, found.get(path, least))
    return found


def _lowest(kind: iceberg.IcebergType) -> int | None:
    match kind:
        case iceberg.IntegerType():
            return -(1 << 31)
        case iceberg.LongType():
            return -(1 << 63)
        case iceberg.DecimalType():
            return 1 - int(10**kind.precision)
        case _:
            return None


def _part(
    field: PartitionField, schema: IcebergSchema
) -> tuple[tuple[int, ...], Callable[[pa.Array], pa.Array]]:
    if isinstance(field.transform, VoidTransform):  # its column may be dropped
        return (0,), lambda values: pa.nulls(len(values), pa.int32())
    path = path_of(schema.fields, field.source_id)
    return tuple(number for number, _ in path), transform_of(field, schema)


def path_of(fields: Sequence[iceberg.NestedField], source: int) -> tuple[tuple[int, str], ...]:
    """Find a column by id through structs: index and name at each level; none within lists."""
    for number, field in enumerate(fields):
        here = (number, field.name)
        if field.field_id == source:
            return (here,)
        if isinstance(field.field_type, iceberg.StructType):
            below = path_of(field.field_type.fields, source)
            if below:
                return (here, *below)
    return ()


def column_at(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    """Return a column of a batch, by its place at each level of structs."""
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def transform_of(
    field: PartitionField | SortField, schema: IcebergSchema
) -> Callable[[pa.Array], pa.Array]:
    """Return the function that computes a column's partition values, in Iceberg's internal form."""
    transform, source = field.transform, schema.find_field(field.source_id).field_type
    match transform:
        case IdentityTransform():
            return _internal
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return lambda values: _of_time(transform, values)
        case TruncateTransform() if isinstance(source, _WHOLE):
            return lambda values: _floored(values, transform.width)
        case TruncateTransform() if isinstance(source, iceberg.StringType):
            return lambda values: pc.utf8_slice_codeunits(values, 0, transform.width)
        case TruncateTransform() if isinstance(source, iceberg.DecimalType):
            one = transform.transform(source)
            return lambda values: _one_by_one(values, one, values.type)
        case BucketTransform() if isinstance(source, (*_WHOLE, *_TIMES, iceberg.DateType)):
            return lambda values: _bucket_of_longs(values, transform.num_buckets)
        case _:
            one = transform.transform(source)
            return lambda values: _one_by_one(values, one)


def _internal(values: pa.Array) -> pa.Array:
    """Return values as Iceberg keeps partition values: numbers for dates and times."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if pa.types.is_date32(kind):
        return values.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        numbers = pc.add(values, pa.scalar(0, kind))  # -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(numbers), pa.scalar(math.nan, kind), numbers)
    return values


def _known(distinct: pa.Array) -> list[Any]:
    found: list[Any] = distinct.to_pylist()
    if pa.types.is_floating(distinct.type):
        return [math.nan if each is not None and math.isnan(each) else each for each in found]
    return found


def _micros(values: pa.Array) -> tuple[_Numbers, _Numbers]:
    """Return times in micros and other values as they are: nanoseconds are rounded down.

    A time has one hour and one bucket so, whatever its column counts.
    """
    numbers, nulls = _longs(values)
    in_nanos = pa.types.is_timestamp(values.type) and values.type.unit == "ns"
    return numbers // _NANOSECONDS if in_nanos else numbers, nulls


def _longs(values: pa.Array) -> tuple[_Numbers, _Numbers]:
    numbers = _internal(values).cast(pa.int64())
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    return pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), nulls


def _of_time(transform: Transform[Any, Any], values: pa.Array) -> pa.Array:
    numbers, nulls = _micros(values)
    in_days = pa.types.is_date32(values.type)
    unit = _CALENDAR.get(type(transform))
    if unit is not None:
        moments = numbers.astype("datetime64[D]" if in_days else "datetime64[us]")
        result = moments.astype(unit).astype(np.int64)
    else:
        result = numbers if in_days else numbers // _MICROSECONDS[type(transform)]
    return pa.array(result.astype(np.int32), mask=nulls)


def _floored(values: pa.Array, width: int) -> pa.Array:
    numbers, nulls = _longs(values)
    floored = numbers - numbers % width  # below zero as well: numpy's remainder is never negative
    kind = values.type.to_pandas_dtype()
    lowest = np.iinfo(kind).min
    # Of 64 bits the lowest have wrapped around by now.
    if ((floored > numbers) | (floored < lowest)).any():
        raise ValueError(f"truncate({width}, …) of a value is below all that {values.type} holds")
    return pa.array(floored.astype(kind), mask=nulls)


def _bucket_of_longs(values: pa.Array, count: int) -> pa.Array:
    numbers, nulls = _micros(values)
    hashed = _murmur3(numbers) & np.uint32(0x7FFFFFFF)
    return pa.array((hashed % np.uint32(count)).astype(np.int32), mask=nulls)


def _murmur3(numbers: _Numbers) -> _Numbers:
    """Hash 64-bit integers, as their 8 little-endian bytes, with 32-bit Murmur3, seed 0."""
    words = np.ascontiguousarray(numbers, dtype="<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), dtype=np.uint32)
    for word in (words[:, 0], words[:, 1]):
        mixed = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _rotated(words: _Numbers, bits: int) -> _Numbers:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _one_by_one(
    values: pa.Array, transform: Callable[[Any], Any], kind: pa.DataType | None = None
) -> pa.Array:
    encoded = _encoded(_internal(values)).dictionary_encode("encode")
    distinct = pa.array([transform(each) for each in encoded.dictionary.to_pylist()], kind)
    return distinct.take(encoded.indices)


def _encoded(values: pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
