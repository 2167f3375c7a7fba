"""The Protobuf message of a table's columns, as a plain tree and as the text of a file.

Invariants:
- equal columns over an equal former message give an equal text: it is found in a registry where it
  was registered before;
- a column has the number that its field had in the former message, another one gets a number that
  no field ever had: numbers and names that are gone are reserved;
- a column whose values Protobuf cannot tell apart has no form: it is refused by its name.

Source: Protocol Buffers, "Language Guide (proto 3)"; `google/protobuf/timestamp.proto`; Confluent's
`confluent/type/decimal.proto`. Dates, times of day, timestamps without a zone and UUIDs, which have
no message of Protobuf's own, are text as in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.rows.encode.avro_schema import PRECISION_MAX
from penstock.rows.encode.json_texts import is_binary, is_list, is_text
from penstock.rows.escaped_names import camel, column_of, escaped_for_protobuf

Tree = Mapping[str, Any]
"""A message: its `name`, `package`, `fields`, and what is `reserved` and `reserved_names`.

A field has a `name`, a `column`, a `number`, a `kind`, and `label`: required, optional, repeated or
map. `required` is what has no presence. With it go the `message` of the kind message, the `symbols`
of the kind enum, the `key` of a map, and `wrapped`, where a message of one field holds the value.
"""
NUMBER_MAX = (1 << 29) - 1
OWN_NUMBERS = range(19_000, 20_000)
"""Numbers that are Protobuf's own."""
MESSAGES = {"timestamp": "google.protobuf.Timestamp", "decimal": "confluent.type.Decimal"}
_FILES = {"timestamp": "google/protobuf/timestamp.proto", "decimal": "confluent/type/decimal.proto"}
_KEYS = frozenset({"string", "int32", "int64", "uint32", "uint64", "bool"})
_BITS = 32


@lru_cache(maxsize=64)
def tree_of(fields: str) -> Tree:
    """Read a tree from its text."""
    tree: Tree = json.loads(fields)
    return tree


def tree_text(tree: Tree) -> str:
    """Return a tree as text."""
    return json.dumps(tree, separators=(",", ":"), sort_keys=True)


def made_tree(columns: Sequence[pa.Field], name: str, former: Tree | None = None) -> Tree:
    """Return the message of these columns, by the numbers of a former one.

    Raises InvalidError (P272).
    """
    package, _, own = name.rpartition(".")
    return {**_message(columns, own, former or {}, ""), "package": package}


def schema_text(tree: Tree) -> str:
    """Return the text of a file with this message."""
    lines = ['syntax = "proto3";', *([f"package {tree['package']};"] if tree["package"] else [])]
    kinds = {*_kinds(tree)}
    imports = [f'import "{file}";' for kind, file in _FILES.items() if kind in kinds]
    return "\n".join([*lines, "", *imports, *([""] if imports else []), *_lines(tree, ""), ""])


def _message(columns: Sequence[pa.Field], name: str, former: Tree, path: str) -> dict[str, Any]:
    there = {each["column"]: each for each in former.get("fields", ())}
    used = {*former.get("reserved", ()), *(each["number"] for each in there.values())}
    following = _numbers_after(max(used, default=0))
    fields: list[dict[str, Any]] = []
    for each in columns:
        column = f"{path}.{each.name}" if path else each.name
        own, old = escaped_for_protobuf(each.name), there.get(each.name, {})
        if any(camel(own) == camel(other["name"]) for other in fields):
            raise _formless(column, f"{own}, as it is named there, is in JSON another one's name")
        if "\0" in each.name or each.name.startswith("["):
            raise _formless(column, "its name has no form there")
        number = old["number"] if old else next(following)
        of_column = {"name": own, "column": each.name, "number": number}
        fields.append({**of_column, **_field(each, old, column)})
    _name_messages(fields, path)
    kept = {each["number"] for each in fields}
    gone = {each["name"] for each in former.get("fields", ()) if each["number"] not in kept}
    gone |= {*former.get("reserved_names", ())}
    names = sorted(gone - {each["name"] for each in fields})
    message = {"name": name, "fields": fields, "reserved": sorted(used - kept)}
    return {**message, "reserved_names": names}


def _name_messages(fields: list[dict[str, Any]], path: str) -> None:
    """Give each message inside of another one a name: that of its field, as messages are named.

    Raises InvalidError (P272) where the entries of a map, which Protobuf names, have another name.
    """
    taken = {each["name"] for each in fields}
    for each in fields:
        entry = f"{camel('_' + each['name'])}Entry"
        if each["label"] == "map" and entry in taken:
            column = f"{path}.{each['column']}" if path else each["column"]
            raise _formless(column, f"{entry}, as its entries are named there, is another's name")
        taken |= {entry} if each["label"] == "map" else set()
    held = [each for each in fields if "message" in each]
    for each in sorted(held, key=lambda each: not each["message"]["name"]):  # former names first
        name = each["message"]["name"] or _capital(each["name"])
        while name in taken:
            name += "_"
        taken.add(name)
        each["message"] = {**each["message"], "name": name}


