"""The typed tree of an expression, which is plain data: the driver makes it, workers compute it.

Invariants:
- every node has a type, and the arguments of an operator have the types that it takes: conversions
  are nodes of their own (`cast`);
- nothing in a tree is a text to be parsed again but the values of literals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.core.schema import Type, type_from_json, type_to_json


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: its value as text, None for null; days and times as in ISO 8601."""

    text: str | None
    type: Type


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column, or a member of one, by its names from the top."""

    path: tuple[str, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function over arguments, by its name in capitals or its sign."""

    name: str
    arguments: tuple[Node, ...]
    type: Type


Node = Constant | ColumnValue | Call


def columns_of(node: Node) -> Iterator[tuple[str, ...]]:
    """Return the paths of the columns that an expression reads."""
    if isinstance(node, ColumnValue):
        yield node.path
    elif isinstance(node, Call):
        for each in node.arguments:
            yield from columns_of(each)


def node_to_data(node: Node) -> list[Any]:
    """Return a tree's plain form."""
    type_ = type_to_json(node.type)
    match node:
        case Constant(text):
            return ["literal", type_, text]
        case ColumnValue(path):
            return ["column", type_, list(path)]
        case Call(name, arguments):
            return ["call", type_, name, [node_to_data(each) for each in arguments]]


def node_from_data(data: Any) -> Node:
    """Read the plain form back; raises ValueError for anything else."""
    match data:
        case ["literal", type_, str() | None as text]:
            return Constant(text, type_from_json(type_))
        case ["column", type_, list(path)]:
            return ColumnValue(tuple(map(str, path)), type_from_json(type_))
        case ["call", type_, str(name), list(arguments)]:
            return Call(name, tuple(map(node_from_data, arguments)), type_from_json(type_))
        case _:
            raise ValueError("not an expression")
