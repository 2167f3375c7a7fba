"""The schema by which a record was written as a tree of nodes, whatever its format.

Invariant: a node is complete in itself: names are resolved, and recursive schemas are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.schema import Field, Fixed, Kind, List, Map, Struct, Type
from penstock.core.schema_join import join
from penstock.rows.decode.logical_types import LogicalType
from penstock.rows.reject_codes import RejectCode, RejectError

NODES_MAX = 10_000
"""The limit of nodes in a tree, counted with each use of a named type."""
_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a boolean, text or bytes; `unknown` is null.

    `bits` are those of an integer, where a format has more of them than Arrow's types; `unsigned`
    numbers may be beyond a long.
    """

    kind: Kind
    logical_type: LogicalType | None = None
    bits: int = 0
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Symbols:
    """One of some names, by their numbers."""

    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """Bytes of one length."""

    length: int
    logical_type: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """Any number of items."""

    items: Node


@dataclass(frozen=True, slots=True)
class Mapped:
    """Values by keys."""

    key: Node
    value: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types; the number before the value says which."""

    branches: tuple[Node, ...]

    @property
    def null(self) -> int | None:
        """Return the number of the branch that is null."""
        return next((i for i, b in enumerate(self.branches) if b == NULL), None)

    @property
    def only(self) -> int | None:
        """Return the number of the branch that is not null, when there is exactly one."""
        rest = [i for i in range(len(self.branches)) if i != self.null]
        return rest[0] if len(rest) == 1 else None


@dataclass(frozen=True, slots=True)
class Nullable:
    """A member that has no value where it was not set."""

    node: Node


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A record that is written as its one member, `value`."""

    node: Node


@dataclass(frozen=True, slots=True)
class Record:
    """Named members in order; with a logical type the whole is one value.

    `escaped` has the names of members under which a format has them, where those are others.
    """

    fields: tuple[tuple[str, Node], ...]
    logical_type: LogicalType | None = None
    escaped: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> Struct:
        """Return the columns that the members ask for."""
        return Struct(tuple(Field(name, type_of_node(node)) for name, node in self.fields))


Node = Scalar | Symbols | FixedBytes | Listed | Mapped | Union | Nullable | Wrapped | Record
NULL = Scalar(Kind.UNKNOWN)


@dataclass(slots=True)
class NodeCount:
    """Counts the nodes of a tree while it is made."""

    nodes: int = 0

    def add(self, nodes: int = 1) -> None:
        """Count nodes. Raises RejectError (P312) when they are too many."""
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            raise unusable(f"it has more than {NODES_MAX} types")


def type_of_node(node: Node) -> Type:
    """Return the column type that a node asks for; `unknown` where a hint has to set it."""
    match node:
        case Scalar(_, found) | FixedBytes(_, found) | Record(_, found) if found is not None:
            return found.type
        case Scalar(kind):
            return kind
        case Symbols():
            return Kind.STRING
        case FixedBytes(length):
            return Fixed(length)
        case Listed(items):
            return List(type_of_node(items))
        case Mapped(key, value):
            return Map(type_of_node(key), type_of_node(value))
        case Nullable(inner) | Wrapped(inner):
            return type_of_node(inner)
        case Union(branches):
            return _one_type(branches)
        case Record():
            return node.type


def _one_type(branches: tuple[Node, ...]) -> Type:
    joined: Type = Kind.UNKNOWN
    for branch in branches:
        joined, clashes = join(joined, type_of_node(branch))
        if clashes:
            return Kind.UNKNOWN
    return joined


def unusable(reason: str) -> RejectError:
    """Build the error for a schema that cannot be used."""
    return RejectError(RejectCode.SCHEMA_UNUSABLE, reason)


def whole_number(number: Any) -> int | None:
    """Read a whole number that may be written as a text."""
    digits = str(number).removeprefix("-")
    fits = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
    return int(str(number)) if fits else None
