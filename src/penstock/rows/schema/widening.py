"""What a table's schema would have to be for refused records to fit: widened, never narrowed.

Invariants:
- identifier columns of the table stay required, whatever records lack them;
- every value that fits the schema fits the wider one, and files written before stay readable:
  columns are added at the end and optional, int becomes long, float double, decimals get more
  digits in front, required becomes optional; nothing else changes;
- the answer is a function of the schema, the records and their order alone;
- names that a table cannot carry, or that differ from another in case only, become no columns.

Source: data.md 3; Apache Iceberg table specification, "Schema Evolution".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any

import numpy as np

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
from penstock.rows.cast.case_insensitive import normalized
from penstock.rows.decode.json.parser import JsonNumber, parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, type_of, usable_columns

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?")
_INT, _LONG = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True)
class EvolutionPolicy:
    """What may change: columns added, types and nullability widened; and how many columns more."""

    columns: bool
    types: bool
    columns_left: int

    @classmethod
    def of(cls, options: RowOptions, room: int) -> EvolutionPolicy:
        """Read it from a table's options."""
        return cls(options.columns == "evolve", options.types == "evolve", room)


def widened(
    schema: Schema, values: Iterable[bytes | None], options: RowOptions, columns_left: int
) -> Schema:
    """Widen a schema for the records that it refused, as far as the options give leave.

    A record that would bring more than `room` further columns in all is left out; what is nested
    too deeply in it becomes no column.
    """
    leave = EvolutionPolicy.of(options, columns_left)
    sources = {*options.source_columns.values(), *options.header_columns}
    wide = schema
    for value in values:
        if value is None or len(value) > options.record_bytes_max:
            continue
        try:
            record = parse_object(value, depth_max=options.depth_max)
            record = record if options.case_sensitive else normalized(record, wide)
        except RejectError:
            continue
        asked = options.asked_for(_struct(wide, record, leave, LEVELS_MAX, sources), wide)
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


def _struct(
    type_: Struct,
    value: dict[str, Any],
    leave: EvolutionPolicy,
    levels: int,
    sources: Iterable[str] = (),
) -> Struct:
    """Widen a struct that may have so many levels."""
    fields = []
    for field in type_.fields:
        if field.name in sources:
            fields.append(field)
            continue
        member = value.get(field.name)
        required = field.required and not (leave.types and member is None)
        fields.append(Field(field.name, _wider(field.type, member, leave, levels - 1), required))
    if leave.columns:
        taken = {folded(field.name) for field in fields}
        for name, member in value.items():
            if folded(name) not in taken:
                shown = known(usable_columns(Struct((Field(name, type_of(member)),)), levels))
                fields += shown.fields
                taken |= {folded(name)}
    return Struct(tuple(fields))


def _wider(type_: Type, value: Any, leave: EvolutionPolicy, levels: int) -> Type:
    match type_, value:
        case _, None:
            return type_
        case Struct(), dict():
            return _struct(type_, value, leave, levels)
        case List(element, required), list():
            return _elements(element, value, leave, levels - 1, required=required)
        case Map(key, inner, required), dict():
            for item in value.values():
                inner = _wider(inner, item, leave, levels - 1)
            nullable = leave.types and None in value.values()
            return Map(key, inner, required and not nullable)
        case Kind.INT, str() if leave.types and _INTEGER.fullmatch(value):
            return Kind.LONG if _needs_long(int(value)) else type_
        case Kind.FLOAT, JsonNumber() if leave.types:
            return type_ if _fits_float(value) else Kind.DOUBLE
        case Decimal(precision, scale), str() if leave.types and _NUMBER.fullmatch(value):
            digits = max(_digits_in_front(value) + scale, precision)
            return Decimal(digits, scale) if digits <= PRECISION_MAX else type_
        case _:
            return type_


def _elements(
    element: Type, values: list[Any], leave: EvolutionPolicy, levels: int, *, required: bool
) -> List:
    for item in values:
        element = _wider(element, item, leave, levels)
    return List(element, required and not (leave.types and None in values))


def _needs_long(number: int) -> bool:
    return not -_INT <= number < _INT and -_LONG <= number < _LONG


def _fits_float(text: str) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(text)) == float(text)


def _digits_in_front(text: str) -> int:
    number = Exact(text)
    return max(number.adjusted() + 1, 0) if number else 0


def changes_between(before: Schema, after: Schema) -> list[str]:
    """Return in words what was added or widened, by column path."""
    return _changes(before, after, "")


def _changes(before: Type, after: Type, path: str) -> list[str]:
    match before, after:
        case Struct(), Struct():
            found = []
            for field in after.fields:
                place = f"{path}.{field.name}" if path else field.name
                old = before.field(field.name)
                if old is None:
                    found.append(f"{place} {field.type} added")
                    continue
                found += [f"{place} optional"] if old.required and not field.required else []
                found += _changes(old.type, field.type, place)
            return found
        case List(), List():
            return _changes(before.element, after.element, f"{path}[]")
        case Map(), Map():
            return _changes(before.value, after.value, f"{path}{{}}")
        case _:
            return [] if before == after else [f"{path} {before} to {after}"]
