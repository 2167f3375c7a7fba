"""Records that do not fit are read once more as a block, by the types that a few of them show.

A text where the table has a number, a field that it does not have: so each fault becomes a column,
which is examined as a whole (column_classifier.py). What columns cannot decide is left to the
record converter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Kind, List, Schema, Struct, Type
from penstock.rows.arrow_arrays import Mask, mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions
from penstock.rows.cast.json_columns import CastResult, cast_column, not_numbers, resolve_large
from penstock.rows.cast.typed_columns import cast_typed
from penstock.rows.convert.column_classifier import classify_columns
from penstock.rows.convert.left_out_columns import raw_texts, texts_of_typed
from penstock.rows.convert.sampled_shape import sampled_shape
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.format_reader import DecodedBlock
from penstock.rows.decode.json.block_parser import parse_block, parsed_type
from penstock.rows.decode.json.exact_text import NUMERIC
from penstock.rows.options import Policy, RowOptions

_SHAPES_MAX = 4
_ALIKE_MIN = 64
_PARTS, _PART_ROWS_MIN = 8, 128
_FAULTS_MAX = 100

_NUMBER = int | float | Annotated[str, msgspec.Meta(pattern=f"^(?:{NUMERIC.pattern})$")]
"""Replaces a decimal: pyarrow.json reads decimals out of texts as well."""
_PLAIN: dict[Type, Any] = {
    Kind.UNKNOWN: None,
    Kind.BOOLEAN: bool,
    Kind.INT: Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    Kind.LONG: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
}


def classify_similar(
    values: pa.BinaryArray,
    positions: Positions,
    own: Schema,
    options: RowOptions,
    *,
    refused: bool = False,
) -> tuple[list[BlockResult], Positions]:
    """Decide on the records at some positions as far as columns can, and return the others.

    `own` are the columns that records are read into; where they are known not to parse by these,
    they are `refused`. Records are read by at most `_SHAPES_MAX` sets of types, so that no sender
    of many kinds of rejects makes this slow.
    """
    pieces: list[BlockResult] = []
    left = positions
    for _ in range(_SHAPES_MAX):
        if len(left) < _ALIKE_MIN:
            break
        taken = taken_at(values, left)
        shape = sampled_shape(taken, own, options)
        if shape is None:
            break
        parsed = None if refused and shape == own else parse_block(taken, shape)
        mine, left_over = left, left[:0]
        if parsed is None:
            plain, broken = _prescan(taken, shape)
            mine, parsed = _parsed_in_parts(values, left[plain], shape)
            taken, left_over = taken_at(values, mine), left[~(plain | broken)]
        pieces.append(_classified(taken, parsed, own, options).at_positions(mine))
        left = left_over
    return pieces, undecided(positions, pieces)


def _prescan(values: pa.BinaryArray, schema: Schema) -> tuple[Mask, Mask]:
    """Find at C speed which values look like records of a schema, and which are no JSON at all.

    It is a guess that costs time when wrong and never a row: the former are parsed, which checks
    them, and all others are read by the record converter.
    """
    plain = np.zeros(len(values), np.bool_)
    broken = np.zeros(len(values), np.bool_)
    decode = _decoder(schema)
    if decode is None:
        return plain, broken
    for index, value in enumerate(values.to_pylist()):
        try:
            decode(value)
        except (msgspec.ValidationError, RecursionError):
            continue
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken[index] = True
            continue
        plain[index] = True
    return plain, broken


@lru_cache(maxsize=64)
def _decoder(schema: Schema) -> Callable[[bytes], Any] | None:
    try:
        return msgspec.json.Decoder(_plain_type(schema)).decode
    except ValueError:
        # msgspec has no place for some names (quotes, control characters).
        return None


def _plain_type(type_: Type) -> Any:
    match type_:
        case Struct(fields):
            names = {f"f{index}": field.name for index, field in enumerate(fields)}
            types = [_optional(field.type) | msgspec.UnsetType for field in fields]
            members = [(*member, msgspec.UNSET) for member in zip(names, types, strict=True)]
            return msgspec.defstruct(
                "Plain", members, rename=names, forbid_unknown_fields=True, gc=False
            )
        case List(element):
            return list[_optional(element)]  # type: ignore[misc]
        case Decimal():
            return _NUMBER
        case _:
            return _PLAIN.get(type_, str)


def _optional(type_: Type) -> Any:
    return None if type_ is Kind.UNKNOWN else _plain_type(type_) | None


def _parsed_in_parts(
    values: pa.BinaryArray, positions: Positions, shape: Schema
) -> tuple[Positions, pa.StructArray]:
    """Parse plain records; a fault that no scan of single values shows excludes some others."""
    waiting, faults = [positions] if len(positions) else [], 0
    done, parts = [positions[:0]], [pa.array([], parsed_type(shape))]
    while waiting:
        part = waiting.pop(0)
        parsed = parse_block(taken_at(values, part), shape)
        if parsed is not None:
            done.append(part)
            parts.append(parsed)
        elif len(part) > _PART_ROWS_MIN and faults < _FAULTS_MAX:
            faults += 1
            if faults == 1:
                part = part[_has_keys_once(taken_at(values, part), shape)]
            waiting[:0] = np.array_split(part, _PARTS)
    return np.concatenate(done), pa.concat_arrays(parts)


def _has_keys_once(values: pa.BinaryArray, shape: Schema) -> Mask:
    """Guess which plain records have no duplicate key: written anew they have as many colons."""
    read, write = _decoder(shape), msgspec.json.encode
    assert read is not None, "they were found plain by it"
    once = (value.count(b":") == write(read(value)).count(b":") for value in values.to_pylist())
    return np.fromiter(once, np.bool_, len(values))


def taken_at(values: pa.BinaryArray, positions: Positions) -> pa.BinaryArray:
    """Return the values at rising positions, each named once."""
    return values if len(positions) == len(values) else values.take(pa.array(positions))


def undecided(positions: Positions, pieces: Sequence[BlockResult]) -> Positions:
    """Return the positions that are in no piece."""
    landed = [each.positions for each in pieces]
    rejected = [np.fromiter(each.rejects, np.int64, len(each.rejects)) for each in pieces]
    decided = np.concatenate([positions[:0], *landed, *rejected])
    return np.setdiff1d(positions, decided, assume_unique=True)


def classify_typed(
    decoded: DecodedBlock, positions: Positions, own: Schema, options: RowOptions
) -> tuple[BlockResult, Positions]:
    """Decide on typed records as far as columns can, and return the others."""
    taken = decoded.array.take(pa.array(positions))
    unsure = decoded.uncertain[positions]
    found = classify_columns(
        taken, own, options, cast=cast_typed, unsure=unsure, texts_of=texts_of_typed
    ).at_positions(positions)
    uncertain = set(positions.tolist())
    found.rejects.update({at: e for at, e in decoded.rejects.items() if at in uncertain})
    return found, undecided(positions, [found])


def unreadable(parsed: pa.StructArray, values: pa.BinaryArray, options: RowOptions) -> Mask:
    """Return the records that columns cannot decide: null, or with a placeholder in their text."""
    found = np.array(mask_of(parsed.is_null()))
    if options.envelope in WITH_PLACEHOLDERS:
        pattern = placeholder(options.unavailable_value).pattern
        found |= mask_of(pc.match_substring_regex(values, pattern))
    return found


def _classified(
    values: pa.BinaryArray, parsed: pa.StructArray, own: Schema, options: RowOptions
) -> BlockResult:
    unsure = unreadable(parsed, values, options)
    uncertain = not_numbers(parsed)  # not JSON, whatever else it may be
    if uncertain is not None:
        unsure |= uncertain != 0

    def cast(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
        exact = type_ in (Kind.INT, Kind.LONG) or isinstance(type_, Decimal)
        is_read = array.type == parsed_type(type_) or (exact and pa.types.is_decimal(array.type))
        if not is_read and not isinstance(type_, List):  # it was read by another type
            nothing = pa.nulls(len(array), arrow_type(type_))
            return CastResult(nothing, np.ones(len(array), np.uint8))
        done = cast_column(array, type_, options)
        return replace(done, uncertain=resolve_large(done.uncertain, values))

    asked = options
    if not options.case_sensitive:
        unknown: Policy = "drop_value" if options.columns == "drop_value" else "quarantine"
        asked = replace(options, columns=unknown, types="quarantine")
    texts_of = partial(raw_texts, values)
    found = classify_columns(parsed, own, asked, cast=cast, unsure=unsure, texts_of=texts_of)
    # A reject names columns, which may be spelled otherwise here: the record converter knows them.
    return found if options.case_sensitive else replace(found, rejects={})
