"""Load partitions again in place of what stands there, or a whole table: one commit replaces files.

Which files go is said by partition, and what comes is said by their rows: those that are live in
them land again, by the present rules, wherever they belong by these. So nothing that is in another
file lands twice, and nothing that was in these is lost, whatever a rule makes of a record
(docs/design/0332). Of a whole table everything that it landed comes, up to its position.

Invariants:
- positions, chain and pending store are as before: a run goes on from where it was;
- only rows of this chain are replaced: any other row, or another pipeline's ledger, ends it;
- a partition is whole in the files that go: while rows wait for their partitions, or files are of
  another partitioning, it is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.core.file_ranges import FileRanges, rows_of, starts_of_rows
from penstock.core.maintenance import StoredFile
from penstock.core.offsets import OffsetRange, Positions, TopicPartition, span
from penstock.core.partition_names import PartitionValues, is_of, name_of
from penstock.core.planning import Bounds
from penstock.files.sources import COORDINATES, PLACE, source_of
from penstock.landing.repair.allowed_ranges import (
    Bounded,
    bounded_ranges,
    of_others,
    require_readable,
    unlisted,
)
from penstock.landing.repair.replay import Replacement, source_columns, table_there
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.chosen_offsets import Offsets, OffsetSet
from penstock.ports.row_deletes import LiveFile
from penstock.ports.tables import Table, TableState

Wanted = Sequence[PartitionValues]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a load would replace: `files`, by what its replacement says. `empty` are names of which
    there is no file.
    """

    replacement: Replacement
    files: tuple[StoredFile, ...]
    empty: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether all of the table is loaded."""
        return bool(self.replacement.rest)

    @property
    def deleted(self) -> int:
        """Count the rows in the files that somebody deleted: of a whole table they come again."""
        return sum(each.deleted for each in self.files)


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Which rows a chain has landed: from where it began up to its positions.

    `known` are its partitions as rows name them; where it began may be unknown.
    """

    known: Mapping[tuple[str, int], TopicPartition]
    landed: Positions
    began: Positions

    def strange_in(self, file: FileRanges) -> str:
        """Say which rows of a file it has not landed; "" where it has landed all."""
        for (topic, number), covered in file.ranges.items():
            at = self.known.get((topic, number))
            if at is None:
                return f"{topic}[{number}]"
            if covered.stop > self.landed[at]:
                return f"{at} up to {covered.stop}, of which {self.landed[at]} have landed"
            if covered.start < self.began.get(at, 0):
                return f"{at} from {covered.start} on, and it began at {self.began[at]}"
        return f"no source ({file.rows_without_source})" if file.rows_without_source else ""


def plan_load(progress: TableProgress, wanted: Wanted, bounds: Bounded) -> LoadPlan:
    """Work out what a load would replace: partitions, or without any the whole table. Writes
    nothing.

    Raises InvalidError (P186, P263 a field that the table is not partitioned by, P269 rows of
    others, P274 rows outside of their partitions, P275 a keyed or routed table, P276 another
    pipeline, P436, P461, P478, P483, P485), UnavailableError (P250).
    """
    name = progress.name
    _require_appended_to(progress)
    position = table_there(progress)
    state, table = position.read(), position.table
    columns = source_columns(name, progress.target.options)
    for other in of_others(progress.chain, table.ledgers(state)):
        raise _beside(name, other.chain)
    chosen = files_of(name, table.layout(state).files, wanted)
    began = table.history(progress.chain, state).began
    own = OwnRows(_places(name, progress.expected, bounds), progress.expected, began)
    only: dict[TopicPartition, OffsetSet] = defaultdict(OffsetSet)
    found = []
    for file in chosen:
        rows = _coordinates(table, state, file, columns)
        source = source_of(file.path, rows).found
        if strange := own.strange_in(source):
            raise _of_others(name, file.path, strange)
        found.append(source)
        for place in source.ranges:
            only[own.known[place]].add(_offsets_at(rows, place))
    ranges, rest = {at: each.covers() for at, each in only.items()}, {}
    require_readable(name, ranges, bounds)
    if not wanted:
        everything, firsts = dict.fromkeys(progress.expected), starts_of_rows(found)
        ranges = bounded_ranges(name, progress.expected, everything, began, firsts)
        ranges = {at: _kept(covered, bounds.get(at)) for at, covered in ranges.items()}
        require_readable(name, ranges, bounds)
        rest = {at: only[at].others_in(covered) for at, covered in ranges.items()}
    paths = tuple(sorted(each.path for each in chosen))
    replacement = Replacement(name, ranges, paths, rows_of(found), state, "load", only, rest)
    missed = (each for each in wanted if not any(is_of(f.values, each) for f in chosen))
    return LoadPlan(replacement, tuple(chosen), tuple(map(name_of, missed)))


