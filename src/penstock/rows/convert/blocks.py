"""Sort the records of one block into rows and rejects, by blocks where that can be.

Invariants: every record of a block is either a row or a reject, under its position in the block;
rows stand in the order of their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Kind, Schema, Struct
from penstock.rows.arrow_arrays import lengths_of, mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult, Positions, merged_counts
from penstock.rows.cast.case_insensitive import normalized, schema_as_spelled
from penstock.rows.cast.json_columns import (
    UNCERTAIN,
    Uncertain,
    cast_column,
    resolve_large,
    without_text,
)
from penstock.rows.cast.record_cast import Cast, compile_record_cast
from penstock.rows.cast.rescued_column import LeftOut, rescued_json
from penstock.rows.cast.typed_columns import cast_typed, count_unknown
from penstock.rows.convert.bulk_rejects import classify_block, classify_similar, classify_typed
from penstock.rows.convert.prescan import prescan
from penstock.rows.decode.decoder import ReaderGroup
from penstock.rows.decode.envelope.json_envelopes import WITH_PLACEHOLDERS
from penstock.rows.decode.envelope.toast_placeholder import placeholder
from penstock.rows.decode.format_reader import FormatReader, NoRowError
from penstock.rows.decode.json.block_parser import (
    BLOCK_BYTES_MAX,
    BLOCK_ROWS_MAX,
    ParseFailure,
    can_parse,
    parse_block,
)
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import Policy, RowOptions
from penstock.rows.reject_codes import RejectError

_PARTS = 8
_PART_ROWS, _PART_ROWS_MIN = 4096, 64
_FAULTS_MAX = 16
FEW_ROWS, FEW_BYTES = 16, 2048
"""What a block takes at the least is the time of so many small records one by one."""


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """What is worked out once for a table: payload columns and compiled converter."""

    schema: Schema
    payload: Schema
    options: RowOptions
    fit: Cast
    by_block: bool
    not_empty: tuple[int, ...]
    """Which columns of the payload must not hold an empty text."""

    @classmethod
    def of(cls, schema: Schema, options: RowOptions) -> ConversionPlan:
        """Work out the plan of a table. Raises ZoneInfoNotFoundError for an unknown zone."""
        apart = {*options.source_columns.values(), *options.header_columns}
        options = _with_rescue(options, schema)
        if options.rescues:
            apart.add(options.rescued_column)
        payload = Struct(tuple(f for f in schema.fields if f.name not in apart))
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
    kept: dict[str, Policy] = {
        name: "quarantine" if policy == "rescue" else policy
        for name, policy in (("columns", options.columns), ("types", options.types))
    }
    return replace(options, columns=kept["columns"], types=kept["types"])


@dataclass(slots=True)
class _BlockConverter:
    """Collect the pieces of one block while it is taken apart."""

    plan: ConversionPlan
    values: pa.BinaryArray
    own: Schema
    """The payload's columns as the records spell them."""
    pieces: list[BlockResult] = field(default_factory=list)
    uncertain: list[Positions] = field(default_factory=list)
    broken: Positions = field(default_factory=lambda: np.zeros(0, np.int64))
    """What is no JSON: no other way of reading it is tried."""

    def parse(self, positions: Positions) -> ParseFailure | None:
        """Land the records at some positions as one block, or tell that it does not parse."""
        values = self.values
        if len(positions) != len(values):
            values = values.take(pa.array(positions))
        parsed = parse_block(values, self.own)
        if isinstance(parsed, ParseFailure):
            return parsed
        done = cast_column(parsed, self.plan.payload, self.plan.options)
        rows, uncertain = done.array, _uncertain(parsed, done.uncertain, values)
        for index in self.plan.not_empty:
            uncertain |= without_text(rows.field(index))
        if self.plan.options.envelope in WITH_PLACEHOLDERS:
            pattern = placeholder(self.plan.options.unavailable_value).pattern
            uncertain |= mask_of(pc.match_substring_regex(values, pattern))
        if uncertain.any():
            self.uncertain.append(positions[uncertain])
            rows, positions = rows.filter(pa.array(~uncertain)), positions[~uncertain]
        self.pieces.append(BlockResult(rows, positions, {}, Counter()))
        return None

    def bisect(self, positions: Positions) -> None:
        """Parse what can be parsed as blocks; the records around each fault are uncertain.

        Where rejects are many, one parse for each would cost more than to look at all records.
        """
        rejects = 0
        while len(positions) > _PART_ROWS_MIN and rejects < _FAULTS_MAX:
            refused = self.parse(positions)
            if refused is None:
                return
            if len(positions) > _PART_ROWS or refused.row is None or refused.row >= len(positions):
                for part in np.array_split(positions, _PARTS):
                    self.bisect(part)
                return
            self.bisect(positions[: refused.row])
            self.uncertain.append(positions[refused.row : refused.row + 1])
            rejects += 1
            positions = positions[refused.row + 1 :]
        self.uncertain.append(positions)


