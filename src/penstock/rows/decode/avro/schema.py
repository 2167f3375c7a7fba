"""An Avro schema as a tree of nodes, with what its logical types and Connect's names mean.

Invariant: what does not name a known logical type means its plain type, as the specification asks.

Source: Apache Avro specification 1.12, "Schema Declaration", "Names", "Logical Types"; Apache
Iceberg specification, "Appendix A: Avro": other names, and maps as arrays of their entries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.schema import PRECISION_MAX, Kind
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.logical_types import (
    CONNECT_DECIMAL,
    CONNECT_DIGITS,
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
from penstock.rows.decode.schema_tree import (
    NULL,
    FixedBytes,
    Listed,
    Mapped,
    Node,
    NodeCount,
    Record,
    Scalar,
    Symbols,
    Union,
    unusable,
    whole_number,
)
from penstock.rows.escaped_names import OWN_NAME

UUID_BYTES = 16

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

    `references` are the texts of the schemas that it names, those used by others first. Raises
    RejectError (P312).
    """
    names = _Names()
    try:
        for reference in references:
            names.node(json.loads(reference), "")
        node = names.node(json.loads(text), "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unusable(f"it is no Avro schema: {type(error).__name__}") from error
    if isinstance(node, Record) and node.logical_type is None:
        return node
    return Record(((VALUE_COLUMN, node),))


@dataclass(slots=True)
class _Names:
    """Resolve names while a schema is read; `known` holds each named type by its full name."""

    known: dict[str, tuple[Node, int]] = field(default_factory=dict)
    count: NodeCount = field(default_factory=NodeCount)

    def node(self, data: Any, space: str) -> Node:
        self.count.add()
        match data:
            case list():
                return Union(tuple(self.node(branch, space) for branch in data))
            case str():
                return Scalar(_KINDS[data]) if data in _KINDS else self._named(data, space)
            case {"type": dict() | list() as inner, **rest} if rest.keys() <= _CARRIERS:
                return self.node(inner, space)
            case {"type": "record" | "error"}:
                return self._record(data, space)
            case {"type": "enum", "symbols": list(symbols)}:
                return self._kept(Symbols(dict(enumerate(map(str, symbols)))), data, space)
            case {"type": "fixed", "size": int(size)} if size >= 0:
                fixed = FixedBytes(size, _logical_type("fixed", data, size))
                return self._kept(fixed, data, space)
            case {"type": "array"}:
                items = self.node(data["items"], space)
                entries = _entries(items) if data.get("logicalType") == "map" else None
                return entries or Listed(items)
            case {"type": "map"}:
                return Mapped(Scalar(Kind.STRING), self.node(data["values"], space))
            case {"type": str(kind)} if kind in _KINDS:
                return Scalar(_KINDS[kind], _logical_type(kind, data))
            case {"type": str(name)}:
                return self._named(name, space)
            case _:
                raise unusable("it is no Avro schema")

    def _record(self, data: Mapping[str, Any], space: str) -> Node:
        name, space = _full_name(data, space)
        before = self.count.nodes
        fields = tuple(
            (str(each.get(OWN_NAME, each["name"])), self.node(each["type"], space))
            for each in data["fields"]
        )
        if len({field for field, _ in fields}) != len(fields):
            raise unusable("a record has two fields of one name")
        record = Record(fields, _logical_type("record", data))
        if isinstance(record.logical_type, VariableScaleDecimal) and dict(fields) != _OWN_SCALE:
            record = Record(fields)
        self.known[name] = (record, self.count.nodes - before)
        return record

    def _kept(self, node: Node, data: Mapping[str, Any], space: str) -> Node:
        self.known[_full_name(data, space)[0]] = (node, 1)
        return node

    def _named(self, name: str, space: str) -> Node:
        for full in (f"{space}.{name}" if space and "." not in name else name, name):
            if full in self.known:
                node, nodes = self.known[full]
                self.count.add(nodes)
                return node
        # A type that is used inside of itself is not known yet either.
        raise unusable("it is recursive, or uses a name that it does not define")


def _entries(items: Node) -> Mapped | None:
    """Return the map whose entries are the items of an array: it has the same bytes."""
    match items:
        case Record((("key", key), ("value", value)), None) if key != NULL:
            return Mapped(key, value) if isinstance(key, Scalar | FixedBytes) else None
        case _:
            return None


_CARRIERS = frozenset({"type", "name", "doc", "default", "aliases", "order"})
_OWN_SCALE = {"scale": Scalar(Kind.INT), "value": Scalar(Kind.BINARY)}


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
    """Read what Connect's converter writes: 64 digits mean a precision that is not known."""
    given = data.get("connect.parameters")
    parameters = given if isinstance(given, dict) else {}
    scale = whole_number(parameters.get("scale", data.get("scale", 0)))
    precision = whole_number(parameters.get(CONNECT_DIGITS, data.get("precision")))
    if scale is None:
        return None
    if precision is None or (precision > PRECISION_MAX and CONNECT_DIGITS not in parameters):
        precision = PRECISION_MAX
    return UnscaledDecimal(precision, scale)
