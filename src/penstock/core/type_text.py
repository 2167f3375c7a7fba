"""The text of a type, as people write it in a spec: `map<string, decimal(10,2)>`.

Invariants: what `str` writes of a type reads back as it, but for what is required within, which no
hint declares; a text nests at most `LEVELS_MAX` levels.

Source: Apache Iceberg table specification, "Schemas and Data Types".
"""

from __future__ import annotations

import re

from penstock.core.names import folded
from penstock.core.schema import (
    LEVELS_MAX,
    SCALAR_WORDS,
    Decimal,
    Field,
    Fixed,
    Kind,
    List,
    Map,
    Struct,
    Type,
    scalar_type,
)
from penstock.core.schema_walk import walk

_NESTED = re.compile(r"(list|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^\s,;:<>(){}\[\]=.`\"'\\]+")
TYPE_WORDS = (*SCALAR_WORDS, "list<…>", "map<…>", "struct<…>")
"""How to write types: what `parse_type` reads."""


def parse_type(text: str) -> Type:
    """Read `long`, `list<string>`, `map<string, decimal(10,2)>`, `struct<sku: string, n: int>`.

    The key of a map is a scalar. Raises ValueError that names the known types.
    """
    return _type(text.strip(), LEVELS_MAX)


def is_writable(type_: Type) -> bool:
    """Return whether the text of a type reads back: names of members may have signs of types."""
    structs = (each for _, each in walk(type_) if isinstance(each, Struct))
    return all(_NAME.fullmatch(name) for struct in structs for name in struct.names)


def _type(text: str, levels: int) -> Type:
    found = _NESTED.fullmatch(text)
    if found is None:
        return _scalar(text)
    if levels < 1:
        raise ValueError(f"a type is nested at most {LEVELS_MAX} levels deep")
    match found[1].lower(), _parts(found[2]):
        case "list", [element]:
            return List(_type(element, levels - 1))
        case "map", [key, value]:
            return Map(_scalar(key), _type(value, levels - 1))
        case "struct", members:
            fields = tuple(_member(member, levels - 1) for member in members)
            if len({folded(field.name) for field in fields}) < len(fields):
                raise ValueError(f"{text[:80]!r}: two members have the same name")
            return Struct(fields)
    raise _no_type(text)


def _member(text: str, levels: int) -> Field:
    name, colon, type_ = text.partition(":")
    if not colon or _NAME.fullmatch(name.strip()) is None:
        raise ValueError(f"{text[:80]!r} is not a type; members are written struct<name: type, …>")
    return Field(name.strip(), _type(type_.strip(), levels))


def _scalar(text: str) -> Kind | Decimal | Fixed:
    found = scalar_type(text.lower())
    if found is None:
        raise _no_type(text)
    return found


def _parts(text: str) -> list[str]:
    """Split a text at its commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _no_type(text: str) -> ValueError:
    return ValueError(f"{text[:80]!r} is not a type; known are {', '.join(TYPE_WORDS)}")
