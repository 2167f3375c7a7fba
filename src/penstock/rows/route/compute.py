"""Computed columns: SQL expressions over a record, then a Python function over the rows.

Invariants:
- one record gives one row, or is rejected: a transform changes no book;
- equal records get equal rows, whatever stands beside them; a function is called again with halves
  when it fails, so it is asked for batches of any size;
- what is computed is of exactly the column's type, or of one that it holds without loss;
- a value no column of ours holds (a date beyond year 9999, NaN, 24:00), at any depth, and a text
  that the table's format cannot hold, reject their record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.cast import iso8601
from penstock.rows.cast.json_columns import without_text
from penstock.rows.cast.record_cast import REQUIRED
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, NO_TEXT, RejectCode
from penstock.rows.route.filters import ComputedColumns
from penstock.rows.route.router import Mask, Router

Call = Callable[[pa.RecordBatch], object]
"""Calls a user's function. Raises FunctionError when that raised, whatever it was."""

Functions = Callable[[str], Call]
"""Gives functions by their import path. Raises InvalidError (P149)."""

_WIDER = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.int32(), pa.float64()),
}


class FunctionError(Exception):
    """A user's function raised something."""


def no_functions(path: str) -> Call:
    """Reject every function: there is none where no rows are made."""
    raise InvalidError(f"{path} is not called here", code="P149", hint="run the pipeline")


def without_computed(schema: Schema, computed: ComputedColumns) -> Schema:
    """Return the columns that records fill themselves."""
    return Struct(tuple(f for f in schema.fields if f.name not in computed.names))


@dataclass(frozen=True, slots=True)
class ComputeRequest:
    """The columns of a table, what is computed of them, and how its records are read."""

    schema: Schema
    options: RowOptions
    computed: ComputedColumns
    readers: ReaderCache


def add_computed(
    converted: ConvertedBatch, sorter: Router, wanted: ComputeRequest, functions: Functions
) -> ConvertedBatch:
    """Fill the computed columns of rows that were made of all of a sorter's records.

    Raises InvalidError (P493 a column of another type, P494 a function that keeps no promise).
    """
    schema, options, computed = wanted.schema, wanted.options, wanted.computed
    if not converted.rows.num_rows:
        return replace(converted, rows=pa.RecordBatch.from_pylist([], arrow_schema(schema)))
    offsets = sorter.batch.column("offset").to_numpy()
    places = np.searchsorted(offsets, converted.offsets)
    columns = dict(zip(converted.rows.schema.names, converted.rows.columns, strict=True))
    refused: dict[int, Reject] = {}
    for name, look in computed.expressions.items():
        column = schema.field(name)
        if column is None:
            raise _no_column(name)
        values, errors = sorter.values(look, options, wanted.readers)
        taken = values.take(pa.array(places))
        columns[name] = _typed(taken, column)
        refused |= {at: errors[at] for at in places.tolist() if at in errors}
        found = _misfits(columns[name], column, options)
        _refuse(refused, found, name, places, offsets)
    kept = _kept(columns, schema, places, refused, computed.filled)
    rows, numbers = kept
    if computed.call:
        rows, failed = _called(rows, schema, computed, functions(computed.call))
        for index in failed:
            refused[int(numbers[index])] = _reject(
                offsets, int(numbers[index]), RejectCode.UNCOMPUTED, computed.call
            )
        certain = np.ones(len(numbers), np.bool_)
        certain[failed] = False
        numbers = numbers[certain]
        for name in computed.filled:
            column = schema.field(name)
            assert column is not None, "the function's columns were looked for"
            found = _misfits(rows.column(name), column, options)
            _refuse(refused, found, name, numbers, offsets)
        fine = np.array([number not in refused for number in numbers.tolist()], np.bool_)
        rows, numbers = rows.filter(pa.array(fine)), numbers[fine]
    rejects = sorted(
        (*converted.rejects, *refused.values()), key=lambda reject: (reject.offset, reject.code)
    )
    return replace(converted, rows=rows, offsets=offsets[numbers], rejects=tuple(rejects))


def _kept(
    columns: Mapping[str, pa.Array],
    schema: Schema,
    places: np.ndarray[Any, Any],
    refused: Mapping[int, Reject],
    filled: tuple[str, ...],
) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
    """Put the columns in order, without rejected records; those still to be filled are null."""
    count = len(places)
    arrays, fields = [], []
    for each in schema.fields:
        if each.name in filled:
            arrays.append(pa.nulls(count, arrow_type(each.type)))
            fields.append(pa.field(each.name, arrow_type(each.type)))
        else:
            arrays.append(columns[each.name])
            nullable = not each.required
            fields.append(pa.field(each.name, arrow_type(each.type), nullable=nullable))
    for name in filled:
        if schema.field(name) is None:
            raise _no_column(name)
    rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    fine = np.array([place not in refused for place in places.tolist()], np.bool_)
    if fine.all():
        return rows, places
    return rows.filter(pa.array(fine)), places[fine]


