"""The rules of a table as data: conditions, routes, and expressions that are computed for it.

Invariant: all of it is plain data, and so part of a job; with equal filters records get equal
answers, and with equal expressions equal columns (protocol.md 2: verdicts are reproducible).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.core.schema import Schema, Struct, schema_from_json, type_to_json

Unknown = Literal["quarantine", "create", "fail"]


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An SQL expression over one record: the declared fields it reads, and its place in the spec.

    `spec_path` is its path in the spec, `tables[1].where`: filtered records are counted under it.
    """

    sql: str
    fields: Schema
    spec_path: str


@dataclass(frozen=True, slots=True)
class DynamicRoute:
    """One rule that makes its tables' names of what records say.

    `template` is `<catalog>.<namespace>.<name>` with placeholders in the last part, each filled by
    an expression of `parts`. `reserved` are tables of other rules. `unknown` is the outcome of a
    record with a table that does not exist.
    """

    template: str
    parts: Mapping[str, SqlExpression]
    reserved: tuple[str, ...] = ()
    unknown: Unknown = "quarantine"


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The conditions of a record, in order: no rule above takes it, and its own rule does.

    With a route, the filter is that of one of the route's tables, named by `share`, or of the route
    itself (`share` is empty), where records stay that no table takes.
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
        """Return whether an expression may read headers."""
        return _read_headers(self.expressions)


PASS_ALL = RecordFilter()


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """Computed columns of a table: expressions by column, and a function and the columns it fills.

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
        """Return whether an expression may read headers."""
        return _read_headers(self.expressions.values())


NOTHING = ComputedColumns()


def filter_to_data(record_filter: RecordFilter) -> dict[str, Any]:
    """Return a filter's plain form."""
    route = record_filter.route
    parts = _all_to_data(route.parts if route else {})
    return {
        "above": [_to_data(expression) for expression in record_filter.rules_above],
        "where": record_filter.where and _to_data(record_filter.where),
        "route": route and [route.template, parts, route.reserved, route.unknown],
        "share": record_filter.share,
    }


def filter_from_data(data: Mapping[str, Any]) -> RecordFilter:
    """Read the plain form."""
    route = None
    if data["route"] is not None:
        template, parts, reserved, unknown = data["route"]
        route = DynamicRoute(template, _all_from_data(parts), tuple(reserved), unknown)
    return RecordFilter(
        rules_above=tuple(_from_data(expression) for expression in data["above"]),
        where=data["where"] and _from_data(data["where"]),
        route=route,
        share=data["share"],
    )


def computed_to_data(computed: ComputedColumns) -> dict[str, Any]:
    """Return the plain form."""
    expressions = _all_to_data(computed.expressions)
    return {"expressions": expressions, "call": computed.call, "filled": list(computed.filled)}


def computed_from_data(data: Mapping[str, Any]) -> ComputedColumns:
    """Read the plain form."""
    return ComputedColumns(_all_from_data(data["expressions"]), data["call"], tuple(data["filled"]))


def _read_headers(expressions: Iterable[SqlExpression]) -> bool:
    return any("_kafka_headers" in expression.sql.lower() for expression in expressions)


def _to_data(expression: SqlExpression) -> list[Any]:
    return [expression.sql, type_to_json(expression.fields), expression.spec_path]


def _from_data(data: list[Any]) -> SqlExpression:
    sql, fields, place = data
    return SqlExpression(sql, schema_from_json(fields) if fields else Struct(()), place)


def _all_to_data(expressions: Mapping[str, SqlExpression]) -> dict[str, list[Any]]:
    return {name: _to_data(expression) for name, expression in expressions.items()}


def _all_from_data(data: Mapping[str, list[Any]]) -> dict[str, SqlExpression]:
    return {name: _from_data(expression) for name, expression in data.items()}
