"""An Avro schema as a tree of nodes, with what its logical types and Connect's names mean.

Invariants:
- names are resolved, so a node is complete in itself; recursive schemas are refused;
- a tree has at most `NODES_MAX` nodes, counted with each use of a named type;
- what does not name a known logical type means its plain type, as the specification asks.

Source: Apache Avro specification 1.12, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.schema import Field, Fixed, Kind, List, Map, Struct, Type
from penstock.core.schema_join import join
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.logical_types import (
    CONNECT_DECIMAL,
    CONNECT_PRECISION,
    MS,
    NAMED,
    NS,
    US,
    EpochCount,
    IsoText,
    LogicalType,
    UnscaledDecimal,
    VariableScaleDecimal,
)
from penstock.rows.reject_codes import RejectCode, RejectError

NODES_MAX = 10_000
UUID_BYTES = 16
_CONNECT_DIGITS = "connect.decimal.precision"
_WHOLE_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Scalar:
    """One of the primitive types."""

    kind: str
    logical_type: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of some symbols."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """Bytes of one length."""

    length: int
    logical_type: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of items."""

    items: Node


@dataclass(frozen=True, slots=True)
class Mapped:
    """Values by text."""

    values: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types; which one stands before the value."""

    branches: tuple[Node, ...]

    @property
    def null(self) -> int | None:
        """Return the number of the branch that is null."""
        return next((i for i, b in enumerate(self.branches) if b == Scalar("null")), None)

    @property
    def only(self) -> int | None:
        """Return the number of the branch that is not null, when there is exactly one."""
        rest = [i for i in range(len(self.branches)) if i != self.null]
        return rest[0] if len(rest) == 1 else None


@dataclass(frozen=True, slots=True)
class Record:
    """Named members in order."""

    fields: tuple[tuple[str, Node], ...]
    logical_type: LogicalType | None = None


Node = Scalar | Enumeration | FixedBytes | Array | Mapped | Union | Record

_KINDS: Mapping[str, Kind] = {
    "null": Kind.UNKNOWN,
    "boolean": Kind.BOOLEAN,
    "int": Kind.INT,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bytes": Kind.BINARY,
    "string": Kind.STRING,
}
_LOGICAL: Mapping[tuple[str, str], LogicalType] = {
    ("int", "date"): EpochCount(Kind.DATE),
    ("int", "time-millis"): EpochCount(Kind.TIME, MS),
    ("long", "time-micros"): EpochCount(Kind.TIME, US),
    ("long", "timestamp-millis"): EpochCount(Kind.TIMESTAMPTZ, MS),
    ("long", "timestamp-micros"): EpochCount(Kind.TIMESTAMPTZ, US),
    ("long", "timestamp-nanos"): EpochCount(Kind.TIMESTAMPTZ, NS),
    ("long", "local-timestamp-millis"): EpochCount(Kind.TIMESTAMP, MS),
    ("long", "local-timestamp-micros"): EpochCount(Kind.TIMESTAMP, US),
    ("long", "local-timestamp-nanos"): EpochCount(Kind.TIMESTAMP, NS),
    ("string", "uuid"): IsoText(Kind.UUID),
    ("fixed", "uuid"): IsoText(Kind.UUID),
}
_BASES: Mapping[type[LogicalType], tuple[str, ...]] = {
    EpochCount: ("int", "long"),
    UnscaledDecimal: ("bytes", "fixed"),
    IsoText: ("string",),
    VariableScaleDecimal: ("record",),
}


def parse_schema(text: str, references: Sequence[str] = ()) -> Record:
    """Read a schema; a schema that is no record becomes one with the single member `value`.

    `references` are the texts of schemas whose names it uses, those used by others first. Raises
    MisfitError (P312).
    """
    names = _Names({})
    try:
        for reference in references:
            names.node(json.loads(reference), "")
        node = names.node(json.loads(text), "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unusable(f"it is no Avro schema: {type(error).__name__}") from error
    return (
        node
        if isinstance(node, Record) and node.logical_type is None
        else Record(((VALUE_COLUMN, node),))
    )


def type_of_node(node: Node) -> Type:
    """Return the column type that a schema asks for; `unknown` where no single type holds it."""
    match node:
        case Scalar(_, None):
            return _KINDS[node.kind]
        case Scalar(_, meaning) | FixedBytes(_, meaning) | Record(_, meaning) if meaning:
            return meaning.type
        case Enumeration():
            return Kind.STRING
        case FixedBytes(length):
            return Fixed(length)
        case Array(items):
            return List(type_of_node(items))
        case Mapped(values):
            return Map(Kind.STRING, type_of_node(values))
        case Record(fields):
            return Struct(tuple(Field(name, type_of_node(member)) for name, member in fields))
        case Union(branches):
            return _one_type(branches)
        case _:
            raise AssertionError(node)


def unusable(reason: str) -> RejectError:
    """Build the error for a schema that cannot be used, and why."""
    return RejectError(RejectCode.SCHEMA_UNUSABLE, reason)


def _one_type(branches: tuple[Node, ...]) -> Type:
    joined: Type = Kind.UNKNOWN
    for branch in branches:
        joined, clashes = join(joined, type_of_node(branch))
        if clashes:
            return Kind.UNKNOWN
    return joined


@dataclass(slots=True)
class _Names:
    """Resolve names while a schema is read; `known` holds each named type by its full name."""

    known: dict[str, tuple[Node, int]]
    nodes: int = 0

    def node(self, data: Any, space: str) -> Node:
        """Read a schema within a namespace, and count its types."""
        self._count(1)
        match data:
            case list():
                return Union(tuple(self.node(branch, space) for branch in data))
            case str():
                return Scalar(data) if data in _KINDS else self._named(data, space)
            case {"type": dict() | list() as inner, **rest} if rest.keys() <= _CARRIERS:
                return self.node(inner, space)
            case {"type": "record" | "error"}:
                return self._record(data, space)
            case {"type": "enum", "symbols": list(symbols)}:
                return self._kept(Enumeration(tuple(map(str, symbols))), data, space)
            case {"type": "fixed", "size": int(size)} if size >= 0:
                fixed = FixedBytes(size, _logical_type("fixed", data, size))
                return self._kept(fixed, data, space)
            case {"type": "array"}:
                return Array(self.node(data["items"], space))
            case {"type": "map"}:
                return Mapped(self.node(data["values"], space))
            case {"type": str(kind)} if kind in _KINDS:
                return Scalar(kind, _logical_type(kind, data))
            case {"type": str(name)}:
                return self._named(name, space)
            case _:
                raise unusable("it is no Avro schema")

    def _record(self, data: Mapping[str, Any], space: str) -> Node:
        name, space = _full_name(data, space)
        before = self.nodes
        fields = tuple(self._fields(data["fields"], space))
        if len({field for field, _ in fields}) != len(fields):
            raise unusable("a record has two fields of one name")
        record = Record(fields, _logical_type("record", data))
        if isinstance(record.logical_type, VariableScaleDecimal) and dict(fields) != _OWN_SCALE:
            record = Record(fields)
        self._keep(name, record, self.nodes - before)
        return record

    def _fields(
        self, fields: Sequence[Mapping[str, Any]], space: str
    ) -> Iterator[tuple[str, Node]]:
        for field in fields:
            yield str(field["name"]), self.node(field["type"], space)

    def _kept(self, node: Node, data: Mapping[str, Any], space: str) -> Node:
        self._keep(_full_name(data, space)[0], node, 1)
        return node

    def _keep(self, name: str, node: Node, nodes: int) -> None:
        self.known[name] = (node, nodes)

    def _named(self, name: str, space: str) -> Node:
        for full in (f"{space}.{name}" if space and "." not in name else name, name):
            if full in self.known:
                node, nodes = self.known[full]
                self._count(nodes)
                return node
        # A type that is used inside of itself is not known yet either.
        raise unusable("it is recursive, or uses a name that it does not define")

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            raise unusable(f"it has more than {NODES_MAX} types")


_CARRIERS = frozenset({"type", "name", "doc", "default", "aliases", "order"})
_OWN_SCALE = {"scale": Scalar("int"), "value": Scalar("bytes")}


def _full_name(data: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a type and the namespace inside of it."""
    name = str(data["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(data.get("namespace", space) or "")
    return (f"{space}.{name}" if space else name), space


def _logical_type(
    kind: str, data: Mapping[str, Any], size: int | None = None
) -> LogicalType | None:
    name = data.get("connect.name")
    if name == CONNECT_DECIMAL and kind in _BASES[UnscaledDecimal]:
        return _connect_decimal(data)
    logical = data.get("logicalType")
    if logical == "decimal" and kind in _BASES[UnscaledDecimal]:
        match data.get("precision"), data.get("scale", 0):
            case int(precision), int(scale):
                return UnscaledDecimal(precision, scale)
        return None
    found = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
    if kind == "fixed" and size != UUID_BYTES:
        found = None
    named = NAMED.get(name) if isinstance(name, str) else None
    return named if named is not None and kind in _BASES[type(named)] else found


def _connect_decimal(data: Mapping[str, Any]) -> LogicalType | None:
    """Read what Connect's converter writes: 64 digits stand for a precision that is not known."""
    given = data.get("connect.parameters")
    parameters = given if isinstance(given, dict) else {}
    scale = _whole(parameters.get("scale", data.get("scale", 0)))
    precision = _whole(parameters.get(_CONNECT_DIGITS, data.get("precision")))
    if scale is None:
        return None
    if precision is None or (precision > CONNECT_PRECISION and _CONNECT_DIGITS not in parameters):
        precision = CONNECT_PRECISION
    return UnscaledDecimal(precision, scale)


def _whole(number: Any) -> int | None:
    """Read a whole number that may stand in a text."""
    text = str(number)
    digits = text.removeprefix("-")
    fits = digits.isascii() and digits.isdecimal() and len(digits) <= _WHOLE_DIGITS_MAX
    return int(text) if fits else None
