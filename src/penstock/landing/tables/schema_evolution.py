"""Schemas that records ask for: kept with their tables, and made before those are read for again.

If a table's records ask for a wider schema, it gets nothing from that epoch: it is read again once
the schema is made (docs/design/0042). The others go on.

Invariants:
- one schema change a table and epoch, made only when none of its commits is under way: so no
  prepared file meets a schema it was not written for;
- at most `limits.new_columns_per_hour` columns are added to a table in an hour, and it never gets
  more than `limits.columns`; what asks for more is quarantined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.commit.attempt import CommitContext
from penstock.commit.evolution import evolve
from penstock.core.events import SchemaChanged
from penstock.core.schema import Field, List, Map, Schema, Struct, Type
from penstock.core.schema_join import united, with_hints
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult
from penstock.rows.schema.evolution import changes_between
from penstock.rows.schema.inference import columns_in

_CHANGES_SHOWN_MAX = 8


def requested_schemas(
    tables: Mapping[str, TableProgress], results: Iterable[TaskResult]
) -> dict[str, Schema]:
    """Join the schemas that an epoch's records ask for, by table, with what the spec declares."""
    requests: dict[str, list[Schema]] = defaultdict(list)
    for result in results:
        for name, schema in result.schemas.items():
            requests[name].append(schema)
    return {
        name: with_declared(table.state.schema, united(schemas), table.target.hints)
        for name, schemas in requests.items()
        if (table := tables.get(name)) is not None and table.state is not None
    }


def record_requests(tables: TableSet, results: Iterable[TaskResult]) -> set[str]:
    """Keep what an epoch's records ask for with their tables; return those that get a schema."""
    requested = requested_schemas(tables.active, results)
    for name, schema in requested.items():
        tables.update(replace(tables.progress[name], pending_schema=schema))
    return {*requested}


def apply_requests(tables: TableSet, context: CommitContext) -> None:
    """Make the schemas that are asked for, of tables that have no commit under way.

    Raises FencedError when a newer owner has landed.
    """
    for name, table in tables.active.items():
        wide = table.pending_schema
        if wide is None or table.commits_in_flight:
            continue
        assert table.position is not None, "a table that asks for a schema exists"
        assert table.state is not None, "a table that asks for a schema exists"
        tables.update(replace(tables.progress[name], pending_schema=None))
        with tables.parked.parking(name, "its schema cannot be changed"):
            if evolve(table.position.table, table.chain, table.state, wide, context):
                added = columns_in(wide) - columns_in(table.state.schema)
                tables.columns.add(name, added, tables.environment.clock.monotonic())
                changes: Sequence[str] = changes_between(table.state.schema, wide)
                shown, more = changes[:_CHANGES_SHOWN_MAX], len(changes) - _CHANGES_SHOWN_MAX
                text = ", ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
                tables.environment.observer(SchemaChanged(name, "evolved", text))
            tables.open(name)
            tables.assign_partitions()


def with_declared(before: Schema, wide: Schema, hints: Mapping[str, Type]) -> Schema:
    """Return the schema, what is new in it of the types that the spec declares, at all depths."""
    found = _where_new(before, wide, with_hints(wide, hints))
    assert isinstance(found, Struct), "a schema stays one"
    return found


def _where_new(before: Type, wide: Type, hinted: Type) -> Type:
    match before, wide, hinted:
        case Struct(), Struct(), Struct():
            return Struct(tuple(_field(before, each, hinted) for each in wide.fields))
        case List(old), List(new, required), List(declared):
            return List(_where_new(old, new, declared), required)
        case Map(_, old), Map(key, new, required), Map(_, declared):
            return Map(key, _where_new(old, new, declared), required)
        case _:
            return wide


def _field(before: Struct, wide: Field, hinted: Struct) -> Field:
    old, declared = before.field(wide.name), hinted.field(wide.name)
    if declared is None:
        return wide
    type_ = declared.type if old is None else _where_new(old.type, wide.type, declared.type)
    return Field(wide.name, type_, wide.required)
