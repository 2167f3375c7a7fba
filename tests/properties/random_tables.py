"""Random tables of both formats, written as landing does, and the rows that they hold.

A table's life is drawn: its layout, what lands commit by commit, and what happens between: manifests
are merged, checkpoints written, files replaced, partitioning changed, files rewritten by strangers.

Invariants:
- a row is what was given to our writer; `id` tells rows apart;
- every batch draws few values for each column, so that files and row groups have narrow bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.integration.readers.lakes import Lakes
from tests.properties.filters import FLOATS, Filter, Op
from tests.properties.nasty_values import (
    INNER,
    NOT_OF_DELTA,
    columns_without,
    schema_of,
    value_in,
    values_of,
)

from penstock.core.schema import Decimal, Fixed, Kind, Type
from penstock.ports.tables import TableDefinition

Row = dict[str, Any]

_CALENDAR = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
MERGED_AT = 10
"""After so many commits small manifests are merged into one."""


Layout = Sequence[tuple[str, str]]
"""Partition transforms, by name, and the columns that they read."""


@dataclass(frozen=True, slots=True)
class Begun:
    """How a table is created."""

    connector: str
    columns: Mapping[str, Type]
    layout: Layout
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The life of one table: rows by commit; what is done after them, in this order."""

    begun: Begun
    commits: Sequence[Sequence[Row]]
    then: Sequence[str]
    filters: Sequence[Filter]

    @property
    def table(self) -> str:
        return f"{self.begun.connector}.shop.t"

    def __repr__(self) -> str:
        begun, counts = self.begun, [len(commit) for commit in self.commits]
        return (
            f"Plan({begun.partition_by}, {begun.properties}, {begun.sizes}, {counts}, {self.then})"
        )

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))  # Hypothesis would show all rows


@dataclass(slots=True)
class Lived:
    """A table that has lived, the rows it must hold by id, and the catalogs it is in."""

    plan: Plan
    lakes: Lakes
    rows: dict[int, Row] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return self.plan.table


def is_transformed(transform: str, type_: Type) -> bool:
    """Tell whether a partition transform of Iceberg takes a type."""
    match transform:
        case "identity":  # others are refused: readers disagree on them
            return type_ not in (*FLOATS, Kind.UUID) and not isinstance(type_, Fixed)
        case "bucket":
            return type_ not in (Kind.BOOLEAN, *FLOATS)
        case "truncate":
            numbers = (Kind.INT, Kind.LONG, Kind.STRING, Kind.BINARY)
            return type_ in numbers or isinstance(type_, Decimal)
        case "hour":
            return type_ in _CALENDAR
        case _:
            return type_ in (*_CALENDAR, Kind.DATE)


DELTA_PARTS = ("ok", "i", "l", "s", "on_day", "local", "ts", "n9", "n38")
TRANSFORMS = {
    **{name: f"{name}({{}})" for name in ("identity", "year", "month", "day", "hour")},
    "bucket": "bucket(4, {})",
    "truncate": "truncate(10, {})",
}
LAYOUTS = tuple(
    (name, column)
    for name in TRANSFORMS
    for column, type_ in columns_without().items()
    if is_transformed(name, type_)
)
"""Every partition transform on every column that it takes."""


def fits(transform: str, type_: Type, value: Any) -> bool:
    """Tell whether a value has a partition: rounded down it may be none of its type."""
    if transform == "plain":
        return value != ""  # which is null in Delta
    if transform != "truncate" or value is None or type_ in (Kind.STRING, Kind.BINARY):
        return True
    low = min(values_of(type_))
    return bool(value > low)


@st.composite
def rows(draw: st.DrawFn, columns: Mapping[str, Type], layout: Layout) -> list[Row]:
    """Draw a batch of rows, without ids."""
    count = draw(st.integers(1, 6))
    drawn: dict[str, list[Any]] = {}
    for name, type_ in columns.items():
        transforms = [each for each, column in layout if column == name]
        taken = [each for each in values_of(type_) if all(fits(t, type_, each) for t in transforms)]
        few = draw(st.lists(st.sampled_from([None, *taken]), min_size=1, max_size=3))
        drawn[name] = [few[at % len(few)] for at in range(count)]
    null = draw(st.sampled_from([False, False, True]))
    return [_row({name: those[at] for name, those in drawn.items()}, null) for at in range(count)]


def _row(flat: Mapping[str, Any], null: bool) -> Row:
    row: Row = {name: value for name, value in flat.items() if "." not in name}
    row["in"] = None if null else {name: flat[f"in.{name}"] for name in INNER}
    return {**row, "many": ["a", None], "more": [("k", 1.0)]}


@st.composite
def filters(draw: st.DrawFn, columns: Mapping[str, Type], given: Sequence[Row]) -> Filter:
    """Draw a filter on any column, mostly by values that are there, or next to them."""
    name, type_ = draw(st.sampled_from(sorted(columns.items())))
    operators = [each for each in Op if _asks(each, type_)]
    op = draw(st.sampled_from(operators))
    if op in (Op.IS_NULL, Op.NOT_NULL, Op.IS_NAN, Op.NOT_NAN):
        return Filter(name, type_, op)
    there = [value for row in given if (value := value_in(row, name)) is not None]
    value = st.sampled_from(there + list(values_of(type_)))
    if op is Op.IN:
        drawn = draw(st.lists(value, min_size=2, max_size=3))
        return Filter(name, type_, op, tuple(dict.fromkeys(drawn)))
    return Filter(name, type_, op, (draw(value),))


