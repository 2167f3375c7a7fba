"""How the columns of a table change in its life, by us and by other writers.

Invariants:
- rows name columns, and hold values of their types, as the table has them in the end;
- what was landed before a column was there is null in it, and so is what was landed in a column of
  the same name that another writer dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.integration.readers.lakes import Lakes
from tests.properties.nasty_values import INNER, schema_of

from penstock.core.schema import Decimal, Kind, Type

FORMER = "old "
"""Begins the name that a column has before it is renamed."""
NARROWER: Mapping[str, tuple[Type, Type]] = {
    "i": (Kind.INT, Kind.LONG),
    "f": (Kind.FLOAT, Kind.DOUBLE),
    "n9": (Decimal(9, 2), Decimal(38, 2)),
}
"""Columns that Iceberg widens: their types before and after."""


@dataclass(frozen=True, slots=True)
class Change:
    """What changes before a commit, by number; `dropped` are added again under their names."""

    before: int = 0
    added: frozenset[str] = frozenset()
    widened: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    @property
    def later(self) -> frozenset[str]:
        """Name the columns that files of before do not have."""
        return self.added | self.dropped

    def at_first(self, columns: Mapping[str, Type]) -> dict[str, Type]:
        """Return the columns that rows have before, of those that they have afterwards."""
        kept = {name: type_ for name, type_ in columns.items() if name not in self.added}
        return kept | {name: NARROWER[name][0] for name in self.widened}

    def named_at_first(self, name: str) -> str:
        """Return the name that a column begins with."""
        return f"{FORMER}{name}" if name in self.renamed else name

    def as_landed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with the names it had before."""
        return {self.named_at_first(name): value for name, value in row.items()}

    def as_read(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what readers find afterwards of a row that landed before."""
        inner = row["in"]
        if inner is not None:
            inner = {name: None if f"in.{name}" in self.later else inner[name] for name in INNER}
        return {**row, **{each: None for each in self.later if "." not in each}, "in": inner}


NEVER = Change()


@st.composite
def changes(
    draw: st.DrawFn,
    columns: Sequence[str],
    parts: Sequence[str],
    commits: int,
    kinds: Sequence[str],
) -> Change:
    """Draw a change of some columns, each in one way; those of partitions keep their place."""
    drawn: dict[str, set[str]] = {kind: set() for kind in kinds}
    for name in draw(st.lists(st.sampled_from(columns), max_size=6, unique=True)):
        kind = draw(st.sampled_from(kinds))
        fits = (
            (kind != "widened" or name in NARROWER)
            and (kind in ("renamed", "widened") or name not in parts)
            and (kind == "added" or "." not in name)
        )
        if fits:
            drawn[kind].add(name)
    found = {kind: frozenset(names) for kind, names in drawn.items()}
    return Change(draw(st.integers(1, max(1, commits - 1))), **found)


def change_columns(lakes: Lakes, table: str, change: Change, columns: Mapping[str, Type]) -> None:
    """Have another writer rename and drop, and then add and widen as we do."""
    if change.renamed or change.dropped:
        change_by_other = _by_pyiceberg if table.startswith("lake.") else _by_hand
        change_by_other(lakes, table, change)
    if change.later or change.widened:
        lakes.table(table).evolve(lakes.state(table), schema_of(columns))


def _by_pyiceberg(lakes: Lakes, table: str, change: Change) -> None:
    with lakes.known(table).update_schema(allow_incompatible_changes=True) as update:
        for name in change.dropped:
            update.delete_column(name)
        for name in change.renamed:
            update.rename_column(change.named_at_first(name), name)


def _by_hand(lakes: Lakes, table: str, change: Change) -> None:
    """Write the entry that Spark writes: deltalake changes no columns."""
    handle = lakes.handle(table)
    metadata = handle.metadata()
    schema = json.loads(handle.schema().to_json())
    named = {change.named_at_first(name): name for name in change.renamed}
    schema["fields"] = [
        {**each, "name": named.get(each["name"], each["name"])}
        for each in schema["fields"]
        if each["name"] not in change.dropped
    ]
    action = {
        "id": str(metadata.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [named.get(each, each) for each in metadata.partition_columns],
        "configuration": metadata.configuration,
        "createdTime": metadata.created_time,
    }
    info = {"timestamp": metadata.created_time, "operation": "CHANGE COLUMN"}
    lines = [json.dumps(each) + "\n" for each in ({"commitInfo": info}, {"metaData": action})]
    place = Path(handle.table_uri.removeprefix("file://")) / "_delta_log"
    (place / f"{handle.version() + 1:020}.json").write_text("".join(lines))
