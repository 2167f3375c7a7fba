"""The type tree every format is mapped to and from: types and their JSON form.

Invariants:
- types are values: equal trees are equal types, whatever made them;
- the text form is Iceberg's (`decimal(10,2)`, `timestamptz`, `list<string>`), and parses back
  (type_text.py).

Source: Apache Iceberg table specification, "Schemas and Data Types"; data.md 2.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PRECISION_MAX = 38
SOURCE_PREFIX = "_kafka_"
"""The prefix of the source columns: `_kafka_topic`, `_kafka_offset`, …"""


class Kind(StrEnum):
    """Name the types without parameters. `unknown` is the type of a column of nulls only."""

    UNKNOWN = "unknown"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    UUID = "uuid"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIMESTAMP_NS = "timestamp_ns"
    TIMESTAMPTZ_NS = "timestamptz_ns"


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact numbers of up to `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        assert 1 <= self.precision <= PRECISION_MAX, f"precision {self.precision} is not in 1..38"
        assert 0 <= self.scale <= self.precision, f"scale {self.scale} exceeds the precision"

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Byte strings of one length."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class Field:
    """Name one member of a struct."""

    name: str
    type: Type
    required: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{' not null' if self.required else ''}"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named members in order."""

    fields: tuple[Field, ...]

    def field(self, name: str) -> Field | None:
        """Find a member by its exact name."""
        return next((field for field in self.fields if field.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """List the names of the members in order."""
        return tuple(field.name for field in self.fields)

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class List:
    """Any number of elements of one type."""

    element: Type
    element_required: bool = False

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by key."""

    key: Type
    value: Type
    value_required: bool = False

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Type = Kind | Decimal | Fixed | Struct | List | Map
Schema = Struct


LEVELS_MAX = 32
"""How deeply columns are nested: readers of Parquet, Delta and Iceberg give up between 42 and 64
levels."""
_SCALARS = {kind.value: kind for kind in Kind if kind is not Kind.UNKNOWN}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
SCALAR_WORDS = (*_SCALARS, "decimal(p,s)", "fixed[n]")
"""How to write types without others within."""


def scalar_type(text: str) -> Kind | Decimal | Fixed | None:
    """Read a type without others within; None for any other text.

    Raises ValueError for digits that no decimal has.
    """
    if found := _DECIMAL.fullmatch(text):
        precision, scale = int(found[1]), int(found[2])
        if 1 <= precision <= PRECISION_MAX and scale <= precision:
            return Decimal(precision, scale)
        raise ValueError(f"{text!r}: precision is 1 to 38 and scale at most the precision")
    if found := _FIXED.fullmatch(text):
        return Fixed(int(found[1]))
    return _SCALARS.get(text)


def type_to_json(type_: Type) -> Any:
    """Return the plain-data form of a type; scalars are their text."""
    match type_:
        case Struct():
            return {"struct": [[f.name, type_to_json(f.type), f.required] for f in type_.fields]}
        case List():
            return {"list": type_to_json(type_.element), "required": type_.element_required}
        case Map():
            return {
                "map": [type_to_json(type_.key), type_to_json(type_.value)],
                "required": type_.value_required,
            }
        case _:
            return str(type_)


def type_from_json(data: Any) -> Type:
    """Read the plain-data form back; raises ValueError for anything else."""
    match data:
        case Kind.UNKNOWN.value:
            return Kind.UNKNOWN
        case str() if (found := scalar_type(data)) is not None:
            return found
        case {"struct": list(fields)}:
            return Struct(tuple(Field(str(n), type_from_json(t), bool(r)) for n, t, r in fields))
        case {"list": element, "required": required}:
            return List(type_from_json(element), bool(required))
        case {"map": [key, value], "required": required}:
            return Map(type_from_json(key), type_from_json(value), bool(required))
        case _:
            raise ValueError(f"not a type: {json.dumps(data)[:100]}")


def schema_from_json(data: Any) -> Schema:
    """Read a schema's plain-data form; raises ValueError when it is no struct."""
    schema = type_from_json(data)
    if not isinstance(schema, Struct):
        raise ValueError("a schema is a struct")  # noqa: TRY004  parsers raise one error
    return schema
