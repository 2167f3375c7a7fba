"""What a table demands of each row that is written to it, beyond the types of its columns.

Invariants:
- it is plain data: what the table holds as texts was read by the driver, and workers compute trees;
- defaults are filled in first, then generated columns are computed, then all else is checked;
- what an expression reads keeps its type, and so does what it is the value of: the expression is
  over these types (as Delta's Spark writer has it, `checkDependentExpressions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.expressions.tree import (
    Constant,
    Node,
    columns_of,
    node_from_data,
    node_to_data,
)
from penstock.core.schema import Field, List, Map, Schema, Struct, Type

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that must be true of every row, neither false nor null; `name` is for people."""

    name: str
    condition: Node


@dataclass(frozen=True, slots=True)
class Length:
    """How many characters a text of a column may have."""

    column: str
    characters_max: int


@dataclass(frozen=True, slots=True)
class Generated:
    """A column whose value is that of an expression over others."""

    column: str
    value: Node


@dataclass(frozen=True, slots=True)
class Default:
    """What a column gets where a writer gives it nothing."""

    column: str
    value: Constant


@dataclass(frozen=True, slots=True)
class Demands:
    """All that a table demands."""

    constraints: tuple[Constraint, ...] = ()
    lengths: tuple[Length, ...] = ()
    generated: tuple[Generated, ...] = ()
    defaults: tuple[Default, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.constraints or self.lengths or self.generated or self.defaults)

    @property
    def filled(self) -> frozenset[str]:
        """Name the columns that need not be given, even where they are required."""
        generated = {each.column for each in self.generated}
        return frozenset(generated | {each.column for each in self.defaults})

    @property
    def fixed(self) -> frozenset[_Path]:
        """Return the paths of the columns whose types stay as they are."""
        nodes = [*(c.condition for c in self.constraints), *(g.value for g in self.generated)]
        generated = {(each.column,) for each in self.generated}
        return frozenset(generated.union(*map(columns_of, nodes)))


NO_DEMANDS = Demands()


def wider_as_demanded(before: Schema, wide: Schema, demands: Demands) -> Schema:
    """Return a wider schema, but fixed columns of the types before, and required what the table
    fills in itself: that records lack it asks for nothing.
    """
    if not demands:
        return wide
    kept = _fixed_in(before, wide, demands.fixed)
    assert isinstance(kept, Struct), "a schema stays one"
    required = {f.name for f in before.fields if f.required} & demands.filled
    return Struct(
        tuple(Field(f.name, f.type, f.required or f.name in required) for f in kept.fields)
    )


def _fixed_in(before: Type, wide: Type, paths: Collection[_Path]) -> Type:
    """Return a wider type with what is at some paths within it, or below, of the types before."""
    if not paths:
        return wide
    match before, wide:
        case Struct(), Struct(fields):
            return Struct(tuple(_fixed_member(before.field(f.name), f, paths) for f in fields))
        case List(old), List(new, required):
            return List(_fixed_in(old, new, paths), required)
        case Map(_, old), Map(key, new, required):
            return Map(key, _fixed_in(old, new, paths), required)
        case _:
            return before


def _fixed_member(before: Field | None, wide: Field, paths: Collection[_Path]) -> Field:
    if before is None:
        return wide
    below = {path[1:] for path in paths if path[:1] in {(), (wide.name,)}}
    return Field(wide.name, _fixed_in(before.type, wide.type, below), wide.required)


def demands_to_data(demands: Demands) -> dict[str, Any]:
    """Return the plain form."""
    return {
        "constraints": [[each.name, node_to_data(each.condition)] for each in demands.constraints],
        "lengths": [[each.column, each.characters_max] for each in demands.lengths],
        "generated": [[each.column, node_to_data(each.value)] for each in demands.generated],
        "defaults": [[each.column, node_to_data(each.value)] for each in demands.defaults],
    }


def demands_from_data(data: Mapping[str, Any]) -> Demands:
    """Read the plain form back; raises ValueError for anything else."""
    defaults = []
    for column, value in data["defaults"]:
        node = node_from_data(value)
        if not isinstance(node, Constant):
            raise ValueError("a default is a constant")  # noqa: TRY004  parsers raise one error
        defaults.append(Default(column, node))
    return Demands(
        tuple(Constraint(name, node_from_data(each)) for name, each in data["constraints"]),
        tuple(Length(column, most) for column, most in data["lengths"]),
        tuple(Generated(column, node_from_data(each)) for column, each in data["generated"]),
        tuple(defaults),
    )
