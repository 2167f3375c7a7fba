"""The types that a few records of a block show where they are not those of a table.

Invariants: at most `SAMPLED_COLUMNS_MAX` unknown fields are taken up, whatever is in the records; a
field that is in no sampled record makes a block fail to parse, so none is ever ignored unseen.
"""

from __future__ import annotations

from itertools import islice
from math import gcd
from typing import Any

import pyarrow as pa

from penstock.core.names import folded
from penstock.core.schema import Decimal, Field, Kind, List, Schema, Struct, Type
from penstock.core.schema_join import join
from penstock.rows.decode.json.exact_text import NUMERIC, is_unusual_integer
from penstock.rows.decode.json.parser import JsonNumber, is_empty, parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, type_of

SAMPLED_COLUMNS_MAX = 256
_WIDEST = Decimal(38, 38)
"""Numbers are read with all digits, also out of texts; json_columns.py narrows them again."""
_SAMPLE = 64
_RHYTHMS = 2 * 3 * 5 * 7 * 11 * 13
_STEP_MIN = 17


def sampled_shape(values: pa.BinaryArray, own: Schema, options: RowOptions) -> Schema | None:
    """Return a schema with a sample's types and unknown fields; None where it shows no records."""
    shape, seen = own, False
    for index in sample_positions(len(values)):
        try:
            record = parse_object(values[index].as_py(), depth_max=options.depth_max)
        except RejectError:
            continue
        seen, wider = True, _with_members(record, shape, own, options)
        if columns_in(wider) - columns_in(own) <= SAMPLED_COLUMNS_MAX:
            shape = wider
    return shape if seen else None


def sample_positions(count: int) -> list[int]:
    """Return places all over a block, by steps that no short rhythm of its records divides."""
    step = max(_STEP_MIN, count // _SAMPLE)
    while gcd(step, _RHYTHMS) > 1:
        step += 1
    places = (place for first in range(step) for place in range(first, count, step))
    return sorted(islice(places, _SAMPLE))


def _with_members(
    record: dict[str, Any],
    shape: Struct,
    own: Struct,
    options: RowOptions,
    *,
    in_list: bool = False,
) -> Struct:
    fields = {each.name: each for each in shape.fields}
    columns = set() if options.case_sensitive else {folded(name) for name in own.names}
    drops = options.columns == "drop_value"
    type_for = _element_type if in_list else _type_for
    for name, value in record.items():
        declared, known = own.field(name), fields.get(name)
        if declared is not None and known is not None:
            type_ = type_for(value, known.type, declared.type, options)
            fields[name] = Field(name, type_, known.required)
        elif folded(name) in columns:
            continue  # a column that is schema_as_spelled in two ways: such records are read alone
        elif not in_list or drops or (options.columns != "rescue" and is_empty(value)):
            # In a list's element these are the ones that are counted, and no more.
            before = Kind.UNKNOWN if known is None else known.type
            fields[name] = Field(name, join(before, type_of(value))[0])
    return Struct(tuple(fields.values()))


def _type_for(value: Any, shape: Type, own: Type, options: RowOptions) -> Type:
    """Return the type to read a column by: the first that a value asks for, but text before all."""
    match value, shape, own:
        case dict(), Struct(), Struct():
            return _with_members(value, shape, own, options)
        case list(), List(), List():
            return _element_type(value, shape, own, options)
        case str(), _, Decimal() | Kind.INT | Kind.LONG if not _is_number(value, own):
            return Kind.STRING if shape in (own, _WIDEST) else shape
    if value is None or shape != own:
        return shape
    match value, own:
        case ((bool() | dict() | list()), _):
            return type_of(value)
        case JsonNumber(), Kind.FLOAT | Kind.DOUBLE:
            return shape
        case str(), Decimal() | Kind.INT | Kind.LONG:
            return shape if _is_plain(value, own) else _WIDEST
        case JsonNumber(), _:
            return Kind.DOUBLE  # no number fits, whichever it is
        case str(), Struct() | List() | Kind.FLOAT | Kind.DOUBLE | Kind.BOOLEAN | Kind.UNKNOWN:
            return Kind.STRING
        case _:
            return shape


def _element_type(value: Any, shape: Type, own: Type, options: RowOptions) -> Type:
    """Return the type to read a list's elements by: their own, but for numbers with all digits."""
    match value, shape, own:
        case dict(), Struct(), Struct():
            return _with_members(value, shape, own, options, in_list=True)
        case [first, *_], List(element, required), List(inner):
            return List(_element_type(first, element, inner, options), required)
        case str(), _, Decimal():
            return _WIDEST
        case str(), _, Kind.INT | Kind.LONG if is_unusual_integer(value):
            return _WIDEST
        case _:
            return shape


def _is_number(text: str, own: Type) -> bool:
    if isinstance(text, JsonNumber):
        return True
    return is_unusual_integer(text) if isinstance(own, Kind) else bool(NUMERIC.fullmatch(text))


def _is_plain(text: str, own: Type) -> bool:
    """Return whether a number is an integer that a column can hold, in the plain notation."""
    if not isinstance(text, JsonNumber) or not isinstance(own, Kind):
        return False
    bound = 1 << (31 if own is Kind.INT else 63)
    is_short = len(text) <= len(str(-bound))  # Python rejects to read thousands of digits
    return is_short and text.removeprefix("-").isdecimal() and -bound <= int(text) < bound
