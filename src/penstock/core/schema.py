"""The type tree every format is mapped to and from: types, their JSON form, join.

Invariants:
- types are values: equal trees are equal types, whatever made them;
- `join` never narrows: each value that fits one side fits the join, or the clash is reported;
- the text form is Iceberg's (`decimal(10,2)`, `timestamptz`, `list<string>`), and parses back
  (type_text.py).

Source: Apache Iceberg table specification, "Schemas and Data Types"; data.md 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.core.names import folded

PRECISION_MAX = 38
SOURCE_PREFIX = "_kafka_"
"""How the columns begin that tell where a row came from: `_kafka_topic`, `_kafka_offset`, …"""


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


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact numbers of up to `precision` digits, `scale` of them behind the point."""

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


@dataclass(frozen=True, slots=True)
class Clash:
    """Report two types that no lossless join covers; the left one was kept."""

    path: str
    kept: Type
    refused: Type


_PROMOTIONS = {
    frozenset({Kind.INT, Kind.LONG}): Kind.LONG,
    frozenset({Kind.FLOAT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.INT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.LONG, Kind.DOUBLE}): Kind.DOUBLE,
}


def join(left: Type, right: Type, *, path: str = "") -> tuple[Type, list[Clash]]:
    """Return the smallest type both sides fit in; on a clash the left side, which is reported."""
    if left == right or right is Kind.UNKNOWN:
        return left, []
    if left is Kind.UNKNOWN:
        return right, []
    match left, right:
        case Struct(), Struct():
            return _join_structs(left, right, path)
        case List(), List():
            element, clashes = join(left.element, right.element, path=f"{path}[]")
            return List(element, left.element_required and right.element_required), clashes
        case Map(), Map() if left.key == right.key:
            value, clashes = join(left.value, right.value, path=f"{path}{{}}")
            return Map(left.key, value, left.value_required and right.value_required), clashes
        case Decimal(), Decimal() if left.scale == right.scale:
            return Decimal(max(left.precision, right.precision), left.scale), []
        case Kind(), Kind() if (promoted := _PROMOTIONS.get(frozenset({left, right}))) is not None:
            return promoted, []
        case _:
            return left, [Clash(path, left, right)]


def _join_structs(left: Struct, right: Struct, path: str) -> tuple[Struct, list[Clash]]:
    fields, clashes = [], []
    theirs = {field.name: field for field in right.fields}
    for field in left.fields:
        other = theirs.pop(field.name, None)
        if other is None:
            fields.append(Field(field.name, field.type))
            continue
        joined, found = join(
            field.type, other.type, path=f"{path}.{field.name}" if path else field.name
        )
        fields.append(Field(field.name, joined, field.required and other.required))
        clashes += found
    fields += [Field(field.name, field.type) for field in theirs.values()]
    return Struct(tuple(fields)), clashes


def united(schemas: Iterable[Schema]) -> Schema:
    """Join what was seen in several places, in order: no member that differs from another one in
    case only, for many engines cannot tell the two apart. The first counts, there and where types
    clash; but one that has a type yet goes before one that has none.
    """
    found, *others = schemas
    for each in others:
        both, _ = join(
            _without_twins(found, each, is_first=True), _without_twins(each, found, is_first=False)
        )
        assert isinstance(both, Struct), "structs join to a struct"
        found = both
    return found


def _without_twins(type_: Type, beside: Type, *, is_first: bool) -> Type:
    """Leave out members that `beside` has under a name of other case, and that go before."""
    match type_, beside:
        case Struct(), Struct():
            theirs = {field.name: field.type for field in beside.fields}
            twins = {folded(name): is_known(inner) for name, inner in theirs.items()}
            kept = [
                Field(f.name, _deeper(f.type, theirs.get(f.name), is_first=is_first), f.required)
                for f in type_.fields
                if f.name in theirs
                or _goes_before(f.type, twin_is_known=twins.get(folded(f.name)), is_first=is_first)
            ]
            return Struct(tuple(kept))
        case List(), List():
            inner = _deeper(type_.element, beside.element, is_first=is_first)
            return List(inner, type_.element_required)
        case Map(), Map():
            inner = _deeper(type_.value, beside.value, is_first=is_first)
            return Map(type_.key, inner, type_.value_required)
        case _:
            return type_


