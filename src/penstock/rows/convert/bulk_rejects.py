"""Records that do not fit are read once more as a block, by the types that a few of them show.

A text where the table has a number, a field that it does not have: so each fault becomes a column,
which is looked at as a whole (column_classifier.py). What columns cannot tell is left to the record
converter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Decimal, Kind, List, Schema, Type
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions
from penstock.rows.cast.json_columns import CastResult, cast_column, not_numbers, resolve_large
from penstock.rows.cast.typed_columns import cast_typed
from penstock.rows.convert.column_classifier import Mask, classify_columns
from penstock.rows.convert.left_out_columns import raw_texts, texts_of_typed
from penstock.rows.convert.prescan import PrescanResult, prescan
from penstock.rows.convert.sampled_shape import sampled_shape
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.format_reader import DecodedBlock
from penstock.rows.decode.json.block_parser import ParseFailure, parse_block, parsed_type
from penstock.rows.options import RowOptions

_SHAPES_MAX = 4
_ALIKE_MIN = 64


def classify_block(
    values: pa.BinaryArray, own: Schema, options: RowOptions
) -> tuple[BlockResult, Mask] | None:
    """Read a block by the types that a few of its records show, and tell which are undecided.

    None where they show none but its own, or not all records are of these types.
    """
    shape = sampled_shape(values, own, options)
    if shape is None or shape == own:
        return None
    parsed = parse_block(values, shape)
    return None if isinstance(parsed, ParseFailure) else _classified(values, parsed, own, options)


def classify_similar(
    values: pa.BinaryArray, positions: Positions, own: Schema, options: RowOptions
) -> tuple[list[BlockResult], Positions]:
    """Decide on the records at some positions of which columns can tell, and return the others.

    `own` are the columns that records are read into. Records are read by at most `_SHAPES_MAX`
    sets of types, so that no sender of many kinds of rejects makes this slow.
    """
    pieces: list[BlockResult] = []
    undecided = []
    for _ in range(_SHAPES_MAX):
        if len(positions) < _ALIKE_MIN:
            break
        taken = values.take(pa.array(positions))
        shape = sampled_shape(taken, own, options)
        if shape is None:
            break
        look = PrescanResult(np.ones(len(taken), np.bool_), np.zeros(len(taken), np.bool_))
        parsed = parse_block(taken, shape)
        if isinstance(parsed, ParseFailure):
            look = prescan(taken, shape)
            undecided.append(positions[look.broken])
            if look.plain.sum() >= _ALIKE_MIN:
                taken = taken.filter(pa.array(look.plain))
                parsed = parse_block(taken, shape)
        if isinstance(parsed, ParseFailure):
            if not look.broken.any():
                break
            positions = positions[~look.broken]
            continue
        mine, positions = positions[look.plain], positions[~(look.plain | look.broken)]
        found, open_ = _classified(taken, parsed, own, options)
        pieces.append(found.at_positions(mine))
        undecided.append(mine[open_])
    return pieces, np.sort(np.concatenate([positions, *undecided]))


def classify_typed(
    decoded: DecodedBlock, positions: Positions, own: Schema, options: RowOptions
) -> tuple[BlockResult, Positions]:
    """Decide on records with types of which columns can tell, and return the others."""
    taken = decoded.array.take(pa.array(positions))
    unsure = decoded.uncertain[positions]
    found, open_ = classify_columns(
        taken, own, options, cast=cast_typed, unsure=unsure, texts_of=texts_of_typed
    )
    found, rest = found.at_positions(positions), positions[open_]
    if decoded.rejects:
        mine = set(positions.tolist())
        rejects = {at: error for at, error in decoded.rejects.items() if at in mine}
        found = replace(found, rejects=found.rejects | rejects)
        rest = np.setdiff1d(rest, [*rejects])
    return found, rest


def _classified(
    values: pa.BinaryArray, parsed: pa.StructArray, own: Schema, options: RowOptions
) -> tuple[BlockResult, Mask]:
    """Decide on records that were read by another shape, and tell which are undecided."""
    unsure = mask_of(parsed.is_null())
    uncertain = not_numbers(parsed)  # not JSON, whatever else it may be
    if uncertain is not None:
        unsure = unsure | (uncertain != 0)
    if options.envelope in WITH_PLACEHOLDERS:
        pattern = placeholder(options.unavailable_value).pattern
        unsure = unsure | mask_of(pc.match_substring_regex(values, pattern))

    def cast(array: pa.Array, type_: Type, options: RowOptions) -> CastResult:
        done = _cast(array, type_, options)
        return (
            done
            if done.uncertain is None
            else replace(done, uncertain=resolve_large(done.uncertain, values))
        )

    asked = options if options.case_sensitive else _strict(options)
    texts_of = partial(raw_texts, values)
    found, undecided = classify_columns(
        parsed, own, asked, cast=cast, unsure=unsure, texts_of=texts_of
    )
    if not options.case_sensitive:
        # A reject names columns, which are spelled otherwise here: the record converter knows them.
        undecided[[*found.rejects]] = True
        found = replace(found, rejects={})
    return found, undecided


def _strict(options: RowOptions) -> RowOptions:
    if options.columns != "drop_value":
        options = replace(options, columns="quarantine")
    return replace(options, types="quarantine")


def _cast(array: pa.Array, own: Type, options: RowOptions) -> CastResult:
    """Cast a column; where it was read by another type, mark all of its values."""
    exact = own in (Kind.INT, Kind.LONG) or isinstance(own, Decimal)
    is_decimal = exact and pa.types.is_decimal(array.type)
    if isinstance(own, List) or array.type == parsed_type(own) or is_decimal:
        return cast_column(array, own, options)
    return CastResult(pa.nulls(len(array), arrow_type(own)), np.ones(len(array), np.uint8))
