"""What lets records into a table, resolved: conditions, and names made of what records say.

Invariant: a gate is plain data, and so is part of a job; with equal gates, records get equal
answers (protocol.md 2: verdicts are reproducible).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.core.schema import Schema, Struct, schema_from_json, type_to_json

Unknown = Literal["quarantine", "create", "fail"]


@dataclass(frozen=True, slots=True)
class Look:
    """An SQL expression over one record: the declared fields it reads, and where it stands.

    `place` is its path in the spec, `tables[1].where`: filtered records are counted under it.
    """

    sql: str
    fields: Schema
    place: str


@dataclass(frozen=True, slots=True)
class Route:
    """One rule that makes its tables' names of what records say.

    `template` is `<catalog>.<namespace>.<name>` with placeholders in the last part, each of which a
    look of `parts` fills. `reserved` are tables of other rules. `unknown` is the fate of a record
    whose table does not exist.
    """

    template: str
    parts: Mapping[str, Look]
    reserved: tuple[str, ...] = ()
    unknown: Unknown = "quarantine"


@dataclass(frozen=True, slots=True)
class Gate:
    """What a record must pass, in order: no condition of a rule above takes it, its own does.

    With a route, the gate stands before one of the route's tables, named by `share`, or before the
    route itself (`share` is empty), where records stay that no table takes.
    """

    above: tuple[Look, ...] = ()
    where: Look | None = None
    route: Route | None = None
    share: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether it lets everything in, unlooked."""
        return not self.above and self.where is None and self.route is None

    @property
    def looks(self) -> tuple[Look, ...]:
        """List all expressions."""
        own = () if self.where is None else (self.where,)
        parts = () if self.route is None else tuple(self.route.parts.values())
        return (*self.above, *own, *parts)

    @property
    def reads_headers(self) -> bool:
        """Return whether an expression may look at headers."""
        return any("_kafka_headers" in look.sql.lower() for look in self.looks)


OPEN = Gate()


def gate_to_data(gate: Gate) -> dict[str, Any]:
    """Return a gate's plain form."""
    route = gate.route
    return {
        "above": [look_to_data(look) for look in gate.above],
        "where": None if gate.where is None else look_to_data(gate.where),
        "route": None
        if route is None
        else {
            "template": route.template,
            "parts": {name: look_to_data(look) for name, look in route.parts.items()},
            "reserved": list(route.reserved),
            "unknown": route.unknown,
        },
        "share": gate.share,
    }


def gate_from_data(data: Mapping[str, Any]) -> Gate:
    """Read the plain form."""
    route = data["route"]
    return Gate(
        above=tuple(look_from_data(look) for look in data["above"]),
        where=None if data["where"] is None else look_from_data(data["where"]),
        route=None
        if route is None
        else Route(
            route["template"],
            {name: look_from_data(look) for name, look in route["parts"].items()},
            tuple(route["reserved"]),
            route["unknown"],
        ),
        share=data["share"],
    )


def look_to_data(look: Look) -> list[Any]:
    """Return a look's plain form."""
    return [look.sql, type_to_json(look.fields), look.place]


def look_from_data(data: list[Any]) -> Look:
    """Read the plain form."""
    sql, fields, place = data
    return Look(sql, schema_from_json(fields) if fields else Struct(()), place)
