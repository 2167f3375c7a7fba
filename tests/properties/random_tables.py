"""Random tables of both formats, written as landing does, and the rows that they hold.

A table's life is drawn: its layout, what lands commit by commit, and what happens between: manifests
are merged, checkpoints written, files replaced, columns added, widened, renamed and dropped,
partitioning changed, files rewritten by other writers.

Invariants:
- a row is what was given to our writer; `id` identifies rows;
- every batch draws few values for each column, so that files and row groups have narrow bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from tests.integration.readers.lakes import Lakes
from tests.properties.changes import NARROWER, NEVER, Change, change_columns, changes
from tests.properties.filters import FLOATS, Filter, Op
from tests.properties.layouts import LAYOUTS, TRANSFORMS, Layout, fits
from tests.properties.nasty_values import (
    INNER,
    NOT_OF_DELTA,
    columns_without,
    schema_of,
    value_in,
    values_of,
)

from penstock.core.schema import Kind, Type
from penstock.ports.tables import TableDefinition

Row = dict[str, Any]

DELTA_PARTS = ("ok", "i", "l", "s", "on_day", "local", "ts", "n9", "n38")
MERGED_AT = 10
"""After so many commits small manifests are merged into one."""


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
    """The life of one table: rows by commit; what is done after them, in this order.

    `between` says what is done before a commit, by number.
    """

    begun: Begun
    commits: Sequence[Sequence[Row]]
    then: Sequence[str]
    filters: Sequence[Filter]
    change: Change = NEVER
    between: Mapping[int, str] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return f"{self.begun.connector}.shop.t"

    def __repr__(self) -> str:
        begun, counts = self.begun, [len(commit) for commit in self.commits]
        return (
            f"Plan({begun.partition_by}, {begun.properties}, {begun.sizes}, {counts}, {self.then}, "
            f"{self.change}, {self.between})"
        )

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))  # Hypothesis would show all rows


@dataclass(slots=True)
class Lived:
    """A table that has lived, the rows it must hold by id, and the catalogs it is in."""

    plan: Plan
    lakes: Lakes
    rows: dict[int, Row] = field(default_factory=dict)
    last: Sequence[str] = ()
    """Files of the commit that landed last, as long as they are there."""
    newest: Sequence[int] = ()
    """The ids of its rows."""
    is_changed: bool = True
    older: set[str] = field(default_factory=set)
    """The names of Delta's files that are older than the change of columns."""
    unindexed: set[str] = field(default_factory=set)
    """The names of those that are older than the indexing of all columns."""

    def files_of_delta(self) -> set[str]:
        """Name the files that a Delta table has now."""
        if self.plan.begun.connector != "delta":
            return set()
        return {Path(each).name for each in self.lakes.handle(self.table).file_uris()}

    @property
    def table(self) -> str:
        return self.plan.table


def deltalake_writes(begun: Begun) -> bool:
    """Return whether deltalake writes into a table, and makes a data set of it.

    It does neither where names are mapped, nor with partitions of small negative decimals.
    """
    mapped = "delta.columnMapping.mode" in begun.properties
    return not mapped and not {"n9", "n38"} & {*begun.partition_by}


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
    row["in"] = None if null else {name: flat.get(f"in.{name}") for name in INNER}
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
    acts = ["replace", "respec", "repart"]
    if all(name == "identity" for name, _ in layout):
        acts.append("rewrite")  # PyIceberg alone writes into no other partitions
    begun = Begun("lake", columns_without(), layout, (), draw(_iceberg_properties()))
    return draw(_plans(begun, ("added", "widened", "renamed", "dropped"), acts, filters_count))


@st.composite
def delta_plans(draw: st.DrawFn, filters_count: int) -> Plan:
    """Draw the life of a Delta table."""
    mode = draw(st.sampled_from(["none", "none", "name", "id"]))
    unheld = NOT_OF_DELTA if mode == "none" else (*NOT_OF_DELTA, Kind.TIMESTAMP)
    columns = columns_without(*unheld)
    parts = [each for each in columns if each in DELTA_PARTS]
    chosen = draw(st.lists(st.sampled_from(parts), max_size=2, unique=True))
    layout = [("plain", each) for each in chosen]
    begun = Begun(
        "delta", columns, layout, tuple(chosen), draw(_delta_properties(mode)), draw(_sizes())
    )
    acts, kinds = ["replace", "checkpoint"], ["added"]
    if mode == "none":
        acts.append("index")
        acts += ["compact", "delete"] if deltalake_writes(begun) else []
    else:
        kinds += ["renamed", "dropped"]  # without names of their own in files they cannot be
    return draw(_plans(begun, kinds, acts, filters_count))


