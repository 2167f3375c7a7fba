"""What a table demands of each row that is written to it, beyond the types of its columns.

Invariants:
- it is plain data: what the table holds as texts was read by the driver, and workers compute trees;
- defaults are filled in first, then generated columns are computed, then all else is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.expressions.tree import Constant, Node, node_from_data, node_to_data


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


NO_DEMANDS = Demands()


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