def _asks(op: Op, type_: Type) -> bool:
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return type_ in FLOATS
    return op is not Op.STARTS or type_ is Kind.STRING


@st.composite
def iceberg_plans(draw: st.DrawFn, filters_count: int) -> Plan:
    """Draw the life of an Iceberg table."""
    layout = draw(st.lists(st.sampled_from(LAYOUTS), max_size=3, unique=True))
    acts = ["replace", "respec"]
    if all(name == "identity" for name, _ in layout):
        acts.append("rewrite")  # PyIceberg alone writes into no other partitions
    return draw(
        _plans(
            Begun(
                "lake",
                columns_without(),
                layout,
                tuple(TRANSFORMS[name].format(column) for name, column in layout),
                draw(_iceberg_properties()),
            ),
            acts,
            filters_count,
        )
    )


@st.composite
def delta_plans(draw: st.DrawFn, filters_count: int) -> Plan:
    """Draw the life of a Delta table."""
    mode = draw(st.sampled_from(["none", "none", "name", "id"]))
    unheld = NOT_OF_DELTA if mode == "none" else (*NOT_OF_DELTA, Kind.TIMESTAMP)
    columns = columns_without(*unheld)
    parts = [each for each in columns if each in DELTA_PARTS]
    chosen = draw(st.lists(st.sampled_from(parts), max_size=2, unique=True))
    return draw(
        _plans(
            Begun(
                "delta",
                columns,
                [("plain", each) for each in chosen],
                tuple(chosen),
                draw(_delta_properties(mode)),
                draw(_sizes()),
            ),
            ["replace", "checkpoint"],
            filters_count,
        )
    )


@st.composite
def _plans(draw: st.DrawFn, begun: Begun, acts: Sequence[str], filters_count: int) -> Plan:
    batch = rows(begun.columns, begun.layout)
    few = draw(st.lists(batch, min_size=1, max_size=4))
    many = [draw(batch)] * MERGED_AT if draw(st.booleans()) else []
    commits = _numbered([*few, *many])
    held = [row for commit in commits for row in commit]
    asked = filters(begun.columns, held)
    return Plan(
        begun,
        commits,
        draw(st.lists(st.sampled_from(acts), max_size=2)),
        draw(st.lists(asked, min_size=filters_count, max_size=filters_count)),
    )


def _numbered(commits: Sequence[Sequence[Row]]) -> list[list[Row]]:
    numbers = iter(range(1_000_000))
    return [[{"id": next(numbers), **row} for row in commit] for commit in commits]


@st.composite
def _iceberg_properties(draw: st.DrawFn) -> dict[str, str]:
    return {
        "format-version": draw(st.sampled_from(["1", "2"])),
        "write.parquet.row-group-size-bytes": draw(st.sampled_from(["1", "2000", "100000000"])),
        "write.target-file-size-bytes": draw(st.sampled_from(["20000", "100000000"])),
        "write.metadata.metrics.default": draw(
            st.sampled_from(["truncate(16)", "truncate(1)", "full", "counts", "none"])
        ),
    }


@st.composite
def _delta_properties(draw: st.DrawFn, mode: str) -> dict[str, str]:
    return {
        "delta.checkpointInterval": draw(st.sampled_from(["1", "3", "100"])),
        "delta.dataSkippingNumIndexedCols": draw(st.sampled_from(["32", "32", "-1", "7", "0"])),
        **({} if mode == "none" else {"delta.columnMapping.mode": mode}),
    }


@st.composite
def _sizes(draw: st.DrawFn) -> dict[str, int]:
    return {
        "penstock.row_group_bytes": draw(st.sampled_from([1, 2000, 20_000])),
        "penstock.target_file_bytes": draw(st.sampled_from([20_000, 100_000_000])),
    }


def live(plan: Plan, place: Path) -> Lived:
    """Let a table live as it was planned."""
    begun = plan.begun
    lived = Lived(plan, Lakes(place, sizes=begun.sizes))
    definition = TableDefinition(schema_of(begun.columns), begun.partition_by, begun.properties)
    lived.lakes.create(plan.table, definition)
    last: Sequence[str] = ()
    for commit in plan.commits:
        landed = lived.lakes.landed(plan.table, commit)
        lived.lakes.table(plan.table).housekeep()
        lived.rows |= {row["id"]: row for row in commit}
        last = [file.path for file in landed.files]
    for act in plan.then:
        last = _done(lived, act, last)
    return lived


def _done(lived: Lived, act: str, last: Sequence[str]) -> Sequence[str]:
    """Do what happens to a table later; give the files of the last commit that are there still."""
    lakes, table = lived.lakes, lived.table
    match act:
        case "replace" if last:
            lakes.replaced(table, last, lived.plan.commits[-1])
            return ()
        case "respec":
            known = lakes.known(table)
            for part in known.spec().fields[:1]:  # a void field in tables of the first format
                known.update_spec().remove_field(part.name).commit()
            lakes.landed(table, again := _again(lived))
            lived.rows |= {row["id"]: row for row in again}
        case "rewrite":  # PyIceberg writes the manifests of what it deletes from once more
            known = lakes.known(table)
            gone = max(lived.rows)
            known.delete(f"id = {gone}")
            del lived.rows[gone]
        case "checkpoint":
            lakes.handle(table).create_checkpoint()
            return last
        case _:
            return last
    return ()


def _again(lived: Lived) -> list[Row]:
    """Give the rows of the first commit once more, under ids of their own."""
    first = max(lived.rows, default=0) + 1
    return [{**row, "id": first + at} for at, row in enumerate(lived.plan.commits[0])]
