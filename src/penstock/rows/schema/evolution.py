"""Widens a table's schema, never narrows it, by what rejected records request in any format.

A record with a known schema requests all columns and types of that schema at once; a plain JSON
record requests those of the values it holds.

Invariants:
- identifier columns of the table stay required, whatever records lack them;
- every value that fits the schema fits the wider one, and files written before stay readable:
  columns are added at the end and optional, int becomes long, float double, decimals get more
  digits in front, required becomes optional; nothing else changes;
- the answer is a function of the schema, the records, their schemas and their order alone;
- names that a table cannot carry, or that differ from another in case only, become no columns.

Source: data.md 3; Apache Iceberg table specification, "Schema Evolution".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.names import folded
from penstock.core.schema import (
    LEVELS_MAX,
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
from penstock.core.schema_walk import member
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.bisection import bisect_on_error
from penstock.rows.cast.spellings import normalized, respelled
from penstock.rows.decode.decoder import ReaderCache, ReaderGroup, decode_values
from penstock.rows.decode.format_reader import NoRowError
from penstock.rows.decode.json.exact_text import digits_of
from penstock.rows.decode.json.parser import JsonNumber, parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, type_of, usable_columns

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")
_INT, _LONG = 1 << 31, 1 << 63
_WIDER = {(Kind.INT, Kind.LONG): Kind.LONG, (Kind.FLOAT, Kind.DOUBLE): Kind.DOUBLE}


def requested_schema(
    batch: pa.RecordBatch,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache,
    columns_left: int,
) -> Schema:
    """Widen a schema for a batch of records that it rejected, as far as the options allow.

    A record that would bring more than `columns_left` further columns is left out, and so is one
    that raises an unexpected error. Raises what `Registry.find` raises.
    """
    wide, most = schema, columns_in(schema) + columns_left
    given = options.change_columns.items()
    changes = {role: column for role, column in given if schema.field(column) is not None}

    def widen(part: pa.RecordBatch) -> None:  # a part that raises leaves the schema as it was
        nonlocal wide
        valued = np.flatnonzero(validity_of(part.column("value")))
        groups = decode_values(part, valued, options, readers, changes).groups
        wide = _requested(groups, wide, options, most)

    bisect_on_error(batch, widen)
    return with_identifiers(wide, options.identifiers)


def _requested(
    groups: Iterable[ReaderGroup], wide: Schema, options: RowOptions, columns_max: int
) -> Schema:
    policy = EvolutionPolicy.of(options)
    source_columns = options.beside_value
    for group in groups:
        reader = group.reader and respelled(group.reader, wide, options)
        declared = group.type if reader is None else reader.type
        if isinstance(declared, Struct):
            shown = known(options.asked_for(usable_columns(declared), wide))
            asked = policy.struct(
                wide, {f.name: f.type for f in shown.fields}, LEVELS_MAX, source_columns
            )
            wide = asked if columns_in(asked) <= columns_max else wide
        if reader is None:
            wide = widened(wide, group.values.to_pylist(), options, columns_max - columns_in(wide))
        elif policy.nulls:
            for value in group.values.to_pylist():
                with suppress(RejectError, NoRowError):
                    wide = _NULLS.struct(wide, reader.record(value), LEVELS_MAX, source_columns)
    return wide


def widened(
    schema: Schema, values: Iterable[bytes | None], options: RowOptions, columns_left: int
) -> Schema:
    """Widen a schema for the records that it rejected, as far as the options allow.

    A record that would bring more than `columns_left` further columns is left out; what is nested
    too deeply in it becomes no column.
    """
    policy = EvolutionPolicy.of(options)
    sources = options.beside_value
    wide = schema
    for value in values:
        if value is None or len(value) > options.record_bytes_max:
            continue
        try:
            record = parse_object(value, depth_max=options.depth_max)
            record = record if options.is_exact else normalized(record, wide, options)
        except RejectError:
            continue
        asked = options.asked_for(policy.struct(wide, record, LEVELS_MAX, sources), wide)
        if columns_in(asked) - columns_in(schema) <= columns_left:
            wide = asked
    return with_identifiers(wide, options.identifiers)


def with_identifiers(struct: Struct, paths: Iterable[str]) -> Struct:
    """Make the members at dotted paths required, and those above them."""
    below: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        below.setdefault(name, []).extend([rest] if rest else [])
    if not below:
        return struct
    fields = []
    for field in struct.fields:
        type_ = field.type
        if field.name in below and isinstance(type_, Struct):
            type_ = with_identifiers(type_, below[field.name])
        fields.append(Field(field.name, type_, field.required or field.name in below))
    return Struct(tuple(fields))


def changes_between(before: Type, after: Type, path: str = "") -> list[str]:
    """Return in words what was added or widened, by column path."""
    match before, after:
        case Struct(), Struct():
            found = []
            for field in after.fields:
                place = member(path, field.name)
                old = before.field(field.name)
                if old is None:
                    found.append(f"{place} {field.type} added")
                    continue
                found += [f"{place} optional"] if old.required and not field.required else []
                found += changes_between(old.type, field.type, place)
            return found
        case List(), List():
            return changes_between(before.element, after.element, f"{path}[]")
        case Map(), Map():
            return changes_between(before.value, after.value, f"{path}{{}}")
        case _:
            return [] if before == after else [f"{path} {before} to {after}"]


@dataclass(frozen=True, slots=True)
class EvolutionPolicy:
    """The changes allowed: columns are added, types are widened, nulls make a column optional."""

    columns: bool
    types: bool
    nulls: bool

    @classmethod
    def of(cls, options: RowOptions) -> EvolutionPolicy:
        """Read it from a table's options."""
        types = options.types == "evolve"
        return cls(options.columns == "evolve", types, types)

    def struct(
        self, type_: Struct, asked: Mapping[str, Any], levels: int, sources: Iterable[str] = ()
    ) -> Struct:
        """Widen a struct that may have so many levels for what is asked of its members.

        What is asked is a parsed value, or a type that holds all values there are.
        """
        fields = []
        for field in type_.fields:
            if field.name in sources:
                fields.append(field)
                continue
            value = asked.get(field.name)
            required = field.required and not (self.nulls and value is None)
            fields.append(Field(field.name, self._type(field.type, value, levels - 1), required))
        if self.columns:
            taken = {folded(field.name) for field in fields}
            for name, value in asked.items():
                if folded(name) not in taken:
                    new = value if isinstance(value, Type) else type_of(value)
                    shown = known(usable_columns(Struct((Field(name, new),)), levels)).fields
                    fields += shown
                    taken |= {folded(each.name) for each in shown}
        return Struct(tuple(fields))

    def _type(self, type_: Type, asked: Any, levels: int) -> Type:
        match type_, asked:
            case Struct(), Struct(fields):
                return self.struct(type_, {each.name: each.type for each in fields}, levels)
            case Struct(), dict():
                return self.struct(type_, asked, levels)
            case List(element, required), List(other):
                return List(self._type(element, other, levels - 1), required)
            case List(element, required), list():
                return List(self._joint(element, asked, levels), self._all(required, asked))
            case Map(key, value, required), Map(_, other):
                return Map(key, self._type(value, other, levels - 1), required)
            case Map(key, value, required), dict():
                values = asked.values()
                return Map(key, self._joint(value, values, levels), self._all(required, values))
            case _ if self.types:
                return _wider(type_, asked)
            case _:
                return type_

    def _joint(self, type_: Type, values: Iterable[Any], levels: int) -> Type:
        for value in values:
            type_ = self._type(type_, value, levels - 1)
        return type_

    def _all(self, required: bool, values: Iterable[Any]) -> bool:  # noqa: FBT001  of a type
        return required and not (self.nulls and None in values)


_NULLS = EvolutionPolicy(columns=False, types=False, nulls=True)


def _wider(type_: Type, asked: Any) -> Type:
    match type_, asked:
        case Kind(), Kind():
            return _WIDER.get((type_, asked), type_)
        case Kind.INT, str() if _INTEGER.fullmatch(asked):
            number = int(asked)
            needs_long = not -_INT <= number < _INT and -_LONG <= number < _LONG
            return Kind.LONG if needs_long else type_
        case Kind.FLOAT, JsonNumber():
            with np.errstate(over="ignore"):
                fits = float(np.float32(asked)) == float(asked)
            return type_ if fits else Kind.DOUBLE
        case Decimal(precision, scale), Decimal(other, finer):
            return _with_digits(type_, max(precision - scale, other - finer), finer)
        case Decimal(precision, scale), str() if _NUMBER.fullmatch(asked):
            return _with_digits(type_, max(precision - scale, digits_of(asked)[0]), scale)
        case _:
            return type_


def _with_digits(type_: Decimal, whole: int, finer: int) -> Decimal:
    fits = finer <= type_.scale and whole + type_.scale <= PRECISION_MAX
    return Decimal(whole + type_.scale, type_.scale) if fits else type_
