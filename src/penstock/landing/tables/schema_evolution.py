"""Schemas that records wish for: kept with their tables, and made before those are read for again.

A table whose records wish for a wider schema gets nothing from that epoch: it is read again once
the schema is made (docs/design/0042). The others go on.

Invariants:
- one schema change a table and epoch, made only when none of its commits is under way: so no
  prepared file meets a schema it was not written for;
- at most `limits.new_columns_per_hour` columns are added to a table in an hour, and it never gets
  more than `limits.columns`; what wishes for more is quarantined.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.commit.evolution import evolve
from penstock.commit.land import CommitContext
from penstock.core.events import SchemaChanged
from penstock.core.schema import Field, List, Map, Schema, Struct, Type
from penstock.core.schema_join import united, with_hints
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import TaskResult
from penstock.rows.schema.inference import columns_in
from penstock.rows.schema.widening import changes_between

if TYPE_CHECKING:
    from penstock.landing.tables.table_set import TableSet

HOUR_SECONDS = 3600.0
_CHANGES_SHOWN_MAX = 8


@dataclass(slots=True)
class ColumnBudget:
    """Counts the columns that were added to each table within the last hour."""

    per_hour: int
    _added: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))

    def left(self, table: str, now: float) -> int:
        """Return how many columns may be added to a table now."""
        added = self._added.get(table)
        if not added:
            return self.per_hour
        while added and added[0][0] <= now - HOUR_SECONDS:
            added.popleft()
        return max(self.per_hour - sum(count for _, count in added), 0)

    def add(self, table: str, count: int, now: float) -> None:
        """Note columns that were added."""
        if count:
            self._added[table].append((now, count))


def record_requests(
    tracks: Mapping[str, TableProgress], results: Iterable[TaskResult]
) -> list[str]:
    """Keep the wishes of an epoch with their tables; give the tables that have one."""
    wishes: dict[str, list[Schema]] = defaultdict(list)
    for result in results:
        for name, schema in result.schemas.items():
            wishes[name].append(schema)
    kept = []
    for name, schemas in wishes.items():
        track = tracks.get(name)
        if track is not None and track.state is not None:
            track.pending_schema = with_declared(
                track.state.schema, united(schemas), track.target.hints
            )
            kept.append(name)
    return kept


def apply_requests(fleet: TableSet, conditions: CommitContext) -> None:
    """Make the schemas that are wished for, of tables that have no commit under way.

    Raises FencedError when a newer owner has landed.
    """
    for name, track in fleet.active.items():
        if track.pending_schema is None or track.commits_in_flight:
            continue
        assert track.position is not None, "a table that wishes exists"
        assert track.state is not None, "a table that wishes exists"
        before, wide, track.pending_schema = track.state.schema, track.pending_schema, None
        with fleet.parking(name, "its schema cannot be changed"):
            made = evolve(track.position.table, track.chain, track.state, wide, conditions)
            if made:
                added = columns_in(wide) - columns_in(before)
                fleet.column_budget.add(name, added, fleet.environment.clock.monotonic())
                fleet.environment.observer(_changes_text(name, before, wide))
            fleet.open(name)
            fleet.assign_partitions()


def _changes_text(name: str, before: Schema, wide: Schema) -> SchemaChanged:
    changes: Sequence[str] = changes_between(before, wide)
    more = (
        [f"and {len(changes) - _CHANGES_SHOWN_MAX} more"]
        if len(changes) > _CHANGES_SHOWN_MAX
        else []
    )
    return SchemaChanged(name, "evolved", ", ".join([*changes[:_CHANGES_SHOWN_MAX], *more]))


def with_declared(before: Schema, wide: Schema, hints: Mapping[str, Type]) -> Schema:
    """Return a schema whose new columns have the types that the spec declares, at all depths."""
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
