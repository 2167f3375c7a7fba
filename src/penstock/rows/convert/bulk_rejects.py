"""Storms of bad records are sorted by columns: which value of each does not fit.

Records that did not land are read once more as a block, by the types that a few of them show: a
text where the table has a number, a field that it does not have. So each fault becomes a column,
which is looked at as a whole, and only its own values by the record converter's functions.

Invariants:
- the fate of a record is the one that the record converter (record_cast.py) would give it: the same
  code, path and reason, or the same row without the same values; property tests say so;
- what columns cannot tell is left to the record converter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Field, Kind, List, Schema, Struct, Type, join
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions
from penstock.rows.cast.json_columns import (
    CastResult,
    cast_column,
    mask_of,
    not_numbers,
    resolve_large,
)
from penstock.rows.cast.rescued_column import as_json
from penstock.rows.cast.typed_columns import cast_typed
from penstock.rows.convert.partial_rows import LeftOutColumn, split_partial
from penstock.rows.convert.prescan import PrescanResult, prescan
from penstock.rows.convert.raw_members import raw_texts
from penstock.rows.convert.reject_columns import Mask, values_at
from penstock.rows.convert.sampled_fields import LEARNED_MAX, WIDEST, sample_positions
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.format_reader import DecodedBlock
from penstock.rows.decode.json.block_parser import ParseFailure, parse_block, parsed_type
from penstock.rows.decode.json.parser import JsonNumber, parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, type_of

_SHAPES_MAX = 4
_ALIKE_MIN = 64


def classify_similar(
    values: pa.BinaryArray, positions: Positions, own: Schema, options: RowOptions
) -> tuple[list[BlockResult], Positions]:
    """Sort the records at some positions that columns can tell the fate of, and give the rest.

    `own` are the columns that records are read into. Records are read by at most `_SHAPES_MAX`
    sets of types, so that no sender of many kinds of faults makes this slow.
    """
    sorted_: list[BlockResult] = []
    if not options.case_sensitive:
        return sorted_, positions
    undecided = []
    for _ in range(_SHAPES_MAX):
        taken = values.take(pa.array(positions))
        shape = _sampled_shape(taken, own, options) if len(positions) >= _ALIKE_MIN else None
        if shape is None:
            break
        look, parsed = _read(taken, shape, own)
        undecided.append(positions[look.broken])
        if parsed is not None:
            mine = positions[look.plain]
            alike = taken if look.plain.all() else taken.filter(pa.array(look.plain))
            fitted, open_ = _classified(alike, parsed, own, options)
            sorted_.append(fitted.at_positions(mine))
            undecided.append(mine[open_])
        rest = ~(look.plain | look.broken)
        if rest.all():
            break
        positions = positions[rest]
    return sorted_, np.sort(np.concatenate([positions, *undecided]))


def classify_block(
    values: pa.BinaryArray, own: Schema, options: RowOptions
) -> tuple[BlockResult, Mask] | None:
    """Sort a block by the types that a few of its records show, and tell which are undecided.

    None where they show none but its own, or not all records are of these types.
    """
    shape = _sampled_shape(values, own, options) if options.case_sensitive else None
    if shape is None or shape == own or _takes_texts_for_numbers(shape, own):
        return None
    parsed = parse_block(values, shape)
    return None if isinstance(parsed, ParseFailure) else _classified(values, parsed, own, options)


def classify_typed(
    decoded: DecodedBlock, positions: Positions, own: Schema, options: RowOptions
) -> tuple[BlockResult, Positions]:
    """Sort those of some records with types that columns can tell the fate of; give the rest."""
    taken = decoded.array.take(pa.array(positions))
    unsure = decoded.uncertain[positions]
    fitted, open_ = split_partial(
        taken, own, options, finish=cast_typed, unsure=unsure, texts=_texts_typed
    )
    fitted = fitted.at_positions(positions)
    rest = positions[open_]
    if decoded.rejects:
        mine = set(positions.tolist())
        faults = {at: misfit for at, misfit in decoded.rejects.items() if at in mine}
        fitted = replace(fitted, rejects=fitted.rejects | faults)
        rest = np.setdiff1d(rest, [*faults])
    return fitted, rest


def _texts_typed(wanted: Sequence[tuple[LeftOutColumn, Positions]]) -> list[list[str] | None]:
    found: list[list[str] | None] = []
    for left, places in wanted:
        kind = left.array.type
        untold = pa.types.is_nested(kind) or pa.types.is_floating(kind)  # 1 and 1.0 are one double
        found.append(None if untold else [*map(as_json, values_at(left.array, places))])
    return found


def _read(
    values: pa.BinaryArray, shape: Schema, own: Schema
) -> tuple[PrescanResult, pa.StructArray | None]:
    """Read the values that look like a shape; None where they are few, or do not parse.

    Decimals are read from texts as well. Where the column is none of numbers, a text is something
    else than a number, so values are looked at first.
    """
    mixes = _takes_texts_for_numbers(shape, own)
    parsed = ParseFailure() if mixes else parse_block(values, shape)
    if not isinstance(parsed, ParseFailure):
        everything = np.ones(len(values), np.bool_)
        return PrescanResult(everything, ~everything), parsed
    look = prescan(values, shape, decimals=int | float)
    if look.plain.sum() < _ALIKE_MIN:
        return PrescanResult(np.zeros(len(values), np.bool_), look.broken), None
    parsed = parse_block(values.filter(pa.array(look.plain)), shape)
    if isinstance(parsed, ParseFailure):
        return PrescanResult(np.zeros(len(values), np.bool_), look.broken), None
    return look, parsed


def _takes_texts_for_numbers(shape: Type, own: Type | None) -> bool:
    match shape, own:
        case Struct(), Struct():
            pairs = ((each.type, own.field(each.name)) for each in shape.fields)
            return any(
                _takes_texts_for_numbers(type_, declared.type)
                for type_, declared in pairs
                if declared is not None
            )
        case Decimal(), Kind.INT | Kind.LONG | Decimal():
            return False
        case _:
            return isinstance(shape, Decimal)


def _sampled_shape(values: pa.BinaryArray, own: Schema, options: RowOptions) -> Schema | None:
    """Return the types that a sample shows where its values are not of a schema's own."""
    shape, seen = own, False
    for index in sample_positions(len(values)):
        try:
            record = parse_object(values[index].as_py(), depth_max=options.depth_max)
        except RejectError:
            continue
        seen, wider = True, _with_sampled(record, shape, own)
        if columns_in(wider) - columns_in(own) <= LEARNED_MAX:
            shape = wider
    return shape if seen else None


