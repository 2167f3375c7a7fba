"""The JSON Schema of a table's columns, and objects of JSON that keep to one.

Invariants:
- equal columns give an equal text: it is found in a registry where it was registered before;
- what is written is valid by the schema that is made of its columns;
- an object has no other members than its schema names (`additionalProperties: false`): only then
  do registries take a column that is added for compatible.

Source: JSON Schema draft-07, "Validation"; Confluent, "JSON Schema compatibility rules"; the types
of Connect (`connect.type`), by which readers know the width of a number, and bytes from text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.rows.arrow_arrays import validity_of
from penstock.rows.encode.json_texts import (
    IN_MILLIS,
    Column,
    JsonForm,
    JsonTexts,
    formless,
    is_binary,
    is_list,
    is_text,
    object_texts,
)
from penstock.rows.encode.nesting import IS_NULL, Misfits
from penstock.rows.encode.rules import MessageSchema

_DRAFT = "http://json-schema.org/draft-07/schema#"
_NULL = {"type": "null"}


def schema_text(columns: Iterable[pa.Field], name: str, form: JsonForm) -> str:
    """Return the schema of an object of these columns.

    Raises InvalidError (P839) for a type that has no form in JSON.
    """
    columns, members = [*columns], {}
    for each in columns:
        found = _type(each.type, each.name, form)
        members[each.name] = _maybe(found) if each.nullable else found
    whole = _object(members, [each.name for each in columns if not each.nullable])
    return json.dumps({"$schema": _DRAFT, "title": name, **whole}, separators=(",", ":"))


def objects(columns: Sequence[Column], schema: MessageSchema, form: JsonForm) -> JsonTexts:
    """Write an object for each row, with the members that its schema names.

    Raises InvalidError (P839, P871), UnavailableError (P876).
    """
    named, by_name = json.loads(schema.text)["properties"], {each.name: each for each in columns}
    if schema.is_made:
        for name in by_name:
            if name not in named:
                raise schema.unfit(name, "the schema has no such member")
    for name, member in named.items():
        if name not in by_name:
            raise schema.unfit(name, "the table has no such column")
        kind = by_name[name].kind
        if schema.is_made and _without_null(member) != _type(kind, name, form):
            raise schema.unfit(name, f"it is of the type {kind}, and not what the schema says")
    written = [by_name[name] for name in named]
    made = object_texts(written, "", form)
    nulls = [
        Misfits(each.name, ~validity_of(each.values), IS_NULL)
        for each in written
        if each.values.null_count and not _may_be_null(named[each.name])
    ]
    return JsonTexts(made.texts, [*made.misfits, *nulls])


def _object(members: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object; of a column that may be null the member may be missing: such
    columns can be added.
    """
    found = {"type": "object", "properties": members, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _maybe(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return found if found == _NULL else {"oneOf": [_NULL, found]}


def _may_be_null(member: Mapping[str, Any]) -> bool:
    return "oneOf" in member or member == _NULL


def _without_null(member: Mapping[str, Any]) -> Any:
    return member["oneOf"][1] if "oneOf" in member else member


def _type(kind: Any, path: str, form: JsonForm) -> Mapping[str, Any]:
    """Return the schema of a column's values, but for null; what is inside them may be null."""
    if isinstance(kind, pa.BaseExtensionType) and kind != pa.uuid():
        return _type(kind.storage_type, path, form)
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, path, form)
    if pa.types.is_struct(kind):
        return _object({e.name: _maybe(_type(e.type, f"{path}.{e.name}", form)) for e in kind})
    if pa.types.is_map(kind):
        items = _maybe(_type(kind.item_type, f"{path}{{}}", form))
        return {"type": "object", "additionalProperties": items}
    if is_list(kind):
        return {"type": "array", "items": _maybe(_type(kind.value_type, f"{path}[]", form))}
    found = _scalar(kind, form)
    if found is None:
        raise formless(path, kind)
    return found


def _scalar(kind: Any, form: JsonForm) -> Mapping[str, Any] | None:
    if kind == pa.uuid():
        return {"type": "string", "format": "uuid"}
    if pa.types.is_integer(kind):
        return {"type": "integer", "connect.type": f"int{_bits(kind)}"}
    if pa.types.is_floating(kind):
        bits = 64 if pa.types.is_float64(kind) else 32
        return {"type": "number", "connect.type": f"float{bits}"}
    if pa.types.is_decimal(kind):
        return {"type": form.decimals}
    if pa.types.is_timestamp(kind):
        if form.times == IN_MILLIS:
            return {"type": "integer", "connect.type": "int64"}
        return {"type": "string", "format": "date-time"} if kind.tz else {"type": "string"}
    return next((found for is_of, found in _SCALARS if is_of(kind)), None)


def _bits(kind: Any) -> int:
    """Return the width of the signed integer that holds all values of a type."""
    width: int = kind.bit_width
    return width if pa.types.is_signed_integer(kind) else min(2 * width, 64)


_SCALARS: tuple[tuple[Any, Mapping[str, Any]], ...] = (
    (pa.types.is_null, _NULL),
    (pa.types.is_boolean, {"type": "boolean"}),
    (is_text, {"type": "string"}),
    (is_binary, {"type": "string", "connect.type": "bytes"}),
    (pa.types.is_date, {"type": "string", "format": "date"}),
    (pa.types.is_time, {"type": "string"}),
)
