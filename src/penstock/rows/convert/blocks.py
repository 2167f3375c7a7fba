"""Sort the records of one block into rows and rejects, by blocks where that can be.

Invariants: every record of a block is either a row or a reject, under its position in the block;
rows are in the order of their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.schema import Kind, Schema, Struct
from penstock.rows.arrow_arrays import Mask, lengths_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions, merged_counts
from penstock.rows.cast.json_columns import Uncertain, cast_column, resolve_large, without_text
from penstock.rows.cast.record_cast import Cast, compile_record_cast
from penstock.rows.cast.rescued_column import LeftOut, rescued_json
from penstock.rows.cast.spellings import normalized, respelled, schema_as_spelled
from penstock.rows.cast.typed_columns import cast_typed, count_unknown
from penstock.rows.convert.bulk_rejects import (
    classify_similar,
    classify_typed,
    taken_at,
    unreadable,
)
from penstock.rows.decode.decoder import ReaderGroup
from penstock.rows.decode.format_reader import FormatReader, NoRowError
from penstock.rows.decode.json.block_parser import (
    BLOCK_BYTES_MAX,
    BLOCK_ROWS_MAX,
    can_parse,
    parse_block,
)
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import Policy, RowOptions
from penstock.rows.reject_codes import RejectError

FEW_ROWS, FEW_BYTES = 16, 2048
"""The fixed cost of a block, in small records converted one by one."""


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """Prepared once for a table: payload columns and compiled converter."""

    schema: Schema
    payload: Schema
    options: RowOptions
    fit: Cast
    by_block: bool
    not_empty: tuple[int, ...]
    """The columns of the payload that must not hold an empty text."""

    @classmethod
    def of(cls, schema: Schema, options: RowOptions) -> ConversionPlan:
        """Work out the plan of a table. Raises ZoneInfoNotFoundError for an unknown zone."""
        not_payload = {*options.source_columns.values(), *options.header_columns}
        options = _with_rescue(options, schema)
        if options.rescues:
            not_payload.add(options.rescued_column)
        payload = Struct(tuple(f for f in schema.fields if f.name not in not_payload))
        by_block = can_parse(payload, options.depth_max)
        not_empty = tuple(
            index
            for index, field in enumerate(payload.fields)
            if field.type is Kind.STRING and field.name in options.not_empty
        )
        return cls(
            schema, payload, options, compile_record_cast(payload, options), by_block, not_empty
        )


def _with_rescue(options: RowOptions, schema: Schema) -> RowOptions:
    """Return options that rescue only where the table has the column for it."""
    if not options.rescues:
        return options
    found = schema.field(options.rescued_column)
    if found is not None and found.type is Kind.STRING:
        return options
    columns: Policy = "quarantine" if options.columns == "rescue" else options.columns
    types: Policy = "quarantine" if options.types == "rescue" else options.types
    return replace(options, columns=columns, types=types)


def convert_group(group: ReaderGroup, plan: ConversionPlan) -> Iterator[BlockResult]:
    """Sort the values of one group, block by block; positions are the group's."""
    reader = group.reader and respelled(group.reader, plan.payload, plan.options)
    for start, stop in _blocks(group.values):
        values = group.values.slice(start, stop - start)
        # A parse of a block waits for a thread: few values are read faster one by one.
        are_few = len(values) <= FEW_ROWS and int(lengths_of(values).sum()) <= FEW_BYTES
        if reader is None and are_few:
            fitted = convert_records(values, np.arange(len(values)), plan)
        elif reader is None:
            fitted = convert_json_block(values, plan)
        else:
            fitted = convert_typed_block(values, reader, plan)
        yield fitted.at_positions(group.positions[start:stop])


def _blocks(values: pa.BinaryArray) -> Iterator[tuple[int, int]]:
    """Cut values into blocks bounded in rows and bytes; one value may exceed the bytes."""
    ends = np.cumsum(lengths_of(values), dtype=np.int64)
    start = 0
    while start < len(values):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BLOCK_BYTES_MAX, side="right"))
        stop = min(max(stop, start + 1), start + BLOCK_ROWS_MAX)
        yield start, stop
        start = stop