def _with_sampled(record: dict[str, Any], shape: Struct, own: Struct) -> Struct:
    fields = {each.name: each for each in shape.fields}
    for name, value in record.items():
        declared, known = own.field(name), fields.get(name)
        if declared is None or known is None:
            before = Kind.UNKNOWN if known is None else known.type
            fields[name] = Field(name, join(before, type_of(value))[0])
        else:
            fields[name] = Field(name, _type_shown(value, known.type, declared.type))
    return Struct(tuple(fields.values()))


def _type_shown(value: Any, shape: Type, own: Type) -> Type:
    """Return the type to read a column by: the first one that a value asks for counts."""
    if isinstance(value, dict) and isinstance(own, Struct) and isinstance(shape, Struct):
        return _with_sampled(value, shape, own)
    if value is None or shape != own:
        return shape
    match value, own:
        case (dict(), Struct()) | (list(), List()):
            return shape
        case ((bool() | dict() | list()), _):
            return type_of(value)
        case JsonNumber(), Kind.FLOAT | Kind.DOUBLE:
            return shape
        case JsonNumber(), Kind.INT | Kind.LONG if _is_plain(value, own):
            return shape
        case JsonNumber(), _:
            return WIDEST
        case str(), Decimal() | Struct() | List():
            return Kind.STRING
        case str(), Kind.INT | Kind.LONG | Kind.FLOAT | Kind.DOUBLE | Kind.BOOLEAN | Kind.UNKNOWN:
            return Kind.STRING
        case _:
            return shape


def _is_plain(number: JsonNumber, own: Kind) -> bool:
    bound = 1 << (31 if own is Kind.INT else 63)
    digits = number.removeprefix("-")  # Python refuses to read thousands of them
    if len(digits) > len(str(bound)) or not digits.isdecimal():
        return False
    return -bound <= int(number) < bound


def _classified(
    values: pa.BinaryArray, parsed: pa.StructArray, own: Schema, options: RowOptions
) -> tuple[BlockResult, Mask]:
    """Sort records that were read by another shape, and tell which are undecided."""
    unsure = mask_of(parsed.is_null())
    marks = not_numbers(parsed)  # not JSON, whatever else it may be
    if marks is not None:
        unsure = unsure | (marks != 0)
    if options.envelope in WITH_PLACEHOLDERS:
        pattern = placeholder(options.unavailable_value).pattern
        unsure = unsure | mask_of(pc.match_substring_regex(values, pattern))

    def texts(wanted: Sequence[tuple[LeftOutColumn, Positions]]) -> Sequence[list[str] | None]:
        return raw_texts(values, [(left.names, places) for left, places in wanted])

    def finished(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
        done = _finish(array, type_, options)
        return (
            done
            if done.uncertain is None
            else replace(done, uncertain=resolve_large(done.uncertain, values))
        )

    return split_partial(parsed, own, options, finish=finished, unsure=unsure, texts=texts)


def _finish(array: pa.Array, own: Type, options: RowOptions) -> CastResult:
    """Finish a column; where it was read by another type, mark all of its values."""
    exact = own in (Kind.INT, Kind.LONG) or isinstance(own, Decimal)
    if isinstance(own, List) or array.type == parsed_type(own):
        return cast_column(array, own, options)
    if exact and pa.types.is_decimal(array.type):
        return cast_column(array, own, options)
    return CastResult(pa.nulls(len(array), arrow_type(own)), np.ones(len(array), np.uint8))
