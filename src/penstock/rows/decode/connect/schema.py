"""A Connect schema, as JsonConverter writes it, as a tree of nodes.

Invariants:
- a tree has at most `NODES_MAX` nodes; names that mean nothing here mean their plain type;
- whether something is optional, and its default, do not count: null lands as null.

Source: Kafka Connect, `JsonSchema` and `JsonConverter`; Debezium, "Temporal types".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.logical_types import (
    CONNECT_DECIMAL,
    CONNECT_PRECISION,
    NAMED,
    EpochCount,
    IsoText,
    LogicalType,
    UnscaledDecimal,
    VariableScaleDecimal,
)
from penstock.rows.reject_codes import RejectCode, RejectError

NODES_MAX = 10_000
_DIGITS = "connect.decimal.precision"
_SCALE_CHARS_MAX = 9


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of `bits`, a boolean, text or bytes."""

    kind: Kind
    bits: int = 0
    logical_type: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """Any number of items."""

    items: Node


@dataclass(frozen=True, slots=True)
class Mapped:
    """Values by keys: an object where keys are text, else an array of pairs."""

    key: Node
    value: Node


@dataclass(frozen=True, slots=True)
class Record:
    """Named members."""

    fields: tuple[tuple[str, Node], ...]
    logical_type: LogicalType | None = None


Node = Scalar | Listed | Mapped | Record

_PLAIN: Mapping[str, Scalar] = {
    "int8": Scalar(Kind.INT, 8),
    "int16": Scalar(Kind.INT, 16),
    "int32": Scalar(Kind.INT, 32),
    "int64": Scalar(Kind.LONG, 64),
    "float": Scalar(Kind.FLOAT),
    "float32": Scalar(Kind.FLOAT),
    "double": Scalar(Kind.DOUBLE),
    "float64": Scalar(Kind.DOUBLE),
    "boolean": Scalar(Kind.BOOLEAN),
    "string": Scalar(Kind.STRING),
    "bytes": Scalar(Kind.BINARY),
}
_BASES: Mapping[type[LogicalType], tuple[Kind, ...]] = {
    EpochCount: (Kind.INT, Kind.LONG),
    UnscaledDecimal: (Kind.BINARY,),
    IsoText: (Kind.STRING,),
}


def node_of(schema: Any) -> tuple[Record, bool]:
    """Read a schema; one of no struct becomes a record with the single member `value`, which is
    told. Raises MisfitError (P312).
    """
    node = _Reading().node(schema)
    if isinstance(node, Record) and node.logical_type is None:
        return node, False
    return Record(((VALUE_COLUMN, node),)), True


def type_of_node(node: Node) -> Type:
    """Return the column type that a schema asks for; `unknown` where a hint has to tell it."""
    match node:
        case Scalar(_, _, meaning) | Record(_, meaning) if meaning is not None:
            return meaning.type
        case Scalar(kind):
            return kind
        case Listed(items):
            return List(type_of_node(items))
        case Mapped(key, value):
            return Map(type_of_node(key), type_of_node(value))
        case Record():
            return type_of_record(node)


def type_of_record(record: Record) -> Struct:
    """Return the columns that a record asks for."""
    return Struct(tuple(Field(name, type_of_node(node)) for name, node in record.fields))


@dataclass(slots=True)
class _Reading:
    nodes: int = 0

    def node(self, schema: Any) -> Node:
        """Read a schema, and count its types."""
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise _unusable(f"it has more than {NODES_MAX} types")
        match schema:
            case {"type": "struct", "fields": list(fields)}:
                return self._record(fields, schema)
            case {"type": "array", "items": items}:
                return Listed(self.node(items))
            case {"type": "map", "keys": keys, "values": values}:
                return Mapped(self.node(keys), self.node(values))
            case {"type": str(name)} if name in _PLAIN:
                plain = _PLAIN[name]
                return Scalar(plain.kind, plain.bits, _logical_type(plain.kind, schema))
            case _:
                raise _unusable("it is no schema of Connect")

    def _record(self, fields: list[Any], schema: Mapping[str, Any]) -> Record:
        members: list[tuple[str, Node]] = []
        for field in fields:
            name = field.get("field") if isinstance(field, dict) else None
            if not isinstance(name, str):
                raise _unusable("a field has no name")
            members.append((name, self.node(field)))
        if len({name for name, _ in members}) != len(members):
            raise _unusable("a struct has two fields of one name")
        own_scale = (
            NAMED.get(str(schema.get("name"))) == VariableScaleDecimal()
            and dict(members) == _OWN_SCALE
        )
        return Record(tuple(members), VariableScaleDecimal() if own_scale else None)


_OWN_SCALE = {"scale": _PLAIN["int32"], "value": _PLAIN["bytes"]}


def _logical_type(kind: Kind, schema: Mapping[str, Any]) -> LogicalType | None:
    name = str(schema.get("name"))
    if name == CONNECT_DECIMAL and kind is Kind.BINARY:
        given = schema.get("parameters")
        parameters = given if isinstance(given, dict) else {}
        scale = _whole(parameters.get("scale", "0"))
        precision = _whole(parameters.get(_DIGITS, str(CONNECT_PRECISION)))
        return None if scale is None or precision is None else UnscaledDecimal(precision, scale)
    found = NAMED.get(name)
    return found if found is not None and kind in _BASES.get(type(found), ()) else None


def _whole(text: Any) -> int | None:
    digits = str(text).removeprefix("-")
    fits = digits.isascii() and digits.isdecimal() and len(digits) <= _SCALE_CHARS_MAX
    return int(str(text)) if fits else None


def _unusable(reason: str) -> RejectError:
    return RejectError(RejectCode.SCHEMA_UNUSABLE, reason)
