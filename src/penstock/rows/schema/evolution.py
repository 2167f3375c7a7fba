"""What refused records ask of a table's schema, whatever their format.

A record whose schema is known asks for the columns and types of that schema, all at once; a plain
JSON record asks for what it holds (widening.py).

Invariants: those of widening.py; the answer is a function of the schema, the records, their schemas
and their order alone.

Source: data.md 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.names import folded
from penstock.core.schema import (
    PRECISION_MAX,
    Decimal,
    Field,
    Kind,
    List,
    Map,
    Schema,
    Struct,
    Type,
)
from penstock.core.schema_join import known
from penstock.rows.bisection import bisect_on_error
from penstock.rows.decode.decoder import ReaderCache, ReaderGroup, decode_values
from penstock.rows.decode.format_reader import FormatReader, NoRowError
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, usable_columns
from penstock.rows.schema.widening import EvolutionPolicy, widened, with_identifiers

_WIDER = {(Kind.INT, Kind.LONG): Kind.LONG, (Kind.FLOAT, Kind.DOUBLE): Kind.DOUBLE}


def requested_schema(
    batch: pa.RecordBatch,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache,
    columns_left: int,
) -> Schema:
    """Widen a schema for a batch of records that it refused, as far as the options give leave.

    A record that would bring more than `room` further columns in all is left out, and so is one
    that raises what nobody foresaw. Raises what `Registry.find` raises.
    """
    wish = _Evolution(schema, options, readers, columns_left, schema)
    bisect_on_error(batch, wish.take)
    return with_identifiers(wish.wide, options.identifiers)


@dataclass(slots=True)
class _Evolution:
    """A schema that gets wider with each part of a batch; one that raises leaves it as it was."""

    schema: Schema
    options: RowOptions
    readers: ReaderCache
    columns_left: int
    wide: Schema

    def take(self, part: pa.RecordBatch) -> None:
        """Widen it for the records of a part."""
        self.wide = _requested(part, self)


def _requested(batch: pa.RecordBatch, wish: _Evolution) -> Schema:
    schema, options, readers, room = wish.schema, wish.options, wish.readers, wish.columns_left
    wide = wish.wide
    valued = np.flatnonzero(batch.column("value").is_valid().to_numpy(zero_copy_only=False))
    leave = EvolutionPolicy.of(options, room)
    apart = frozenset({*options.source_columns.values(), *options.header_columns})
    for group in decode_values(batch, valued, options, readers, _changes(schema, options)).groups:
        left = room - columns_in(wide) + columns_in(schema)
        told = group.type if group.reader is None else group.reader.type
        if isinstance(told, Struct):
            asked = _struct(
                wide, known(options.asked_for(usable_columns(told), wide)), leave, apart
            )
            if columns_in(asked) - columns_in(wide) <= left:
                left -= columns_in(asked) - columns_in(wide)
                wide = asked
        if group.reader is None:
            wide = widened(wide, group.values.to_pylist(), options, left)
        elif leave.types:
            wide = _for_nulls(wide, group, group.reader, apart)
    return wide


def _changes(schema: Schema, options: RowOptions) -> dict[str, str]:
    changes = options.change_columns.items()
    return {role: column for role, column in changes if schema.field(column) is not None}


def _struct(
    type_: Struct, asked: Struct, leave: EvolutionPolicy, apart: frozenset[str] = frozenset()
) -> Struct:
    fields = []
    for field in type_.fields:
        wanted = None if field.name in apart else asked.field(field.name)
        wider = field.type if wanted is None else _wider(field.type, wanted.type, leave)
        fields.append(Field(field.name, wider, field.required))
    if leave.columns:
        taken = {folded(field.name) for field in fields}
        for field in asked.fields:
            if folded(field.name) not in taken:
                fields.append(Field(field.name, field.type))
                taken.add(folded(field.name))
    return Struct(tuple(fields))


def _wider(type_: Type, asked: Type, leave: EvolutionPolicy) -> Type:
    match type_, asked:
        case Struct(), Struct():
            return _struct(type_, asked, leave)
        case List(element, required), List(other):
            return List(_wider(element, other, leave), required)
        case Map(key, value, required), Map(_, other):
            return Map(key, _wider(value, other, leave), required)
        case (Kind(), Kind()) if leave.types:
            return _WIDER.get((type_, asked), type_)
        case Decimal(precision, scale), Decimal(other_precision, other_scale) if leave.types:
            digits = max(precision - scale, other_precision - other_scale) + scale
            fits = other_scale <= scale and digits <= PRECISION_MAX
            return Decimal(digits, scale) if fits else type_
        case _:
            return type_


def _for_nulls(
    wide: Struct, group: ReaderGroup, reader: FormatReader, apart: frozenset[str]
) -> Struct:
    """Make columns optional in which a record has null."""
    for value in group.values.to_pylist():
        try:
            wide = _nullable(wide, reader.record(value), apart)
        except (RejectError, NoRowError):
            continue
    return wide


def _nullable(type_: Struct, value: dict[str, Any], apart: Iterable[str] = ()) -> Struct:
    fields = []
    for field in type_.fields:
        if field.name in apart:
            fields.append(field)
            continue
        member = value.get(field.name)
        required = field.required and member is not None
        fields.append(Field(field.name, _within(field.type, member), required))
    return Struct(tuple(fields))


def _within(type_: Type, value: Any) -> Type:
    match type_, value:
        case Struct(), dict():
            return _nullable(type_, value)
        case List(element, required), list():
            for item in value:
                element = _within(element, item)
            return List(element, required and None not in value)
        case Map(key, inner, required), dict():
            for item in value.values():
                inner = _within(inner, item)
            return Map(key, inner, required and None not in value.values())
        case _:
            return type_