def convert_group(group: ReaderGroup, plan: ConversionPlan) -> Iterator[BlockResult]:
    """Sort the values of one group, block by block; positions are the group's."""
    for start, stop in _blocks(group.values):
        values = group.values.slice(start, stop - start)
        if group.reader is None and _are_few(values):
            fitted = convert_records(values, np.arange(len(values)), plan)
        elif group.reader is None:
            fitted = convert_json_block(values, plan)
        else:
            fitted = convert_typed_block(values, group.reader, plan)
        yield fitted.at_positions(group.positions[start:stop])


def _are_few(values: pa.BinaryArray) -> bool:
    """Return whether values are read faster one by one: a parse of a block waits for a thread."""
    return len(values) <= FEW_ROWS and int(lengths_of(values).sum()) <= FEW_BYTES


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
    everything = np.arange(len(values))
    if not plan.by_block:
        return convert_records(values, everything, plan)
    own = plan.payload
    if not plan.options.case_sensitive:
        own = schema_as_spelled(values, own, plan.options)
    sorting = _BlockConverter(plan, values, own)
    if sorting.parse(everything) is not None:
        _convert_faulty(sorting, everything)
    if sorting.uncertain:
        rest = np.sort(np.concatenate(sorting.uncertain))
        alike, rest = classify_similar(values, rest, own, plan.options)
        sorting.pieces += alike
        rest = np.sort(np.concatenate([rest, sorting.broken]))
        sorting.pieces.append(convert_records(values, rest, plan))
    return BlockResult.concat(sorting.pieces, plan.payload)


def _convert_faulty(sorting: _BlockConverter, everything: Positions) -> None:
    """Sort a block that did not parse: by what its records show, or the plain ones as blocks."""
    whole = classify_block(sorting.values, sorting.own, sorting.plan.options)
    if whole is not None:
        found, undecided = whole
        sorting.pieces.append(found)
        sorting.uncertain.append(everything[undecided])
        return
    look = prescan(sorting.values, sorting.own)
    sorting.broken = everything[look.broken]
    sorting.uncertain.append(everything[~(look.plain | look.broken)])
    sorting.bisect(everything[look.plain])


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
    uncertain = decoded.uncertain.copy()
    if done.uncertain is not None:
        uncertain |= (done.uncertain & UNCERTAIN) != 0
    for index in plan.not_empty:
        uncertain |= without_text(done.array.field(index))
    rows, taken, positions = done.array, decoded.array, everything
    if uncertain.any():
        certain = pa.array(~uncertain)
        rows, taken, positions = rows.filter(certain), taken.filter(certain), everything[~uncertain]
    dropped: Counter[str] = Counter()
    if plan.options.columns == "drop_value":
        count_unknown(taken, plan.payload, dropped)
    pieces = [BlockResult(rows, positions, {}, dropped)]
    if uncertain.any():
        alike, rest = classify_typed(decoded, everything[uncertain], plan.payload, plan.options)
        pieces += [alike, convert_records(values, rest, plan, reader.record)]
    return BlockResult.concat(pieces, plan.payload)


def convert_records(
    values: pa.BinaryArray,
    positions: Positions,
    plan: ConversionPlan,
    read: Callable[[bytes], dict[str, Any]] | None = None,
) -> BlockResult:
    """Sort the values at some positions one by one; they are JSON unless `read` is given."""
    if read is None:
        read = partial(_read, plan=plan)
    rows, landed = [], []
    rejects: dict[int, RejectError] = {}
    dropped: Counter[str] = Counter()
    filtered: Counter[str] = Counter()
    rescued: dict[int, str] = {}
    taken = values if len(positions) == len(values) else values.take(pa.array(positions))
    for position, value in zip(positions.tolist(), taken.to_pylist(), strict=True):
        drops = LeftOut()
        try:
            rows.append(plan.fit(read(value), drops))
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


def _read(value: bytes, *, plan: ConversionPlan) -> dict[str, Any]:
    record = parse_object(value, depth_max=plan.options.depth_max)
    return record if plan.options.case_sensitive else normalized(record, plan.payload)


def _uncertain(
    parsed: pa.StructArray, uncertain: Uncertain | None, values: pa.BinaryArray
) -> npt.NDArray[np.bool_]:
    """Return which rows the record converter must read: null records, and marked ones."""
    found: npt.NDArray[np.bool_] = np.zeros(len(parsed), np.bool_)
    if parsed.null_count:
        found |= parsed.is_null().to_numpy(zero_copy_only=False)
    if uncertain is not None:
        found |= resolve_large(uncertain, values) != 0
    return found
