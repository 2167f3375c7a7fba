"""The tables of a route that records ask for are created.

Invariants:
- a route goes on only when the tables that its records ask for are there, with their ledgers
  (protocol.md 2; failure-modes.md W8); until then it reads the same range again;
- there are never more tables than `limits.tables`: what asks for more is quarantined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.commit.attempt import CommitContext
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import united
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult


def requested_tables(results: Iterable[TaskResult]) -> dict[str, dict[str, Schema]]:
    """Join what tasks say of tables that do not exist: by route, then by table."""
    found: dict[str, dict[str, Schema]] = defaultdict(dict)
    for result in results:
        for route, tables in result.requested.items():
            for name, schema in tables.items():
                found[route][name] = united((found[route].get(name, Struct(())), schema))
    return dict(found)


def create_requested(
    tables: TableSet, context: CommitContext, results: Sequence[TaskResult]
) -> list[str]:
    """Create the tables that an epoch's records ask for; return the routes that read it again.

    A route that is not level reads it again: its tables begin at its durable position.
    Raises FencedError.
    """
    again = []
    requested = requested_tables(results)
    read = {name for each in results for lane in each.lanes for name in lane.lane.tables}
    for name in [name for name in tables.active if name in read]:
        route, wanted = tables.progress[name], requested.get(name, {})
        tables.update(replace(route, wants_tables=bool(wanted)))
        if not wanted:
            continue
        if not route.is_level:
            again.append(name)
            continue
        granted = sorted(wanted)[: tables.capacity_left(route)]
        with tables.parked.parking(name, "a table that its records ask for cannot be created"):
            for table in granted:
                target = route.target.route_table(table)
                tables.opener.create_table(target, wanted[table], route.expected, context.claim)
                tables.route_table_created(route, table, context)
        if name in tables.parked:
            continue
        if len(wanted) > len(granted) or not all(map(tables.has_begun, granted)):
            again.append(name)
    return again


def routes_behind(tables: TableSet) -> list[str]:
    """List the routes that a table waits for, to begin at their durable positions."""
    waited = {
        route.name: route
        for name, table in tables.active.items()
        if (route := tables.route_of(name)) is not None and not table.expected
    }
    return [name for name, route in waited.items() if not route.is_level]
