"""Maps our type tree to Delta's schema JSON, and to the Arrow schema of data files.

Invariants:
- what is mapped comes back equal; what Delta cannot hold exactly is rejected by column and type;
- columns with metadata that ask a writer for more than storing values are rejected by name, but for
  what rows are checked by or filled with (`demands.py`); mapped names are `column_mapping.py`'s.

Source: Delta transaction log protocol, "Schema Serialization Format".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Field, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import member, within
from penstock.core.table_errors import unsupported

_TYPES = {
    Kind.BOOLEAN: ("boolean", pa.bool_()),
    Kind.INT: ("integer", pa.int32()),
    Kind.LONG: ("long", pa.int64()),
    Kind.FLOAT: ("float", pa.float32()),
    Kind.DOUBLE: ("double", pa.float64()),
    Kind.STRING: ("string", pa.string()),
    Kind.BINARY: ("binary", pa.binary()),
    Kind.DATE: ("date", pa.date32()),
    Kind.TIMESTAMP: ("timestamp_ntz", pa.timestamp("us")),
    Kind.TIMESTAMPTZ: ("timestamp", pa.timestamp("us", tz="UTC")),
}
"""Delta's name of each type, and the type in data files."""
_KINDS_BY_NAME = {name: kind for kind, (name, _) in _TYPES.items()}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
_FIELD_ID = b"PARQUET:field_id"
_NOTHING = re.compile(r"(?!)")
_DEMANDING = {
    "delta.identity": "an identity column",
}
_ALTERNATIVES = {
    Kind.UUID: "string",
    Kind.TIME: "string or long",
    Kind.TIMESTAMP_NS: "timestamp",
    Kind.TIMESTAMPTZ_NS: "timestamptz",
    Kind.UNKNOWN: "the type it should have",
}


def delta_json(schema: Schema) -> str:
    """Write a schema as Delta's schema string. Raises InvalidError (P435) naming the column."""
    _require_distinct(schema, _FORBIDDEN)
    return json.dumps(_type_json(schema, ""))


def mapped_json(schema: Schema) -> str:
    """Write a schema with mapped columns, so that they may have any name but an empty one."""
    _require_distinct(schema, _NOTHING)
    return json.dumps(_type_json(schema, ""))


def schema_of(text: str, table: str, demanding: Mapping[str, str] = _DEMANDING) -> Schema:
    """Read Delta's schema string; `demanding` is metadata that no column may have.

    Raises InvalidError: P435 for a type we cannot write, P436 for a column that asks for more.
    """
    schema = _type_of(json.loads(text), "", table, demanding)
    assert isinstance(schema, Struct), "the root of a schema is a struct"
    return schema


def arrow_schema(schema: Schema, ids: Iterable[int] = ()) -> pa.Schema:
    """Return the Arrow schema of data files; `ids` of all struct members from the top down."""
    return pa.schema(list(_arrow_type(schema, iter(ids))))


def has_required(type_: Type) -> bool:
    """Return whether a type is, or has at some depth, a struct with a required member."""
    if isinstance(type_, Map) and has_required(type_.key):
        return True
    if isinstance(type_, Struct) and any(field.required for field in type_.fields):
        return True
    return any(has_required(inner) for _, inner in within(type_))


def without(schema: Schema, names: tuple[str, ...]) -> Schema:
    """Leave out columns by name: data files do not hold partition columns."""
    return Struct(tuple(field for field in schema.fields if field.name not in names))


def _type_json(type_: Type, path: str) -> Any:
    match type_:
        case Struct():
            fields = [
                {
                    "name": field.name,
                    "type": _type_json(field.type, member(path, field.name)),
                    "nullable": not field.required,
                    "metadata": {},
                }
                for field in type_.fields
            ]
            return {"type": "struct", "fields": fields}
        case List():
            return {
                "type": "array",
                "elementType": _type_json(type_.element, f"{path}[]"),
                "containsNull": not type_.element_required,
            }
        case Map():
            return {
                "type": "map",
                "keyType": _type_json(type_.key, f"{path}{{key}}"),
                "valueType": _type_json(type_.value, f"{path}{{value}}"),
                "valueContainsNull": not type_.value_required,
            }
        case Decimal():
            return f"decimal({type_.precision},{type_.scale})"
        case Kind() if type_ in _TYPES:
            return _TYPES[type_][0]
    instead = _ALTERNATIVES.get(type_, "binary") if isinstance(type_, Kind) else "binary"
    raise InvalidError(
        f"the column {path} has the type {type_}, which Delta cannot hold",
        code="P435",
        hint=f"give the column another type under schema.hints: {instead}",
    )