def convert_json_block(values: pa.BinaryArray, plan: ConversionPlan) -> BlockResult:
    """Sort the values of one block, none of them null or without bytes."""
    rest = np.arange(len(values))
    if not plan.by_block:
        return convert_records(values, rest, plan)
    own = plan.payload
    if not plan.options.is_exact:
        own = schema_as_spelled(values, own, plan.options)
    pieces: list[BlockResult] = []
    parsed = parse_block(values, own)
    if parsed is not None:
        done = cast_column(parsed, plan.payload, plan.options)
        marks = resolve_large(done.uncertain, values)
        uncertain = _marked(unreadable(parsed, values, plan.options), marks, done.array, plan)
        pieces.append(_certain(done.array, uncertain))
        rest = rest[uncertain]
    if len(rest):
        alike: Sequence[BlockResult] = ()
        if not plan.options.names:  # a field by another name is none that the table lacks
            alike, rest = classify_similar(values, rest, own, plan.options, refused=parsed is None)
        pieces += [*alike, convert_records(values, rest, plan)]
    return BlockResult.concat(pieces, plan.payload)


def convert_typed_block(
    values: pa.BinaryArray, reader: FormatReader, plan: ConversionPlan
) -> BlockResult:
    """Sort the values of one block of a format with types, none of them null."""
    everything = np.arange(len(values))
    try:
        decoded = reader.block(values)
    except pa.ArrowInvalid:  # a value that Arrow cannot hold: one by one it is found
        return convert_records(values, everything, plan, reader.record)
    done = cast_typed(decoded.array, plan.payload, plan.options)
    uncertain = _marked(decoded.uncertain, done.uncertain, done.array, plan)
    pieces = [_certain(done.array, uncertain)]
    if plan.options.columns == "drop_value":
        count_unknown(_without(decoded.array, uncertain), plan.payload, pieces[0].dropped)
    if uncertain.any():
        alike, rest = classify_typed(decoded, everything[uncertain], plan.payload, plan.options)
        pieces += [alike, convert_records(values, rest, plan, reader.record)]
    return BlockResult.concat(pieces, plan.payload)


def _marked(
    unread: Mask, marks: Uncertain | None, rows: pa.StructArray, plan: ConversionPlan
) -> Mask:
    found = unread if marks is None else unread | (marks != 0)
    for index in plan.not_empty:
        found = found | without_text(rows.field(index))
    return found


def _certain(rows: pa.StructArray, uncertain: Mask) -> BlockResult:
    return BlockResult(_without(rows, uncertain), np.flatnonzero(~uncertain), {}, Counter())


def _without(array: pa.StructArray, uncertain: Mask) -> pa.StructArray:
    return array.filter(pa.array(~uncertain)) if uncertain.any() else array


def convert_records(
    values: pa.BinaryArray,
    positions: Positions,
    plan: ConversionPlan,
    read: Callable[[bytes], dict[str, Any]] | None = None,
) -> BlockResult:
    """Sort the values at some positions one by one; they are JSON unless `read` is given."""
    rows, landed = [], []
    rejects: dict[int, RejectError] = {}
    dropped: Counter[str] = Counter()
    filtered: Counter[str] = Counter()
    rescued: dict[int, str] = {}
    texts = taken_at(values, positions).to_pylist()
    for position, value in zip(positions.tolist(), texts, strict=True):
        drops = LeftOut()
        try:
            record = _read(value, plan) if read is None else read(value)
            rows.append(plan.fit(record, drops))
        except RejectError as error:
            rejects[position] = error.without_traceback()
            continue
        except NoRowError as without:
            filtered[without.reason] += 1
            continue
        landed.append(position)
        if drops.paths:
            dropped.update(drops.paths)
        if (text := rescued_json(drops.rescued)) is not None:
            rescued[position] = text
    array = pa.array(rows, arrow_type(plan.payload))
    return BlockResult(
        array, np.array(landed, np.int64), rejects, merged_counts([dropped]), filtered, rescued
    )


def _read(value: bytes, plan: ConversionPlan) -> dict[str, Any]:
    record = parse_object(value, depth_max=plan.options.depth_max)
    return record if plan.options.is_exact else normalized(record, plan.payload, plan.options)
