"""A Connect schema, as JsonConverter writes it, as a tree of nodes.

Invariants:
- a tree has at most `NODES_MAX` nodes; names that mean nothing here mean their plain type;
- whether something is optional, and its default, do not count: null lands as null.

Source: Kafka Connect, `JsonSchema` and `JsonConverter`; Debezium, "Temporal types".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.core.schema import PRECISION_MAX, Kind
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.logical_types import (
    CONNECT_DECIMAL,
    CONNECT_DIGITS,
    NAMED,
    EpochCount,
    IsoText,
    LogicalType,
    UnscaledDecimal,
    VariableScaleDecimal,
)
from penstock.rows.decode.schema_tree import (
    Listed,
    Mapped,
    Node,
    NodeCount,
    Record,
    Scalar,
    unusable,
    whole_number,
)

_PLAIN: Mapping[str, Scalar] = {
    "int8": Scalar(Kind.INT, bits=8),
    "int16": Scalar(Kind.INT, bits=16),
    "int32": Scalar(Kind.INT, bits=32),
    "int64": Scalar(Kind.LONG, bits=64),
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
    """Read a schema; one of no struct becomes a record with the single member `value`, and the
    second result is then set. Raises RejectError (P312).
    """
    node = _node(schema, NodeCount())
    if isinstance(node, Record) and node.logical_type is None:
        return node, False
    return Record(((VALUE_COLUMN, node),)), True


def _node(schema: Any, count: NodeCount) -> Node:
    count.add()
    match schema:
        case {"type": "struct", "fields": list(fields)}:
            return _record(fields, schema, count)
        case {"type": "array", "items": items}:
            return Listed(_node(items, count))
        case {"type": "map", "keys": keys, "values": values}:
            return Mapped(_node(keys, count), _node(values, count))
        case {"type": str(name)} if name in _PLAIN:
            plain = _PLAIN[name]
            return replace(plain, logical_type=_logical_type(plain.kind, schema))
        case _:
            raise unusable("it is no schema of Connect")


def _record(fields: list[Any], schema: Mapping[str, Any], count: NodeCount) -> Record:
    members: list[tuple[str, Node]] = []
    for each in fields:
        name = each.get("field") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise unusable("a field has no name")
        members.append((name, _node(each, count)))
    if len({name for name, _ in members}) != len(members):
        raise unusable("a struct has two fields of one name")
    own_scale = (
        NAMED.get(str(schema.get("name"))) == VariableScaleDecimal() and dict(members) == _OWN_SCALE
    )
    return Record(tuple(members), VariableScaleDecimal() if own_scale else None)


_OWN_SCALE = {"scale": _PLAIN["int32"], "value": _PLAIN["bytes"]}


def _logical_type(kind: Kind, schema: Mapping[str, Any]) -> LogicalType | None:
    name = str(schema.get("name"))
    if name == CONNECT_DECIMAL and kind is Kind.BINARY:
        given = schema.get("parameters")
        parameters = given if isinstance(given, dict) else {}
        scale = whole_number(parameters.get("scale", "0"))
        precision = whole_number(parameters.get(CONNECT_DIGITS, str(PRECISION_MAX)))
        return None if scale is None or precision is None else UnscaledDecimal(precision, scale)
    found = NAMED.get(name)
    return found if found is not None and kind in _BASES.get(type(found), ()) else None