def _typed(values: pa.Array, column: Field) -> pa.Array:
    wanted = arrow_type(column.type)
    if values.type == wanted:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), wanted)
    wider = (values.type, wanted) in _WIDER
    if pa.types.is_decimal(values.type) and pa.types.is_decimal(wanted):
        whole = values.type.precision - values.type.scale
        wider = values.type.scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    if not wider:
        raise InvalidError(
            f"the column {column.name} is a {column.type}, and {values.type} is computed for it",
            code="P493",
            hint="cast it in  transform, or name another column",
        )
    return values.cast(wanted)


def _misfits(
    values: pa.Array, column: Field, options: RowOptions
) -> Iterator[tuple[Mask, RejectCode, str]]:
    """Yield which computed values a column must not hold, and why."""
    if column.required:
        yield mask_of(values.is_null()), RejectCode.MISSING, REQUIRED
    yield _beyond(values), RejectCode.OUT_OF_RANGE, "the column cannot hold what is computed"
    if column.type is Kind.STRING and column.name in options.not_empty:
        yield without_text(values), RejectCode.EMPTY_TEXT, NO_TEXT


def _refuse(
    refused: dict[int, Reject],
    errors: Iterable[tuple[Mask, RejectCode, str]],
    name: str,
    places: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
) -> None:
    """Reject the records of values that a column must not hold."""
    for mask, code, why in errors:
        for index in np.flatnonzero(mask).tolist():
            place = int(places[index])
            if place not in refused:
                stage = str(CODE_INFO[code].stage)
                refused[place] = Reject(int(offsets[place]), stage, str(code), f"{name}: {why}")


def _beyond(values: pa.Array) -> Mask:
    """Return which values no column holds, or hold one such within."""
    kind = values.type
    if pa.types.is_floating(kind):
        return mask_of(pc.invert(pc.is_finite(values)).fill_null(False))
    if pa.types.is_date32(kind):
        return _outside(values.view(pa.int32()), iso8601.DAY_MIN, iso8601.DAY_MAX)
    if pa.types.is_time64(kind):
        return _outside(values.view(pa.int64()), 0, iso8601.DAY_US - 1)
    if pa.types.is_timestamp(kind):
        return _outside(values.view(pa.int64()), iso8601.STAMP_MIN, iso8601.STAMP_MAX)
    found = np.zeros(len(values), np.bool_)
    if pa.types.is_struct(kind):
        for member in values.flatten():
            found |= _beyond(member)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        # Taken once more, it begins at zero and holds nothing behind nulls.
        taken = pa.concat_arrays([values.take(pa.array(np.arange(len(values))))])
        owners = np.repeat(np.arange(len(taken)), np.diff(taken.offsets.to_numpy()))
        for items in (taken.values,) if pa.types.is_list(kind) else (taken.keys, taken.items):
            found[owners[_beyond(items)]] = True
    return found


def _outside(numbers: pa.Array, low: int, high: int) -> Mask:
    return mask_of(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)).fill_null(False))


def _called(
    rows: pa.RecordBatch, schema: Schema, computed: ComputedColumns, call: Call
) -> tuple[pa.RecordBatch, list[int]]:
    """Call the function over rows; halves are tried where it raises, down to single rows."""
    done: list[pa.RecordBatch] = []
    failed: list[int] = []
    waiting = [(0, rows.num_rows)]
    while waiting:
        start, count = waiting.pop()
        part = rows.slice(start, count)
        try:
            given = call(part)
        except FunctionError:
            if count == 1:
                failed.append(start)
                continue
            half = count // 2
            waiting += [(start + half, count - half), (start, half)]
            continue
        done.append(_filled(part, given, schema, computed))
    whole = pa.Table.from_batches(done, arrow_schema(schema)) if done else None
    if whole is None:
        return rows.slice(0, 0), failed
    (joined,) = whole.combine_chunks().to_batches() or [rows.slice(0, 0)]
    return joined, failed


def _filled(
    part: pa.RecordBatch, given: Any, schema: Schema, computed: ComputedColumns
) -> pa.RecordBatch:
    """Take the columns that a function fills. Raises InvalidError (P494)."""
    if not isinstance(given, pa.RecordBatch):
        raise _broken(computed.call, f"it gave a {type(given).__name__}, not a RecordBatch")
    if given.num_rows != part.num_rows:
        told = f"it was given {part.num_rows} rows and gave {given.num_rows}"
        raise _broken(computed.call, told)
    arrays = []
    for each in schema.fields:
        if each.name not in computed.filled:
            arrays.append(part.column(each.name))
            continue
        if each.name not in given.schema.names:
            raise _broken(computed.call, f"it gave no column {each.name}")
        arrays.append(_typed(given.column(each.name), each))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _reject(offsets: np.ndarray[Any, Any], place: int, code: RejectCode, what: str) -> Reject:
    meaning = CODE_INFO[code]
    return Reject(int(offsets[place]), str(meaning.stage), str(code), f"{what}: {meaning.fact}")


def _no_column(name: str) -> InvalidError:
    return InvalidError(
        f"the table has no column {name}, which is computed for it",
        code="P493",
        hint="add the column to the table, or take it out of  transform",
    )


def _broken(call: str, told: str) -> InvalidError:
    return InvalidError(
        f"the function {call} does not return what it must: {told}",
        code="P494",
        hint="return a RecordBatch of as many rows, with the columns that  transform  names",
    )
