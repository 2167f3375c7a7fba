"""What is computed for a table, as plain data: part of a job, like gates.

Invariant: with equal data, records get equal columns (protocol.md 2: verdicts are reproducible).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.rows.route.filters import SqlExpression, expression_from_data, expression_to_data


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """What is computed for a table: looks by column, and a function with the columns it fills.

    `call` is the import path of the function, "" without one.
    """

    expressions: Mapping[str, SqlExpression] = field(default_factory=dict)
    call: str = ""
    filled: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """List the computed columns."""
        return (*self.expressions, *self.filled)

    @property
    def reads_headers(self) -> bool:
        """Return whether an expression may look at headers."""
        return any("_kafka_headers" in look.sql.lower() for look in self.expressions.values())


NOTHING = ComputedColumns()


def computed_to_data(computed: ComputedColumns) -> dict[str, Any]:
    """Return the plain form."""
    return {
        "looks": {name: expression_to_data(look) for name, look in computed.expressions.items()},
        "call": computed.call,
        "filled": list(computed.filled),
    }


def computed_from_data(data: Mapping[str, Any]) -> ComputedColumns:
    """Read the plain form."""
    looks = {name: expression_from_data(look) for name, look in data["looks"].items()}
    return ComputedColumns(looks, data["call"], tuple(data["filled"]))
