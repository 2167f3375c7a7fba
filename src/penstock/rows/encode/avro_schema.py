"""The Avro schema of a table's columns, and schemas that a person wrote, as plain trees.

Invariants:
- equal columns give an equal text: it is found in a registry where it was registered before;
- each named type of a made schema is named by its place, so that no name is used twice;
- a tree has each named type in full wherever it is used.

Source: Apache Avro specification 1.12; Apache Iceberg specification, "Appendix A: Avro". Timestamps
without a zone are `local-timestamp-micros`: readers take Iceberg's property `adjust-to-utc` for
nothing, and such a time for an instant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.rows.encode.json_texts import is_list
from penstock.rows.escaped_names import OWN_NAME, escaped

FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
UUID_BYTES = 16
_STAMPS = {"s": "micros", "ms": "micros", "us": "micros", "ns": "nanos"}

Tree = Mapping[str, Any] | list[Any] | str
"""A schema as JSON has it: the type of a value, a union's branches, or a primitive's name."""


def schema_text(columns: pa.Schema, name: str) -> str:
    """Return the schema of a record of these columns. Raises InvalidError (P870)."""
    return json.dumps(_record([*columns], name, ""), separators=(",", ":"))


def full_name(table: str) -> str:
    """Return the name of a table's record: that of the table, in its namespace."""
    return ".".join(map(escaped, table.split(".")))


def bytes_for(precision: int) -> int:
    """Return how many bytes hold each number of so many digits, with its sign."""
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1


@lru_cache(maxsize=64)
def tree_of(text: str, place: str) -> Tree:
    """Read a schema that is a record. Raises InvalidError (P872), which names `place`."""
    try:
        tree = _in_full(json.loads(text), "", {})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unreadable(place, f"it is no Avro schema: {_reason(error)}") from error
    if not is_record(tree):
        raise unreadable(place, "it is no record, whose fields would be columns")
    return tree


def unreadable(place: str, fact: str) -> InvalidError:
    """Return the error of a schema that cannot be used at all."""
    return InvalidError(
        f"the schema {place} cannot be used: {fact}",
        code="P872",
        hint="correct it; or leave  schema  out, for one that is made of the table's columns",
    )


def is_record(tree: Tree) -> bool:
    """Return whether a schema is that of a record."""
    return isinstance(tree, Mapping) and tree["type"] == "record"


def column_of(field: Mapping[str, Any]) -> str:
    """Return the name of the column that a field of a record holds."""
    return str(field.get(OWN_NAME, field["name"]))


def optional(tree: Tree) -> tuple[Tree, int] | None:
    """Return the other branch of a union with null, and null's index; None of what is none.

    Raises ValueError for another union.
    """
    if not isinstance(tree, list):
        return None
    nulls = [index for index, each in enumerate(tree) if each == "null"]
    if len(tree) != 2 or len(nulls) != 1:  # noqa: PLR2004  null and another one
        raise ValueError("a union is one of null and one type")
    return tree[1 - nulls[0]], nulls[0]


def _record(fields: list[pa.Field], name: str, path: str) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for each in fields:
        own = escaped(each.name)
        column = f"{path}.{each.name}" if path else each.name
        if any(own == other["name"] for other in made):
            raise _formless(column, f"its name, which is {own} in Avro, is that of another one")
        tree = _maybe(each, f"{name}.{own}", column)
        field: dict[str, Any] = {"name": own, "type": tree}
        if tree == "null" or isinstance(tree, list):
            field["default"] = None
        if own != each.name:
            field[OWN_NAME] = each.name
        made.append(field)
    return {"type": "record", "name": name, "fields": made}


def _maybe(field: pa.Field, name: str, path: str) -> Tree:
    tree = _tree(field.type, name, path)
    return ["null", tree] if field.nullable and tree != "null" else tree


def _tree(kind: Any, name: str, path: str) -> Tree:
    """Return the type of a column's values."""
    if pa.types.is_dictionary(kind):
        return _tree(kind.value_type, name, path)
    if pa.types.is_struct(kind):
        return _record([*kind], name, path)
    if pa.types.is_map(kind):
        item = _maybe(kind.item_field, f"{name}.value", f"{path}{{}}")
        if pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type):
            return {"type": "map", "values": item}
        key = _tree(kind.key_type, f"{name}.key", f"{path}{{}}")
        fields = [{"name": "key", "type": key}, {"name": "value", "type": item}]
        entry = {"type": "record", "name": f"{name}.entry", "fields": fields}
        return {"type": "array", "items": entry, "logicalType": "map"}
    if is_list(kind):
        items = _maybe(kind.value_field, f"{name}.element", f"{path}[]")
        return {"type": "array", "items": items}
    found = _scalar(kind, name)
    if found is None:
        raise _formless(path, f"it is of the type {kind}, which has no form in Avro")
    return found


def _scalar(kind: Any, name: str) -> Tree | None:
    if kind == pa.uuid():
        return {"type": "fixed", "name": name, "size": UUID_BYTES, "logicalType": "uuid"}
    if pa.types.is_decimal(kind) and kind.precision <= PRECISION_MAX and kind.scale >= 0:
        digits = {"precision": kind.precision, "scale": kind.scale}
        size = bytes_for(kind.precision)
        return {"type": "fixed", "name": name, "size": size, "logicalType": "decimal", **digits}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": name, "size": kind.byte_width}
    if pa.types.is_timestamp(kind):
        logical = f"{'' if kind.tz else 'local-'}timestamp-{_STAMPS[kind.unit]}"
        return {"type": "long", "logicalType": logical}
    if pa.types.is_integer(kind):
        is_int = kind.bit_width <= (32 if pa.types.is_signed_integer(kind) else 16)
        return "int" if is_int else "long"
    for is_of, tree in _SCALARS:
        if is_of(kind):
            return tree
    return None


PRECISION_MAX = 38


_SCALARS: tuple[tuple[Any, Tree], ...] = (
    (pa.types.is_null, "null"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
    (pa.types.is_time, {"type": "long", "logicalType": "time-micros"}),
)


def _formless(path: str, fact: str) -> InvalidError:
    return InvalidError(
        f"the column {path} cannot be published as Avro: {fact}",
        code="P870",
        hint="publish a view of the table without it, or under another name",
    )


def _reason(error: Exception) -> str:
    return str(error) if type(error) is ValueError else type(error).__name__


def _in_full(data: Any, space: str, known: dict[str, Tree]) -> Tree:
    """Return a schema with the named types that it refers to."""
    match data:
        case list():
            optional(data)
            return [_in_full(each, space, known) for each in data]
        case str():
            if data in PRIMITIVES:
                return data
            return known[f"{space}.{data}" if space and "." not in data else data]
        case {"type": "record" | "enum" | "fixed"}:
            name = str(data["name"])
            if "." not in name and data.get("namespace", space):
                name = f"{data.get('namespace', space)}.{name}"
            if not FULL_NAME.fullmatch(name):
                raise ValueError(f"{name} is no name")
            inner, tree = name.rpartition(".")[0], dict(data)
            if data["type"] == "record":
                fields = data["fields"]
                tree["fields"] = [{**f, "type": _in_full(f["type"], inner, known)} for f in fields]
            known[name] = tree
            return tree
        case {"type": "array"}:
            return {**data, "items": _in_full(data["items"], space, known)}
        case {"type": "map"}:
            return {**data, "values": _in_full(data["values"], space, known)}
        case {"type": str(kind)} if kind in PRIMITIVES:
            return dict(data) if "logicalType" in data else kind
        case {"type": inner}:
            return _in_full(inner, space, known)
        case _:
            raise ValueError("a type is missing")
