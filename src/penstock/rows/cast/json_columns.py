"""Parsed columns become the table's columns: cast exactly, or marked.

`cast_column` never decides against a record: it marks rows that are not certainly right, and the
record converter (record_cast.py) has the word on those. So this module may be as fast as it likes,
as long as what it does not mark is exact.

Invariants:
- an unmarked row holds what the record converter would return for it;
- buffers of untouched columns are passed on, not copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import PRECISION_MAX, Decimal, Fixed, Kind, List, Struct, Type
from penstock.rows.arrow_arrays import Mask, bounds_of, mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.cast import iso8601
from penstock.rows.cast.scalars import BITS, READABLE, scalar_cast
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError

Uncertain = npt.NDArray[np.uint8]

UNCERTAIN = 1
"""The record converter must convert the row."""
LARGE = 2
"""A double of the row may be a rounded integer; only its text decides."""
_LARGE_INTEGER = "[0-9]{16}"
"""Found in the text of a record if one of its integers may be too long for a double."""

_DOUBLE_INTEGERS = float(1 << 53)
_FLOAT_INTEGERS = float(1 << 24)
_DIGITS_MAX = 76
_COLON_AT = 13
_STAMP = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,%d})?)?"
_OFFSET = r"(Z|[+-]\d{2}(:?\d{2})?)"
_PATTERNS = {
    kind: f"{_STAMP % unit.fraction_digits}{_OFFSET if kind in iso8601.INSTANTS else ''}$"
    for kind, unit in iso8601.STAMPS.items()
}


WRITTEN = frozenset({Kind.DATE, Kind.TIME, *iso8601.STAMPS})
"""The types of dates and times, which JSON writes as text."""


@dataclass(frozen=True, slots=True)
class CastResult:
    """A column in its final type, and marks on the rows that must be converted again."""

    array: pa.Array
    uncertain: Uncertain | None = None


def cast_column(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
    """Bring a column from `parsed_type` to `arrow_type`.

    A struct may have further members after those of its type (sampled_shape.py): they are checked
    for NaN, and left out.
    """
    match type_:
        case Struct():
            return _struct(array, type_, options)
        case List():
            return _list(array, type_, options)
        case Decimal(precision, scale):
            largest = Exact((0, (9,) * precision, -scale))
            bounds = (largest.copy_negate(), largest)  # a minus would round to 28 digits
            return narrowed(array, arrow_type(type_), scale, bounds)
        case Kind.INT | Kind.LONG if pa.types.is_decimal(array.type):
            half = 1 << BITS[type_]
            return narrowed(array, arrow_type(type_), 0, (Exact(-half), Exact(half - 1)))
        case Kind.DOUBLE:
            return CastResult(array, _doubles(array))
        case Kind.FLOAT:
            return CastResult(array, _floats(array))
        case Kind() if type_ in WRITTEN:
            return _dated(array, type_, options)
        case Kind.BINARY | Kind.UUID | Fixed():
            return _by_value(array, type_, options)
        case _:
            return CastResult(array)


def _struct(array: pa.StructArray, type_: Struct, options: RowOptions) -> CastResult:
    assert array.offset == 0, "parsed and filtered arrays begin at zero"
    marks: Uncertain | None = None
    members = []
    for index, field in enumerate(type_.fields):
        member = cast_column(array.field(index), field.type, options)
        members.append(member.array)
        marks = either(marks, member.uncertain)
        if field.required and member.array.null_count:
            marks = marked(marks, pc.and_(array.is_valid(), member.array.is_null()))
    for index in range(len(type_.fields), array.type.num_fields):
        marks = either(marks, not_numbers(array.field(index)))
    done = pa.Array.from_buffers(
        arrow_type(type_), len(array), [array.buffers()[0]], children=members
    )
    return CastResult(done, marks)


def _list(array: pa.ListArray, type_: List, options: RowOptions) -> CastResult:
    assert array.offset == 0, "parsed and filtered arrays begin at zero"
    inner = cast_column(array.values, type_.element, options)
    marks = inner.uncertain
    if type_.element_required and inner.array.null_count:
        marks = marked(marks, inner.array.is_null())
    done = pa.Array.from_buffers(
        arrow_type(type_), len(array), array.buffers()[:2], children=[inner.array]
    )
    return CastResult(done, of_lists(array, marks))


def not_numbers(array: pa.Array) -> Uncertain | None:
    """Mark rows of a column without a type of ours that hold NaN or infinity, at any depth."""
    marks: Uncertain | None = None
    if pa.types.is_floating(array.type):
        odd = ~np.isfinite(_numbers(array))
        return odd.astype(np.uint8) if odd.any() else None
    if pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            marks = either(marks, not_numbers(array.field(index)))
        return marks
    if pa.types.is_list(array.type):
        marks = not_numbers(array.values)
    return of_lists(array, marks)


def without_text(array: pa.Array) -> Mask:
    """Return which texts or bytes of a column are empty; null is not."""
    return mask_of(pc.equal(pc.binary_length(array), 0).fill_null(False))


def of_lists(array: pa.ListArray | pa.MapArray, marks: Uncertain | None) -> Uncertain | None:
    """Return the marks of the lists that hold marked elements."""
    if marks is None:
        return None
    found = np.flatnonzero(marks)
    owners = np.searchsorted(array.offsets.to_numpy(), found, side="right") - 1
    lists = np.zeros(len(array), np.uint8)
    np.bitwise_or.at(lists, owners, marks[found])
    return lists


def _doubles(array: pa.Array) -> Uncertain | None:
    numbers = _numbers(array)
    with np.errstate(invalid="ignore"):
        suspicious = ~(np.abs(numbers) < _DOUBLE_INTEGERS)
    if not suspicious.any():
        return None
    marks: Uncertain = suspicious.astype(np.uint8) * np.uint8(LARGE)
    marks[suspicious & ~np.isfinite(numbers)] = UNCERTAIN
    return marks


def _floats(array: pa.Array) -> Uncertain | None:
    suspicious = ~(np.abs(_numbers(array)) < _FLOAT_INTEGERS)
    return suspicious.astype(np.uint8) if suspicious.any() else None


def narrowed(
    array: pa.Array, target: pa.DataType, scale: int, bounds: tuple[Exact, Exact]
) -> CastResult:
    """Bring decimals to another type; mark what would be rounded or is out of bounds."""
    if not _has_room(array, scale):
        array = array.cast(pa.decimal256(_DIGITS_MAX, array.type.scale))
    try:
        return CastResult(array.cast(target))
    except pa.ArrowInvalid:
        cut, uncut = shortened(array, scale)
        low, high = (pa.scalar(bound, cut.type) for bound in bounds)
        fits = pc.and_(pc.greater_equal(cut, low), pc.less_equal(cut, high))
        fits = pc.and_(fits, uncut)
        kept = pc.if_else(fits, cut, pa.scalar(None, cut.type)).cast(target)
        return CastResult(kept, marked(None, pc.invert(fits).fill_null(False)))


def _has_room(array: pa.Array, scale: int) -> bool:
    """Return whether more digits after the point cannot overflow.

    In 128 bits Arrow (pyarrow 26) wraps around without a word, and fits what is left.
    """
    grown: int = scale - array.type.scale
    if grown <= 0 or not pa.types.is_decimal128(array.type):
        return True
    ends = [end for end in pc.min_max(array).as_py().values() if end is not None]
    return all(len(end.as_tuple().digits) + grown <= PRECISION_MAX for end in ends)


def shortened(array: pa.Array, scale: int) -> tuple[pa.Array, pa.BooleanArray]:
    """Cut decimals to so many digits after the point; return them, and which of them lose nothing.

    A few values are cut to something else, and seem to lose: see `is_cut`.
    """
    whole = pa.decimal256(_DIGITS_MAX, array.type.scale)
    cut = array.cast(pa.decimal256(_DIGITS_MAX, scale), safe=False)
    return cut, pc.equal(cut.cast(whole), array.cast(whole))


def is_cut(array: pa.Array, cut: pa.Array) -> pa.BooleanArray:
    """Return which decimals lie within one last digit of what they were cut to.

    pyarrow 26 divides some of 256 bits wrongly, such as 2^63 - 2 with 38 digits after the point.
    """
    kind = pa.decimal256(_DIGITS_MAX - 1, max(array.type.scale, cut.type.scale))
    lost = pc.abs(pc.subtract(array.cast(kind, safe=False), cut.cast(kind, safe=False)))
    return pc.less(lost, pa.scalar(Exact((0, (1,), -cut.type.scale)), lost.type))


def _dated(array: pa.Array, type_: Kind, options: RowOptions) -> CastResult:
    done = _quick(array, type_)
    if done is not None:
        return CastResult(done)
    if type_ not in _PATTERNS:
        return _by_value(array, type_, options)
    # Some are not of the common form: read the others at once, and these one by one.
    common = pc.match_substring_regex(array, _PATTERNS[type_])
    done = _quick(pc.if_else(common, array, pa.scalar(None, pa.string())), type_)
    if done is None:
        return _by_value(array, type_, options)
    rest = pc.invert(common).fill_null(False)
    odd = _by_value(array.filter(rest), type_, options)
    marks = np.zeros(len(array), np.uint8)
    marks[mask_of(rest)] = 0 if odd.uncertain is None else odd.uncertain
    return CastResult(pc.replace_with_mask(done, rest, odd.array), marks)


def _quick(array: pa.Array, type_: Kind) -> pa.Array | None:
    """Read texts at once; None where one of them is not of the form that Arrow reads as we do."""
    if type_ is Kind.DATE:
        return _cast_within(array, pa.date32(), iso8601.DAY_MIN, iso8601.DAY_MAX)
    is_time = type_ is Kind.TIME
    if is_time:
        array = pc.binary_join_element_wise("1970-01-01T", array, "")
    if not _name_minutes(array):
        return None
    stamp = Kind.TIMESTAMP if is_time else type_
    unit = iso8601.STAMPS[stamp]
    done = _cast_within(array, arrow_type(stamp), unit.low, unit.high)
    return done.view(pa.int64()).view(pa.time64("us")) if is_time and done is not None else done


def _name_minutes(array: pa.Array) -> bool:
    """Return whether each text has a colon after the hour: Arrow would fill in absent minutes."""
    if array.null_count == len(array):
        return True
    bounds, data = bounds_of(array), array.buffers()[2]
    starts, lengths = bounds[:-1], np.diff(bounds)
    if array.null_count:
        valid = mask_of(array.is_valid())
        starts, lengths = starts[valid], lengths[valid]
    if lengths.min() <= _COLON_AT:
        return False
    return bool((np.frombuffer(data, np.uint8)[starts + _COLON_AT] == ord(":")).all())


def _cast_within(array: pa.Array, target: pa.DataType, low: int, high: int) -> pa.Array | None:
    try:
        done = array.cast(target)
    except pa.ArrowInvalid:
        return None
    plain = done.view(pa.int32() if pa.types.is_date32(target) else pa.int64())
    bounds = pc.min_max(plain).as_py()
    within = bounds["min"] is None or (bounds["min"] >= low and bounds["max"] <= high)
    return done if within else None


def _by_value(array: pa.Array, type_: Any, options: RowOptions) -> CastResult:
    """Convert text by text with the record converter's own function."""
    convert = scalar_cast(type_, options)
    marks = np.zeros(len(array), np.uint8)
    if type_ in READABLE:  # what is not even of the form need not be tried
        odd = pc.invert(pc.match_substring_regex(array, f"^(?:{READABLE[type_]})$"))
        marks[mask_of(odd.fill_null(False))] = UNCERTAIN
        array = pc.if_else(odd, pa.scalar(None, pa.string()), array)
    values = []
    for index, text in enumerate(array.to_pylist()):
        try:
            values.append(None if text is None else convert(text))
        except RejectError:
            values.append(None)
            marks[index] = UNCERTAIN
    return CastResult(pa.array(values, arrow_type(type_)), marks if marks.any() else None)


def either(first: Uncertain | None, second: Uncertain | None) -> Uncertain | None:
    """Join marks of the same rows."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def marked(marks: Uncertain | None, uncertain: pa.BooleanArray) -> Uncertain:
    """Mark further rows."""
    found: Uncertain = mask_of(uncertain).astype(np.uint8)
    return found if marks is None else marks | found


def resolve_large(marks: Uncertain | None, values: pa.BinaryArray) -> Uncertain | None:
    """Take the marks from large doubles of records without an integer that a double would round.

    `values` are the texts of the records.
    """
    if marks is None or not len(large := np.flatnonzero(marks == LARGE)):
        return marks
    rounded = mask_of(pc.match_substring_regex(values.take(pa.array(large)), _LARGE_INTEGER))
    marks = marks.copy()
    marks[large[~rounded]] = 0
    return marks


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = array.fill_null(0).to_numpy()
    return numbers