def files_of(table: str, files: Sequence[StoredFile], wanted: Wanted) -> list[StoredFile]:
    """Return the files of partitions; without any, all of the table's.

    Raises InvalidError (P263 a field that no file has, P274 files that lack one which others have).
    """
    for field in {field: None for each in wanted for field in each}:
        without = [each for each in files if field not in each.values]
        if not without:
            continue
        if len(without) == len(files) and not any(each.late for each in files):
            raise _no_field(table, field, {known for each in files for known in each.values})
        raise _elsewhere(table, field, without)
    if not wanted:
        return [*files]
    return [each for each in files if any(is_of(each.values, named) for named in wanted)]


def _require_appended_to(progress: TableProgress) -> None:
    name = progress.name
    if progress.target.route is not None:
        raise InvalidError(
            f"{name} is fed record by record by a route, and cannot be loaded",
            code="P275",
            hint="this release loads tables of a fixed name",
        )
    if progress.target.options.keyed is not None:
        raise InvalidError(
            f"{name} is a keyed table, and cannot be loaded: which changes made its rows, rows do"
            " not say",
            code="P275",
            hint=f"penstock seek --reapply {name} TOPIC:PARTITION:OFFSET  applies all changes from"
            " there on again",
        )


def _places(
    table: str, expected: Positions, bounds: Bounded
) -> dict[tuple[str, int], TopicPartition]:
    """Return the partitions of a chain as rows name them. Raises InvalidError (P485) for two."""
    found: dict[tuple[str, int], TopicPartition] = {}
    for at in expected:
        former = found.setdefault((at.topic, at.partition), at)
        if former is not at:
            raise unlisted(table, at if former in bounds else former, bounds)
    return found


def _kept(covered: OffsetRange, bounds: Bounds | None) -> OffsetRange:
    """Return what Kafka still has of a range, where it can be read at all."""
    if bounds is None:
        return covered
    return span(min(max(covered.start, bounds.start), covered.stop), covered.stop)


def _coordinates(
    table: Table, state: TableState, file: StoredFile, columns: Mapping[str, str]
) -> pa.Table:
    """Read where the live rows of a file came from: `topic`, `partition`, `offset`."""
    named = [columns[each] for each in PLACE]
    live = table.read_live(state, LiveFile(file.path, file.rows, file.size_bytes), named)
    batches = [pa.Table.from_batches([each.select(named)]) for each in live]
    found = [each.rename_columns(PLACE).cast(COORDINATES) for each in batches]
    return pa.concat_tables(found) if found else COORDINATES.empty_table()


def _offsets_at(rows: pa.Table, place: tuple[str, int]) -> Offsets:
    topic, number = place
    here = pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], number))
    found: Offsets = rows.filter(here)["offset"].to_numpy()
    return found


def _beside(table: str, other: str) -> InvalidError:
    return InvalidError(
        f"{table}: pipeline {other} lands in it too, and what it has landed would go",
        code="P276",
        hint="let each pipeline land in a table of its own;  penstock replay  lands a range again"
        " where the two read other topics",
    )


def _of_others(table: str, path: str, of: str) -> InvalidError:
    return InvalidError(
        f"{table}: {path} has rows of {of}: this pipeline has not landed them, and no record would"
        " bring them again",
        code="P269",
        hint="move them to a table of their own, or load other partitions",
    )


def _no_field(table: str, field: str, fields: Collection[str]) -> InvalidError:
    if not fields:
        return InvalidError(
            f"{table} is not partitioned, and has no field {field[:80]!r}",
            code="P263",
            hint=f"all of it:  penstock load {table} --replace",
        )
    return InvalidError(
        f"{table} has no partition field {field[:80]!r}",
        code="P263",
        hint=f"its fields are {', '.join(sorted(fields))}; penstock maintain {table} --dry-run"
        " shows partitions",
    )


def _elsewhere(table: str, field: str, files: Sequence[StoredFile]) -> InvalidError:
    late = any(each.late for each in files)
    return InvalidError(
        f"{table}: rows of these partitions may be in files that are not partitioned by {field}:"
        f" {files[0].path}" + (f" and {len(files) - 1} more" if len(files) > 1 else ""),
        code="P274",
        hint=f"penstock maintain {table}  moves rows to their partitions"
        if late
        else f"all of it:  penstock load {table} --replace",
    )
