"""Maps our type tree to Delta's schema JSON, and to the Arrow schema of data files.

Invariants:
- what is mapped comes back equal; what Delta cannot hold exactly is refused by column and type;
- columns whose metadata ask a writer for more than storing values (generated, identity, defaults,
  checked lengths) are refused by name; mapped names are `column_mapping.py`'s.

Source: Delta transaction log protocol, "Schema Serialization Format".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Field, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import leaves, within
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
"""How Delta names each type, and what data files hold."""
_KINDS_BY_NAME = {name: kind for kind, (name, _) in _TYPES.items()}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
_NOTHING = re.compile(r"(?!)")
_DEMANDING = {
    "delta.generationExpression": "a generated column",
    "delta.invariants": "a column invariant",
    "delta.identity": "an identity column",
    "delta.typeChanges": "type widening",
    "CURRENT_DEFAULT": "a column default",
    "__CHAR_VARCHAR_TYPE_STRING": "a char or varchar length",
}
_ALTERNATIVES = {
    Kind.UUID: "string",
    Kind.TIME: "string or long",
    Kind.UNKNOWN: "the type it should have",
}


def delta_json(schema: Schema) -> str:
    """Write a schema as Delta's schema string. Raises InvalidError (P435) naming the column."""
    _require_distinct(schema, _FORBIDDEN)
    return json.dumps(_struct_json(schema, ""))


def mapped_json(schema: Schema) -> str:
    """Write a schema whose columns are mapped, so that they may have any name but an empty one."""
    _require_distinct(schema, _NOTHING)
    return json.dumps(_struct_json(schema, ""))


def schema_of(text: str, table: str) -> Schema:
    """Read Delta's schema string.

    Raises InvalidError: P435 for a type we cannot write, P436 for a column that asks for more.
    """
    return _struct_of(json.loads(text), "", table)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of data files with these columns."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def holds(type_: Type, kind: Kind) -> bool:
    """Return whether a type is, or has at some depth, a kind."""
    return any(leaf is kind for leaf in leaves(type_))


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


def _struct_json(struct: Struct, path: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _type_json(field.type, f"{path}{field.name}"),
                "nullable": not field.required,
                "metadata": {},
            }
            for field in struct.fields
        ],
    }


def _type_json(type_: Type, path: str) -> Any:
    match type_:
        case Struct():
            return _struct_json(type_, f"{path}.")
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


def _require_distinct(schema: Schema, forbidden: re.Pattern[str]) -> None:
    """Refuse names that Delta, blind to case and parsed by Parquet's rules, cannot keep apart."""
    seen: set[str] = set()
    for field in schema.fields:
        name = field.name
        if not name or forbidden.search(name) or name.lower() in seen:
            why = "stands twice" if name.lower() in seen else "has a character Delta forbids"
            raise InvalidError(
                f"the column {name[:80]!r} {why}",
                code="P435",
                hint="rename or leave out the column in the spec's schema; case does not count",
            )
        seen.add(name.lower())
        for struct in _structs_in(field.type):
            _require_distinct(struct, forbidden)


def _structs_in(type_: Type) -> list[Struct]:
    """List the structs that a type is, or has in lists and maps; not those within them."""
    match type_:
        case Struct():
            return [type_]
        case List(element):
            return _structs_in(element)
        case Map(key, value):
            return _structs_in(key) + _structs_in(value)
        case _:
            return []


def _struct_of(data: Mapping[str, Any], path: str, table: str) -> Struct:
    fields = []
    for field in data["fields"]:
        where = f"{path}{field['name']}"
        _require_plain(field.get("metadata") or {}, where, table)
        type_ = _type_of(field["type"], where, table)
        fields.append(Field(field["name"], type_, not field["nullable"]))
    return Struct(tuple(fields))


def _type_of(data: Any, path: str, table: str) -> Type:
    match data:
        case {"type": "struct"}:
            return _struct_of(data, f"{path}.", table)
        case {"type": "array"}:
            element = _type_of(data["elementType"], f"{path}[]", table)
            return List(element, not data["containsNull"])
        case {"type": "map"}:
            key = _type_of(data["keyType"], f"{path}{{key}}", table)
            value = _type_of(data["valueType"], f"{path}{{value}}", table)
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


def _require_plain(metadata: Mapping[str, Any], path: str, table: str) -> None:
    for key in metadata:
        for prefix, feature in _DEMANDING.items():
            if key.startswith(prefix):
                raise unsupported(table, f"{feature} ({path})")


def _arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), nullable=not field.required)


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of a column; the type is one that Delta can hold."""
    match type_:
        case Struct():
            return pa.struct([_arrow_field(field) for field in type_.fields])
        case List():
            element = arrow_type(type_.element)
            return pa.list_(pa.field("element", element, nullable=not type_.element_required))
        case Map():
            value = pa.field("value", arrow_type(type_.value), nullable=not type_.value_required)
            return pa.map_(arrow_type(type_.key), value)
        case Decimal():
            return pa.decimal128(type_.precision, type_.scale)
        case Kind() if type_ in _TYPES:
            return _TYPES[type_][1]
    raise AssertionError(f"{type_} is not a type of Delta")
