"""What lets records into a table and what is computed for it: conditions, routes, expressions.

Invariant: all of it is plain data, and so part of a job; with equal filters records get equal
answers, and with equal expressions equal columns (protocol.md 2: verdicts are reproducible).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.core.schema import Schema, Struct, schema_from_json, type_to_json

Unknown = Literal["quarantine", "create", "fail"]


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An SQL expression over one record: the declared fields it reads, and where it stands.

    `place` is its path in the spec, `tables[1].where`: filtered records are counted under it.
    """

    sql: str
    fields: Schema
    spec_path: str


@dataclass(frozen=True, slots=True)
class DynamicRoute:
    """One rule that makes its tables' names of what records say.

    `template` is `<catalog>.<namespace>.<name>` with placeholders in the last part, each of which a
    look of `parts` fills. `reserved` are tables of other rules. `unknown` is the outcome of a
    record whose table does not exist.
    """

    template: str
    parts: Mapping[str, SqlExpression]
    reserved: tuple[str, ...] = ()
    unknown: Unknown = "quarantine"


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What a record must pass, in order: no condition of a rule above takes it, its own does.

    With a route, the gate stands before one of the route's tables, named by `share`, or before the
    route itself (`share` is empty), where records stay that no table takes.
    """

    rules_above: tuple[SqlExpression, ...] = ()
    where: SqlExpression | None = None
    route: DynamicRoute | None = None
    share: str = ""

    @property
    def passes_all(self) -> bool:
        """Return whether it lets everything in, unlooked."""
        return not self.rules_above and self.where is None and self.route is None

    @property
    def expressions(self) -> tuple[SqlExpression, ...]:
        """List all expressions."""
        own = () if self.where is None else (self.where,)
        parts = () if self.route is None else tuple(self.route.parts.values())
        return (*self.rules_above, *own, *parts)

    @property
    def reads_headers(self) -> bool:
        """Return whether an expression may look at headers."""
        return any("_kafka_headers" in look.sql.lower() for look in self.expressions)


PASS_ALL = RecordFilter()


def filter_to_data(gate: RecordFilter) -> dict[str, Any]:
    """Return a gate's plain form."""
    route = gate.route
    return {
        "above": [expression_to_data(look) for look in gate.rules_above],
        "where": None if gate.where is None else expression_to_data(gate.where),
        "route": None
        if route is None
        else {
            "template": route.template,
            "parts": {name: expression_to_data(look) for name, look in route.parts.items()},
            "reserved": list(route.reserved),
            "unknown": route.unknown,
        },
        "share": gate.share,
    }


def filter_from_data(data: Mapping[str, Any]) -> RecordFilter:
    """Read the plain form."""
    route = data["route"]
    return RecordFilter(
        rules_above=tuple(expression_from_data(look) for look in data["above"]),
        where=None if data["where"] is None else expression_from_data(data["where"]),
        route=None
        if route is None
        else DynamicRoute(
            route["template"],
            {name: expression_from_data(look) for name, look in route["parts"].items()},
            tuple(route["reserved"]),
            route["unknown"],
        ),
        share=data["share"],
    )


def expression_to_data(look: SqlExpression) -> list[Any]:
    """Return a look's plain form."""
    return [look.sql, type_to_json(look.fields), look.spec_path]


def expression_from_data(data: list[Any]) -> SqlExpression:
    """Read the plain form."""
    sql, fields, place = data
    return SqlExpression(sql, schema_from_json(fields) if fields else Struct(()), place)


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
