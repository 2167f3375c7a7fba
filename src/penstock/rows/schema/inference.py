"""The schema of a table to create, from the records of its first epoch.

Invariants:
- only records that decode count, by the same rule that lands them (parser.py);
- types are joined without narrowing; on a clash the first type stays, in the order of the records,
  and `{}` or `[]` is none;
- names that a table format or a query engine cannot carry, or that differ from an earlier one in
  case only, and what is nested too deeply become no columns, so that no record can make a table
  impossible to create;
- a record is cut before it is joined, so that a deep one costs others no column;
- at most `columns_max` columns, nested ones counted.

Source: data.md 2, inference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.names import folded
from penstock.core.schema import LEVELS_MAX, Field, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_join import is_known, join, known, with_hints
from penstock.core.schema_walk import transform
from penstock.rows.decode.json.parser import JsonNumber, parse_object
from penstock.rows.options import CHANGE_TYPES, SOURCE_TYPES, RowOptions
from penstock.rows.reject_codes import RejectError

NAME_LENGTH_MAX = 255
_FRACTIONAL = re.compile(r"[.eE]")
_NAME = re.compile(r"[^\s,;{}()=.`\"'\\]+")


def infer(
    batch: pa.RecordBatch,
    *,
    record_bytes_max: int = 8 << 20,
    depth_max: int = 64,
    columns_max: int = 2000,
) -> Schema:
    """Join the schemas of the JSON objects of a batch (as in `ports.log.Fetched`).

    A column of nulls only is `unknown`. A record that would bring more than `columns_max` columns
    is left out.
    """
    joined: Struct = Struct(())
    seen: set[Any] = set()
    for scalar in batch.column("value"):
        value = scalar.as_py()
        if value is None or len(value) > record_bytes_max:
            continue
        try:
            record = parse_object(value, depth_max=depth_max)
        except RejectError:
            continue
        shape = _shape(record)
        if shape not in seen:
            seen.add(shape)
            joined = _joined_within(joined, record, columns_max)
    return _with_usable_names(joined)


def table_schema(inferred: Schema, hints: Mapping[str, Type], options: RowOptions) -> Schema:
    """Return the schema to create a table with: hints win, what has no type yet is left out, all is
    optional, and the source columns come last.

    A field that bears the name of a source, header, change or rescue column, in whatever case,
    becomes no column.
    """
    payload = known(with_hints(inferred, hints))
    sources = _added(SOURCE_TYPES, options.source_columns)
    added = [_typed_key(each, payload, options) for each in sources]
    added += [Field(name, hints.get(name, Kind.STRING)) for name in options.header_columns]
    added += _added(CHANGE_TYPES, options.change_columns)
    added += options.soft_columns
    added += [Field(options.rescued_column, Kind.STRING)] if options.rescues else []
    taken = {folded(field.name) for field in added}
    columns = [
        Field(field.name, _optional(field.type))
        for field in payload.fields
        if folded(field.name) not in taken
    ]
    return Struct((*columns, *added))


def _typed_key(field: Field, payload: Schema, options: RowOptions) -> Field:
    if options.key_format == "bytes" or field.name != options.source_columns.get("key"):
        return field
    asked = payload.field(field.name)
    return Field(field.name, Kind.STRING if asked is None else _optional(asked.type))


def _added(types: Mapping[str, Type], names: Mapping[str, str]) -> Iterator[Field]:
    for role, type_ in types.items():
        if role in names:
            yield Field(names[role], type_)


def type_of(value: Any) -> Type:
    """Return the type that a parsed JSON value asks for."""
    match value:
        case None:
            return Kind.UNKNOWN
        case bool():
            return Kind.BOOLEAN
        case JsonNumber():
            return Kind.DOUBLE if _FRACTIONAL.search(value) else Kind.LONG
        case str():
            return Kind.STRING
        case dict():
            return Struct(tuple(Field(name, type_of(member)) for name, member in value.items()))
        case _:
            element: Type = Kind.UNKNOWN
            for item in value:
                element = join(element, type_of(item))[0]
            return List(element)


def columns_in(type_: Type) -> int:
    """Count the members of structs in a type, at all depths."""
    match type_:
        case Struct(fields):
            return len(fields) + sum(columns_in(field.type) for field in fields)
        case List(inner) | Map(_, inner):
            return columns_in(inner)
        case _:
            return 0


def levels_in(type_: Type) -> int:
    """Count the levels of structs, lists and maps in a type; a scalar has none."""
    match type_:
        case Struct(fields):
            return 1 + max((levels_in(field.type) for field in fields), default=0)
        case List(inner) | Map(_, inner):
            return 1 + levels_in(inner)
        case _:
            return 0


def _joined_within(joined: Struct, record: dict[str, Any], columns_max: int) -> Struct:
    asked = type_of(record)
    assert isinstance(asked, Struct), "an object asks for a struct"
    asked = _within_levels(asked, LEVELS_MAX)
    if columns_in(joined) + _new_columns(asked, joined) > columns_max:
        return joined
    wider = join(joined, asked)[0]
    assert isinstance(wider, Struct), "objects join to objects"
    return wider


def _new_columns(asked: Type, joined: Type) -> int:
    """Count the members a type would add, which costs less than to join it."""
    match asked, joined:
        case Struct(fields), Struct():
            there = {field.name: field.type for field in joined.fields}
            return sum(
                _new_columns(field.type, there[field.name])
                if field.name in there
                else 1 + columns_in(field.type)
                for field in fields
            )
        case List(element), List(other):
            return _new_columns(element, other)
        case _ if not is_known(joined):
            return columns_in(asked)
        case _:
            return 0


def _shape(value: Any) -> Any:
    """Return a cheap key that is equal only for values of equal types."""
    match value:
        case dict():
            return tuple((name, _shape(member)) for name, member in value.items())
        case list():
            return frozenset(_shape(item) for item in value)
        case JsonNumber():
            return _FRACTIONAL.search(value) is None
        case None:
            return None
        case _:
            return type(value)


def usable_columns(struct: Struct, levels: int = LEVELS_MAX) -> Struct:
    """Leave out members that no table can carry: for their names or depth, or that differ from an
    earlier one in case only.

    What is nested deeper than so many levels is cut where it is, and what holds nothing then.
    """
    return _with_usable_names(_within_levels(struct, levels))


def _with_usable_names(struct: Struct) -> Struct:
    """Leave out members with names that no table can hold. Of members that differ only in case,
    keep the first that has a type.
    """
    fields: dict[str, Field] = {}
    for field in struct.fields:
        if is_usable_name(field.name):
            usable = Field(field.name, _usable_type(field.type), field.required)
            first = fields.setdefault(folded(field.name), usable)
            if not is_known(first.type) and is_known(usable.type):
                fields[folded(field.name)] = usable
    return Struct(tuple(fields.values()))


def _usable_type(type_: Type, _: str = "") -> Type:
    if isinstance(type_, Struct):
        return _with_usable_names(type_)
    return transform(type_, _usable_type)


def _within_levels(struct: Struct, levels: int) -> Struct:
    if levels_in(struct) <= levels:
        return struct
    found = _cut(levels, struct)
    return found if isinstance(found, Struct) else Struct(())


def _cut(levels: int, type_: Type, _: str = "") -> Type | None:
    if not isinstance(type_, Struct | List | Map):
        return type_
    if levels < 1:
        return None
    found = transform(type_, partial(_cut, levels - 1))
    return None if found == Struct(()) and found != type_ else found


def is_usable_name(name: str) -> bool:
    """Return whether a record's key may become a column's name."""
    return len(name) <= NAME_LENGTH_MAX and name.isprintable() and _NAME.fullmatch(name) is not None


def _optional(type_: Type) -> Type:
    match type_:
        case Struct(fields):
            return Struct(tuple(Field(field.name, _optional(field.type)) for field in fields))
        case List(element):
            return List(_optional(element))
        case Map(key, value):
            return Map(key, _optional(value))
        case _:
            return type_