def _capital(name: str) -> str:
    """Return the name of a field as messages are named."""
    found = camel(f"_{name}")
    return found if found[:1].isalpha() else f"M{found}"


def _numbers_after(last: int) -> Iterator[int]:
    """Give numbers of new fields."""
    for number in range(last + 1, NUMBER_MAX + 1):
        if number not in OWN_NUMBERS:
            yield number


def _field(column: pa.Field, former: Tree, path: str) -> dict[str, Any]:
    """Return the kind and label of a column's field."""
    kind = _plain(column.type)
    if pa.types.is_map(kind):
        key = _scalar(_plain(kind.key_type))
        if key not in _KEYS:
            raise _formless(path, f"the keys of its maps are of the type {kind.key_type}")
        return {"label": "map", "key": key, **_value(kind.item_type, former, f"{path}{{}}")}
    if is_list(kind):
        return {"label": "repeated", **_value(kind.value_type, former, f"{path}[]")}
    value = _value(kind, former, path)
    is_message = value["kind"] in ("message", *MESSAGES)  # which always may be absent
    return {"label": "optional" if column.nullable or is_message else "required", **value}


def _value(kind: Any, former: Tree, path: str) -> dict[str, Any]:
    """Return what a field says of its values."""
    kind = _plain(kind)
    if pa.types.is_struct(kind):
        there: Tree = former.get("message", {})
        name = there.get("name", "")
        return {"kind": "message", "message": _message([*kind], name, there, path)}
    found = _scalar(kind)
    if found is None:
        raise _formless(path, f"it is of the type {kind}")
    return {"kind": found}


def _plain(kind: Any) -> Any:
    return _plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _scalar(kind: Any) -> str | None:
    if pa.types.is_integer(kind):
        sign = "" if pa.types.is_signed_integer(kind) else "u"
        return f"{sign}int{max(kind.bit_width, _BITS)}"
    if pa.types.is_decimal(kind):
        return "decimal" if kind.precision <= PRECISION_MAX and kind.scale >= 0 else None
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "string"
    return next((found for is_of, found in _SCALARS if is_of(kind)), None)


_SCALARS: tuple[tuple[Any, str], ...] = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (lambda kind: kind == pa.uuid(), "string"),
    (is_text, "string"),
    (is_binary, "bytes"),
    (pa.types.is_date, "string"),
    (pa.types.is_time, "string"),
)


def _formless(path: str, fact: str) -> InvalidError:
    return InvalidError(
        f"the column {path} cannot be published as Protobuf: {fact}",
        code="P272",
        hint="publish a view of the table without it, or with another type or name",
    )


def _kinds(tree: Tree) -> Iterator[str]:
    for each in tree["fields"]:
        yield each["kind"]
        if each["kind"] == "message":
            yield from _kinds(each["message"])


def _lines(tree: Tree, indent: str) -> list[str]:
    """Return the lines of a message."""
    lines, inner = [f"{indent}message {tree['name']} {{"], f"{indent}  "
    if tree["reserved"]:
        lines.append(f"{inner}reserved {', '.join(map(str, tree['reserved']))};")
    if tree["reserved_names"]:
        lines.append(f"{inner}reserved {', '.join(map(json.dumps, tree['reserved_names']))};")
    for each in tree["fields"]:
        if each["kind"] == "message":
            lines += _lines(each["message"], inner)
        found = column_of(each["name"], camel(each["name"]))
        option = f" [json_name = {_quoted(each['column'])}]" if found != each["column"] else ""
        lines.append(f"{inner}{_typed(each)} {each['name']} = {each['number']}{option};")
    return [*lines, f"{indent}}}"]


def _typed(field: Tree) -> str:
    """Return the label and type of a field."""
    kind = field["message"]["name"] if field["kind"] == "message" else field["kind"]
    kind = MESSAGES.get(kind, kind)
    match field["label"]:
        case "map":
            return f"map<{field['key']}, {kind}>"
        case "repeated":
            return f"repeated {kind}"
        case "optional" if field["kind"] not in ("message", *MESSAGES):
            return f"optional {kind}"
        case _:
            return str(kind)


def _quoted(text: str) -> str:
    """Return text as the language has it."""
    return f'"{"".join(_escaped(each) for each in text)}"'


def _escaped(sign: str) -> str:
    return sign if sign >= " " and sign not in '"\\\x7f' else f"\\{ord(sign):03o}"