def _goes_before(type_: Type, *, twin_is_known: bool | None, is_first: bool) -> bool:
    if twin_is_known is None:
        return True
    here = is_known(type_)
    return here > twin_is_known or (is_first and here == twin_is_known)


def _deeper(type_: Type, beside: Type | None, *, is_first: bool) -> Type:
    return type_ if beside is None else _without_twins(type_, beside, is_first=is_first)


def leaves(type_: Type) -> Iterator[Type]:
    """Yield the types that a type is made of, at all depths, but for structs, lists and maps."""
    match type_:
        case Struct(fields):
            for field in fields:
                yield from leaves(field.type)
        case List(element):
            yield from leaves(element)
        case Map(key, value):
            yield from leaves(key)
            yield from leaves(value)
        case _:
            yield type_


def known(schema: Struct) -> Struct:
    """Leave out what has no type yet: null-only columns, empty objects, lists of nothing."""
    return Struct(tuple(f for field in schema.fields if (f := _known_field(field)) is not None))


def _known_field(field: Field) -> Field | None:
    kept = _known_type(field.type)
    return None if kept is None else Field(field.name, kept, field.required)


def is_known(type_: Type) -> bool:
    """Return whether something in it has a type."""
    return _known_type(type_) is not None


def _known_type(type_: Type) -> Type | None:
    match type_:
        case Kind.UNKNOWN:
            return None
        case Struct():
            inner = known(type_)
            return inner if inner.fields else None
        case List():
            element = _known_type(type_.element)
            return None if element is None else List(element, type_.element_required)
        case Map():
            value = _known_type(type_.value)
            return None if value is None else Map(type_.key, value, type_.value_required)
        case _:
            return type_


LEVELS_MAX = 32
"""How deeply columns are nested: readers of Parquet, Delta and Iceberg give up between 42 and 64
levels."""
_SCALARS = {kind.value: kind for kind in Kind if kind is not Kind.UNKNOWN}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
SCALAR_WORDS = (*_SCALARS, "decimal(p,s)", "fixed[n]")
"""How types without others within are written, for those who write them."""


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


def with_hints(schema: Schema, hints: Mapping[str, Type]) -> Schema:
    """Replace types by declared ones, by path as in refusals: `total`, `customer.id`, `items[].id`
    within a list, `prices{}` for the values of a map. What is declared wins over what is within.
    """
    return Struct(tuple(_hinted(field, field.name, hints) for field in schema.fields))


def paths_in(type_: Type, path: str = "") -> Iterator[str]:
    """Yield the paths by which hints name what is within a type, as in `with_hints`."""
    match type_:
        case Struct(fields):
            for field in fields:
                within = f"{path}.{field.name}" if path else field.name
                yield within
                yield from paths_in(field.type, within)
        case List(element):
            yield f"{path}[]"
            yield from paths_in(element, f"{path}[]")
        case Map(_, value):
            yield f"{path}{{}}"
            yield from paths_in(value, f"{path}{{}}")
        case _:
            return


def _hinted(field: Field, path: str, hints: Mapping[str, Type]) -> Field:
    return Field(field.name, _hinted_type(field.type, path, hints), field.required)


def _hinted_type(type_: Type, path: str, hints: Mapping[str, Type]) -> Type:
    declared = hints.get(path)
    if declared is not None:
        return declared
    match type_:
        case Struct(fields):
            return Struct(tuple(_hinted(each, f"{path}.{each.name}", hints) for each in fields))
        case List(element, required):
            return List(_hinted_type(element, f"{path}[]", hints), required)
        case Map(key, value, required):
            return Map(key, _hinted_type(value, f"{path}{{}}", hints), required)
        case _:
            return type_