@st.composite
def _plans(
    draw: st.DrawFn, begun: Begun, kinds: Sequence[str], acts: Sequence[str], filters_count: int
) -> Plan:
    change, parts = NEVER, [column for _, column in begun.layout]
    few_count, are_many = draw(st.integers(1, 4)), draw(st.booleans())
    count = few_count + (MERGED_AT if are_many else 0)
    if draw(st.booleans()):
        changed = [each for each in begun.columns if begun.connector == "lake" or each != "local"]
        change = draw(changes(changed, parts, count, kinds))  # a first local time: P468 in Delta
    wider = {name: NARROWER[name][1] for name in change.widened}
    begun = replace(begun, columns={**begun.columns, **wider})
    begun = replace(begun, partition_by=tuple(_texts(begun, change)))
    early = rows(change.at_first(begun.columns), begun.layout)
    late = rows(begun.columns, begun.layout)
    few = [draw(early if at < change.before else late) for at in range(few_count)]
    many = [draw(late)] * MERGED_AT if are_many else []
    if few_count < change.before:
        many[: change.before - few_count] = [draw(early)] * (change.before - few_count)
    commits = _numbered([*few, *many])
    held = [
        change.as_read(row) if at < change.before else row
        for at, commit in enumerate(commits)
        for row in commit
    ]
    asked = filters(begun.columns, held)
    places = st.integers(1, max(1, len(commits) - 1))
    return Plan(
        begun,
        commits,
        draw(st.lists(st.sampled_from(acts), max_size=2)),
        draw(st.lists(asked, min_size=filters_count, max_size=filters_count)),
        change,
        draw(st.dictionaries(places, st.sampled_from(acts), max_size=2)),
    )


def _texts(begun: Begun, change: Change) -> Iterator[str]:
    """Write what a table is partitioned by, as its columns are named at first."""
    for transform, column in begun.layout:
        name = change.named_at_first(column)
        yield TRANSFORMS[transform].format(name) if begun.connector == "lake" else name


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
    begun, change = plan.begun, plan.change
    lived = Lived(plan, Lakes(place, sizes=begun.sizes), is_changed=change.before == 0)
    first = begun.columns if lived.is_changed else change.at_first(begun.columns)
    schema = schema_of({change.named_at_first(name): type_ for name, type_ in first.items()})
    lived.lakes.create(plan.table, TableDefinition(schema, begun.partition_by, begun.properties))
    for number, given in enumerate(plan.commits):
        if number == change.before:
            _changed(lived)
        if number in plan.between:
            _done(lived, plan.between[number])
        _landed(lived, given)
        lived.lakes.table(plan.table).housekeep()
    _changed(lived)
    for act in plan.then:
        _done(lived, act)
    return lived


def _changed(lived: Lived) -> None:
    if not lived.is_changed:
        lived.older = lived.files_of_delta()
        change_columns(lived.lakes, lived.table, lived.plan.change, lived.plan.begun.columns)
        lived.is_changed = True


def _landed(lived: Lived, given: Sequence[Row]) -> None:
    landed = lived.lakes.landed(lived.table, _named(lived, given))
    lived.last = [file.path for file in landed.files]
    change = lived.plan.change
    lived.rows |= {row["id"]: row if lived.is_changed else change.as_read(row) for row in given}
    lived.newest = [row["id"] for row in given]


def _named(lived: Lived, given: Sequence[Row]) -> list[Row]:
    """Name columns as the table does now."""
    return [row if lived.is_changed else lived.plan.change.as_landed(row) for row in given]


def _done(lived: Lived, act: str) -> None:
    """Do what happens to a table later."""
    lakes, table = lived.lakes, lived.table
    match act:
        case "replace" if lived.last:
            again = _named(lived, [lived.rows[each] for each in lived.newest])
            lakes.replaced(table, lived.last, again)
        case "checkpoint":
            lakes.handle(table).create_checkpoint()
            return
        case "index":
            wide = {"delta.dataSkippingNumIndexedCols": "-1"}
            lived.unindexed |= lived.files_of_delta()
            lakes.handle(table).alter.set_table_properties(wide)
            return
        case "compact":
            lakes.handle(table).optimize.compact()
        case "delete":
            lakes.handle(table).delete(f"id = {max(lived.rows)}")
            del lived.rows[max(lived.rows)]
        case "respec" | "repart":
            with lakes.known(table).update_spec() as update:
                _respecified(lakes.known(table).spec(), act, update)
            _landed(lived, _again(lived))
            return
        case "rewrite" if _is_plain(lakes.known(table).spec()):
            lakes.known(table).delete(f"id = {max(lived.rows)}")  # and writes manifests once more
            del lived.rows[max(lived.rows)]
    lived.last = ()


def _respecified(spec: PartitionSpec, act: str, update: UpdateSpec) -> None:
    """Take a field away, which is a void one in tables of the first format, or add one."""
    if act == "respec":
        for part in spec.fields[:1]:
            if not isinstance(part.transform, VoidTransform):
                update.remove_field(part.name)
    elif all(each.name != "shard" for each in spec.fields):
        update.add_field("id", BucketTransform(3), "shard")


def _is_plain(spec: PartitionSpec) -> bool:
    plain = (IdentityTransform, VoidTransform)
    return all(isinstance(each.transform, plain) for each in spec.fields)


def _again(lived: Lived) -> list[Row]:
    """Return a few rows once more, under ids of their own."""
    first = max(lived.rows, default=0) + 1000
    few = list(lived.rows.values())[:6]
    return [{**row, "id": first + at} for at, row in enumerate(few)]
