"""Computed columns: SQL expressions over a record, then a Python function over the rows.

Invariants:
- one record becomes one row, or is rejected: a transform changes no count;
- equal records get equal rows, whatever else is in the batch; a function is called again with
  halves when it fails, so it is asked for batches of any size;
- what is computed is of exactly the column's type, or of one that it holds without loss;
- a value no column of ours holds (a date beyond year 9999, NaN, 24:00), at any depth, and a text
  that the table's format cannot hold, reject their record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.bisection import BisectResult, bisect_on_error
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
"""Returns the function of an import path. Raises InvalidError (P149)."""

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


def add_computed(
    converted: ConvertedBatch,
    router: Router,
    *,
    schema: Schema,
    options: RowOptions,
    computed: ComputedColumns,
    readers: ReaderCache,
    functions: Functions,
) -> ConvertedBatch:
    """Fill the computed columns of rows that were made of all of a router's records.

    Raises InvalidError (P493 a column of another type, P494 a function that keeps no promise).
    """
    if not converted.rows.num_rows:
        return replace(converted, rows=pa.RecordBatch.from_pylist([], arrow_schema(schema)))
    fields = {name: _column(schema, name) for name in computed.names}
    offsets = router.batch.column("offset").to_numpy()
    places = np.searchsorted(offsets, converted.offsets)
    columns = dict(zip(converted.rows.schema.names, converted.rows.columns, strict=True))
    refused: dict[int, Reject] = {}
    for name, expression in computed.expressions.items():
        values, errors = router.values(expression, options, readers)
        columns[name] = _typed(values.take(pa.array(places)), fields[name])
        refused |= {at: errors[at] for at in places.tolist() if at in errors}
        _refuse(refused, _misfits(columns[name], fields[name], options), places, offsets)
    for name in computed.filled:
        columns[name] = pa.nulls(len(places), arrow_type(fields[name].type))
    given = [
        replace(each, required=each.required and each.name not in computed.filled)
        for each in schema.fields
    ]
    arrays = [columns[name] for name in schema.names]
    rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(Struct(tuple(given))))
    rows, places = _kept(rows, places, refused)
    if computed.call:
        call = functions(computed.call)
        made = BisectResult[pa.RecordBatch]()
        if len(places):  # a function that raises for no rows at all has nothing to be blamed for
            made = bisect_on_error(
                rows, lambda part: _filled(part, call(part), schema, computed), (FunctionError,)
            )
        whole = pa.Table.from_batches(made.parts, arrow_schema(schema)).combine_chunks()
        (rows,) = whole.to_batches() or [pa.RecordBatch.from_pylist([], whole.schema)]
        reason = f"{computed.call}: {CODE_INFO[RejectCode.UNCOMPUTED].fact}"
        for place in places[[*made.errors]].tolist():
            refused[place] = Reject.of(int(offsets[place]), RejectCode.UNCOMPUTED, reason)
        places = np.delete(places, [*made.errors])
        for name in computed.filled:
            found = _misfits(rows.column(name), fields[name], options)
            _refuse(refused, found, places, offsets)
        rows, places = _kept(rows, places, refused)
    rejects = sorted(
        (*converted.rejects, *refused.values()), key=lambda reject: (reject.offset, reject.code)
    )
    return replace(converted, rows=rows, offsets=offsets[places], rejects=tuple(rejects))


def _column(schema: Schema, name: str) -> Field:
    if (field := schema.field(name)) is None:
        raise InvalidError(
            f"the table has no column {name}, which is computed for it",
            code="P493",
            hint="add the column to the table, or take it out of  transform",
        )
    return field


def _kept(
    rows: pa.RecordBatch, places: np.ndarray[Any, Any], refused: Mapping[int, Reject]
) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
    fine = np.array([place not in refused for place in places.tolist()], np.bool_)
    return (rows, places) if fine.all() else (rows.filter(pa.array(fine)), places[fine])


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
    if column.required:
        yield mask_of(values.is_null()), RejectCode.MISSING, f"{column.name}: {REQUIRED}"
    beyond = f"{column.name}: the column cannot hold what is computed"
    yield _beyond(values), RejectCode.OUT_OF_RANGE, beyond
    if column.type is Kind.STRING and column.name in options.not_empty:
        yield without_text(values), RejectCode.EMPTY_TEXT, f"{column.name}: {NO_TEXT}"


def _refuse(
    refused: dict[int, Reject],
    errors: Iterable[tuple[Mask, RejectCode, str]],
    places: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
) -> None:
    for mask, code, message in errors:
        for place in places[np.flatnonzero(mask)].tolist():
            refused.setdefault(place, Reject.of(int(offsets[place]), code, message))


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
        unit = iso8601.NANOS if kind.unit == "ns" else iso8601.MICROS
        return _outside(values.view(pa.int64()), unit.low, unit.high)
    found = np.zeros(len(values), np.bool_)
    if pa.types.is_struct(kind):
        for member in values.flatten():
            found |= _beyond(member)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        # A `take` makes it begin at zero and hold nothing under nulls.
        taken = pa.concat_arrays([values.take(pa.array(np.arange(len(values))))])
        owners = np.repeat(np.arange(len(taken)), np.diff(taken.offsets.to_numpy()))
        for items in (taken.values,) if pa.types.is_list(kind) else (taken.keys, taken.items):
            found[owners[_beyond(items)]] = True
    return found


def _outside(numbers: pa.Array, low: int, high: int) -> Mask:
    return mask_of(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)).fill_null(False))


def _filled(
    part: pa.RecordBatch, given: Any, schema: Schema, computed: ComputedColumns
) -> pa.RecordBatch:
    """Take the columns that a function fills. Raises InvalidError (P494)."""
    if not isinstance(given, pa.RecordBatch):
        raise _broken(computed.call, f"it returned a {type(given).__name__}, not a RecordBatch")
    if given.num_rows != part.num_rows:
        fact = f"it got {part.num_rows} rows and returned {given.num_rows}"
        raise _broken(computed.call, fact)
    arrays = []
    for each in schema.fields:
        if each.name not in computed.filled:
            arrays.append(part.column(each.name))
            continue
        if each.name not in given.schema.names:
            raise _broken(computed.call, f"it returned no column {each.name}")
        arrays.append(_typed(given.column(each.name), each))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _broken(call: str, fact: str) -> InvalidError:
    return InvalidError(
        f"the function {call} does not return what it must: {fact}",
        code="P494",
        hint="return a RecordBatch of as many rows, with the columns that  transform  names",
    )