def _require_distinct(type_: Type, forbidden: re.Pattern[str]) -> None:
    """Reject names that Delta, blind to case and parsed by Parquet's rules, cannot distinguish."""
    match type_:
        case Struct(fields):
            seen: set[str] = set()
            for field in fields:
                if field.name.lower() in seen:
                    raise _unnameable(field.name, "occurs twice")
                if not field.name or forbidden.search(field.name):
                    raise _unnameable(field.name, "has a character Delta forbids")
                seen.add(field.name.lower())
                _require_distinct(field.type, forbidden)
        case List(element):
            _require_distinct(element, forbidden)
        case Map(key, value):
            _require_distinct(key, forbidden)
            _require_distinct(value, forbidden)


def _field_of(
    data: Mapping[str, Any], path: str, table: str, demanding: Mapping[str, str]
) -> Field:
    where = member(path, data["name"])
    for key in data.get("metadata") or {}:
        for prefix, feature in demanding.items():
            if key.startswith(prefix):
                raise unsupported(table, f"{feature} ({where})")
    type_ = _type_of(data["type"], where, table, demanding)
    return Field(data["name"], type_, not data["nullable"])


def _type_of(data: Any, path: str, table: str, demanding: Mapping[str, str]) -> Type:
    match data:
        case {"type": "struct"}:
            return Struct(tuple(_field_of(each, path, table, demanding) for each in data["fields"]))
        case {"type": "array"}:
            element = _type_of(data["elementType"], f"{path}[]", table, demanding)
            return List(element, not data["containsNull"])
        case {"type": "map"}:
            key = _type_of(data["keyType"], f"{path}{{key}}", table, demanding)
            value = _type_of(data["valueType"], f"{path}{{value}}", table, demanding)
            return Map(key, value, not data["valueContainsNull"])
        case str() if data in _KINDS_BY_NAME:
            return _KINDS_BY_NAME[data]
        case str() if found := _DECIMAL.fullmatch(data):
            return Decimal(int(found[1]), int(found[2]))
    raise InvalidError(
        f"the column {path} of {table} has the type {str(data)[:80]}, which Penstock cannot write",
        code="P435",
        hint="leave the column out of the table, or land into another one",
    )


def _unnameable(column: str, why: str) -> InvalidError:
    return InvalidError(
        f"the column {column[:80]!r} {why}",
        code="P435",
        hint="rename or leave out the column in the spec's schema; case does not count",
    )


def _arrow_type(type_: Type, ids: Iterator[int]) -> pa.DataType:
    match type_:
        case Struct():
            return pa.struct([_arrow_field(field, ids) for field in type_.fields])
        case List():
            element = _arrow_type(type_.element, ids)
            return pa.list_(pa.field("element", element, nullable=not type_.element_required))
        case Map():
            key, value = _arrow_type(type_.key, ids), _arrow_type(type_.value, ids)
            return pa.map_(key, pa.field("value", value, nullable=not type_.value_required))
        case Decimal():
            return pa.decimal128(type_.precision, type_.scale)
        case Kind() if type_ in _TYPES:
            return _TYPES[type_][1]
    raise AssertionError(f"{type_} is not a type of Delta")


def _arrow_field(field: Field, ids: Iterator[int]) -> pa.Field:
    number = next(ids, None)
    metadata = None if number is None else {_FIELD_ID: str(number).encode()}
    type_ = _arrow_type(field.type, ids)
    return pa.field(field.name, type_, nullable=not field.required, metadata=metadata)
