"""Columns that have types already become a table's columns: cast exactly, or marked.

The counterpart of `json_columns.cast_column` for formats with schemas. It never decides against a
record: a row it is not sure of is marked, and the record converter (record_cast.py) has the word on
it.

Invariant: an unmarked row holds what the record converter would return for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal as Exact

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.column_paths import joined_path
from penstock.core.schema import Decimal, Fixed, Kind, List, Map, Struct, Type
from penstock.rows.arrow_arrays import offsets_of, validity_bits
from penstock.rows.arrow_types import arrow_type
from penstock.rows.cast import iso8601
from penstock.rows.cast.json_columns import (
    WRITTEN,
    CastResult,
    Uncertain,
    cast_column,
    either,
    marked,
    narrowed,
    of_lists,
)
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.logical_types import PER_SECOND
from penstock.rows.options import RowOptions

_DOUBLE_INTEGERS, _FLOAT_INTEGERS = 1 << 53, 1 << 24
_DIGITS_MAX = 38


def cast_typed(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
    """Bring a column of any Arrow type to `arrow_type`; null stays null."""
    source = array.type
    match type_:
        case Struct() if pa.types.is_struct(source):
            return _struct(array, type_, options)
        case List() if pa.types.is_list(source):
            return _list(array, type_, options)
        case Map() if pa.types.is_map(source):
            return _map(array, type_, options)
        case Struct() | List() | Map():
            return _all_uncertain(array, type_)
        case _ if pa.types.is_null(source):
            return _all_uncertain(array, type_)
        case _ if pa.types.is_string(source):
            return _from_text(array, type_, options)
        case _ if pa.types.is_binary(source) or pa.types.is_fixed_size_binary(source):
            return _from_bytes(array, type_, options)
        case _ if pa.types.is_temporal(source):
            return _from_time(array, type_, options)
        case _ if source == arrow_type(type_):
            return CastResult(array)
        case Kind.INT | Kind.LONG if pa.types.is_decimal(source):
            return cast_column(array, type_, options)
        case _:
            return _from_number(array, type_)


def count_unknown(array: pa.Array, type_: Type, drops: Counter[str], path: str = "") -> None:
    """Count the non-null values that have no column, by path, in an array before it is adapted."""
    if isinstance(type_, Struct) and pa.types.is_struct(array.type):
        for name, member in zip(array.type.names, array.flatten(), strict=True):
            place, known = joined_path(path, name), type_.field(name)
            if known is not None:
                count_unknown(member, known.type, drops, place)
            elif len(member) > member.null_count:
                drops[place] += len(member) - member.null_count
    elif isinstance(type_, List) and pa.types.is_list(array.type):
        count_unknown(array.flatten(), type_.element, drops, f"{path}[]")
    elif isinstance(type_, Map) and pa.types.is_map(array.type):
        entries = _filled(array)
        count_unknown(entries.items, type_.value, drops, f"{path}{{}}")


def _struct(array: pa.StructArray, type_: Struct, options: RowOptions) -> CastResult:
    marks: Uncertain | None = None
    names, members = array.type.names, array.flatten()
    given = dict(zip(names, members, strict=True))
    done = []
    for field in type_.fields:
        member = given.pop(field.name) if field.name in given else pa.nulls(len(array))
        adapted = cast_typed(member, field.type, options)
        done.append(adapted.array)
        marks = either(marks, adapted.uncertain)
        if field.required:
            marks = marked(marks, pc.and_(array.is_valid(), adapted.array.is_null()))
    if options.columns != "drop_value":
        for member in given.values():
            if member.null_count < len(member):
                marks = marked(marks, member.is_valid())
    made = pa.Array.from_buffers(
        arrow_type(type_), len(array), [validity_bits(array)], children=done
    )
    return CastResult(made, marks)


def _list(array: pa.ListArray, type_: List, options: RowOptions) -> CastResult:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    inner = cast_typed(array.flatten(), type_.element, options)
    marks = inner.uncertain
    if type_.element_required and inner.array.null_count:
        marks = marked(marks, inner.array.is_null())
    offsets = pa.py_buffer(offsets_of(lengths))
    buffers = [validity_bits(array), offsets]
    done = pa.Array.from_buffers(arrow_type(type_), len(array), buffers, children=[inner.array])
    owned = of_lists(done, marks)
    if options.envelope in WITH_PLACEHOLDERS:
        numbers = placeholder(options.unavailable_value).numbers
        owned = marked(owned, pa.array(lengths == len(numbers)))
    return CastResult(done, owned)


def _map(array: pa.MapArray, type_: Map, options: RowOptions) -> CastResult:
    filled = _filled(array)
    lengths = np.diff(filled.offsets.to_numpy())
    keys = cast_typed(filled.keys, type_.key, options)
    if keys.array.null_count or keys.array.type != array.type.key_type:
        # Arrow ends the process over a key that is null; and two that were cast may be equal.
        return _all_uncertain(array, type_)
    values = cast_typed(filled.items, type_.value, options)
    marks = either(keys.uncertain, values.uncertain)
    if type_.value_required and values.array.null_count:
        marks = marked(marks, values.array.is_null())
    target = arrow_type(type_)
    entries = pa.StructArray.from_arrays(
        [keys.array, values.array],
        fields=[target.key_field, target.item_field],
    )
    buffers = [validity_bits(array), pa.py_buffer(offsets_of(lengths))]
    done = pa.Array.from_buffers(target, len(array), buffers, children=[entries])
    return CastResult(done, of_lists(done, marks))


def _filled(array: pa.MapArray) -> pa.MapArray:
    """Return a map array that begins at zero and holds no entries under nulls."""
    if array.offset == 0 and not array.null_count:
        return array
    return pa.concat_arrays([array.take(pa.array(np.arange(len(array))))])


def _from_text(array: pa.StringArray, type_: Type, options: RowOptions) -> CastResult:
    if type_ is Kind.STRING:
        if options.envelope in WITH_PLACEHOLDERS:
            wanted = pa.array(placeholder(options.unavailable_value).texts)
            return CastResult(array, marked(None, pc.is_in(array, wanted)))
        return CastResult(array)
    return cast_column(array, type_, options) if type_ in WRITTEN else _all_uncertain(array, type_)


def _from_bytes(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
    target = arrow_type(type_)
    if options.envelope in WITH_PLACEHOLDERS and pa.types.is_binary(array.type):
        wanted = pa.array([options.unavailable_value.encode()], pa.binary())
        if pc.any(pc.is_in(array, wanted), min_count=0).as_py():
            return _all_uncertain(array, type_)
    if type_ is Kind.BINARY:
        return CastResult(array if array.type == target else array.cast(target))
    if not isinstance(type_, Fixed) and type_ is not Kind.UUID:
        return _all_uncertain(array, type_)
    if array.type == target:
        return CastResult(array)
    right = pc.equal(pc.binary_length(array), target.byte_width).fill_null(True)
    kept = pc.if_else(right, array, pa.scalar(None, array.type)).cast(pa.binary())
    return CastResult(kept.cast(target), marked(None, pc.invert(right)))


def _from_number(array: pa.Array, type_: Type) -> CastResult:
    source, target = array.type, arrow_type(type_)
    if pa.types.is_decimal(source):
        if not isinstance(type_, Decimal):
            return _all_uncertain(array, type_)
        largest = Exact((0, (9,) * type_.precision, -type_.scale))
        return narrowed(array, target, type_.scale, (largest.copy_negate(), largest))
    if pa.types.is_integer(source) and type_ in (Kind.INT, Kind.LONG):
        if target.bit_width >= source.bit_width:
            return CastResult(array.cast(target))
        bounds = np.iinfo(target.to_pandas_dtype())
        return _bounded(array, int(bounds.min), int(bounds.max), target)
    if pa.types.is_integer(source) and type_ in (Kind.DOUBLE, Kind.FLOAT):
        bound = _DOUBLE_INTEGERS if type_ is Kind.DOUBLE else _FLOAT_INTEGERS
        return _bounded(array, -bound, bound, target)
    if pa.types.is_float32(source) and type_ is Kind.DOUBLE:
        return CastResult(array.cast(target))
    return _all_uncertain(array, type_)


def _from_time(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
    source = array.type
    plain = array.view(pa.int64() if source.bit_width == pa.int64().bit_width else pa.int32())
    if type_ in (Kind.INT, Kind.LONG):
        return _from_number(plain, type_) if plain.type != arrow_type(type_) else CastResult(plain)
    if type_ is Kind.DATE and pa.types.is_date32(source):
        return _bounded(plain, iso8601.DAY_MIN, iso8601.DAY_MAX, arrow_type(type_))
    if type_ is Kind.TIME and pa.types.is_time(source):
        of_day = replace(iso8601.MICROS, low=0, high=iso8601.DAY_US - 1)
        return _counted(plain, source.unit, of_day, arrow_type(type_))
    if pa.types.is_timestamp(source) and isinstance(type_, Kind):
        zoned = source.tz is not None
        if (type_ in iso8601.INSTANTS and zoned) or (
            type_ in iso8601.LOCAL and (not zoned or options.drop_offset)
        ):
            return _counted(plain, source.unit, iso8601.STAMPS[type_], arrow_type(type_))
    return _all_uncertain(array, type_)


def _counted(
    plain: pa.Array, given: str, unit: iso8601.StampUnit, target: pa.DataType
) -> CastResult:
    """Count in one unit what has another; mark what is finer or out of bounds."""
    per_second = PER_SECOND[given]
    counts = plain.cast(pa.int64())
    if per_second <= unit.per_second:
        factor = unit.per_second // per_second
        bounded = _bounded(counts, -(-unit.low // factor), unit.high // factor, pa.int64())
        return CastResult(pc.multiply(bounded.array, factor).view(target), bounded.uncertain)
    factor = per_second // unit.per_second
    whole = pc.divide(counts, factor)
    right = pc.equal(pc.multiply(whole, factor), counts).fill_null(True)
    bounded = _bounded(whole, unit.low, unit.high, target)
    return CastResult(bounded.array, marked(bounded.uncertain, pc.invert(right)))


def _bounded(plain: pa.Array, low: int, high: int, target: pa.DataType) -> CastResult:
    right = pc.and_(pc.greater_equal(plain, low), pc.less_equal(plain, high)).fill_null(True)
    if pc.all(right, min_count=0).as_py():
        return CastResult(plain.cast(target))
    return CastResult(pc.if_else(right, plain, None).cast(target), marked(None, pc.invert(right)))


def _all_uncertain(array: pa.Array, type_: Type) -> CastResult:
    nothing = pa.nulls(len(array), arrow_type(type_))
    if array.null_count == len(array):
        return CastResult(nothing)
    return CastResult(nothing, marked(None, array.is_valid()))
