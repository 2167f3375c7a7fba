"""Reads rows back: source coordinates for the audit and the fourth witness, where the rows of each
live file came from, what is in quarantine.

Invariants:
- only the columns asked for are read;
- duplicates are kept: this is what finds them;
- a file's sources are left out only when its statistics prove that it holds no row asked for, and
  are those of all its rows, whatever delete files take away: they are in the file.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions as where
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import IntegerType, LongType, StringType

from penstock.connectors.iceberg.files.manifests import all_live_entries
from penstock.connectors.iceberg.ledger.properties import head_of, parent_of
from penstock.core.commits import Chain
from penstock.core.offsets import Progress
from penstock.core.schema import SOURCE_PREFIX
from penstock.core.serialization import progress_to_json
from penstock.core.table_errors import no_column
from penstock.files.sources import PLACE, source_of
from penstock.ports.tables import FileSource

# It says of each ORC file that its nanoseconds become micros; Iceberg has no others there.
logging.getLogger("pyiceberg.io.pyarrow").addFilter(
    lambda record: "Downcasting to 'us'" not in record.getMessage()
)
_COORDINATES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
_PLACE = ("topic_id", "partition", "offset")
READ_ROWS_MAX = 100_000_000
"""The limit of rows in files that may match; above it they are not read."""
_SOURCES = tuple(f"{SOURCE_PREFIX}{name}" for name in _COORDINATES.names)


def scan_of(table: Table, branch: str) -> DataScan | None:
    """Scan what the next commit of a branch follows; None while that is nothing.

    A branch that is not there, dropped perhaps once it was published, begins at main's head.
    """
    if parent_of(table.metadata, branch) is None:
        return None
    begun = head_of(table.metadata, branch) is not None
    return table.scan().use_ref(branch if begun else MAIN_BRANCH)


@dataclass(frozen=True, slots=True)
class LiveData:
    """Implements `witnesses.Live` for the head of a branch."""

    table: Table
    branch: str
    rows_are_read: bool = True
    """Whether the fourth witness is asked: it may read much."""

    def files_of(self, snapshot_id: int) -> int:
        """Count the live files that a snapshot has added, also delete files. Raises OSError."""
        live = all_live_entries(self.table, self.branch)
        return sum(entry.snapshot_id == snapshot_id for entry in live)

    def rows_of(self, chain: Chain, ranges: Progress, most: int) -> int | None:
        """Count the live rows of source ranges. Raises OSError."""
        scan = scan_of(self.table, self.branch) if self.rows_are_read else None
        if scan is None or (columns := _places_in(scan, chain)) is None:
            return None
        label = 0 if chain.is_quarantine else 2
        wanted = _exactly(columns, label, progress_to_json(ranges))
        wanted = where.And(_of_chain(chain.name), wanted) if chain.is_quarantine else wanted
        try:
            found = scan.filter(wanted).select(*columns)
            tasks = [*found.plan_files()]
            if sum(task.file.record_count for task in tasks) > READ_ROWS_MAX:
                return None
            reader = _reader(found, found.row_filter)
            count = 0
            for task in tasks:
                count += reader.to_table([task]).num_rows
                if count > most:
                    break
        except (ValueError, NotImplementedError):
            return None
        return count


def _reader(scan: DataScan, row_filter: where.BooleanExpression) -> ArrowScan:
    """Return what reads the files of a scan one by one, so that no more than one is held."""
    return ArrowScan(scan.table_metadata, scan.io, scan.projection(), row_filter)


def _places_in(scan: DataScan, chain: Chain) -> tuple[str, ...] | None:
    """Name the columns of topic, partition and offset, if their types can identify rows."""
    columns = _PLACE if chain.is_quarantine else _SOURCES
    types = {field.name: field.field_type for field in scan.projection().fields}
    topic, partition, offset = (types.get(each) for each in columns)
    are_usable = (
        isinstance(topic, StringType)
        and isinstance(partition, IntegerType | LongType)
        and isinstance(offset, IntegerType | LongType)
    )
    return columns if are_usable else None


def _exactly(
    columns: Sequence[str], label: int, ranges: Sequence[Sequence[Any]]
) -> where.BooleanExpression:
    """Return a filter for just the rows of a few ranges.

    `label` is the element of a range that identifies topics: 0 for their ids, 2 for their names.
    """
    topic, partition, offset = map(where.Reference, columns)
    within = (
        where.And(
            where.EqualTo(term=topic, value=literal(each[label])),
            where.EqualTo(term=partition, value=literal(each[1])),
            where.GreaterThanOrEqual(term=offset, value=literal(each[3])),
            where.LessThan(term=offset, value=literal(each[4])),
        )
        for each in ranges
    )
    nothing: where.BooleanExpression = where.AlwaysFalse()
    return functools.reduce(where.Or, within, nothing)


def coordinates_of(
    scan: DataScan | None, name: str, columns: Mapping[str, str], offsets: pa.Array | None
) -> pa.Table:
    """Read `topic, partition, offset` of every live row, or file by file of those at some offsets.

    Raises InvalidError (P435).
    """
    if scan is None:
        return _COORDINATES.empty_table()
    names = [columns[each] for each in _COORDINATES.names]
    _require_columns(scan, name, names)
    found = scan.select(*dict.fromkeys(names))
    if offsets is None:
        return _as_coordinates(found.to_arrow(), names)
    rows, reader = [_COORDINATES.empty_table()], _reader(found, where.AlwaysTrue())
    for task in found.filter(_about(names[-1], offsets)).plan_files():
        each = _as_coordinates(reader.to_table([task]), names)
        rows.append(each.filter(pc.is_in(each["offset"], value_set=offsets)))
    return pa.concat_tables(rows)


def _as_coordinates(read: pa.Table, names: Sequence[str]) -> pa.Table:
    return read.select(names).rename_columns(_COORDINATES.names).cast(_COORDINATES)


def _about(column: str, offsets: pa.Array) -> where.BooleanExpression:
    """Return a filter that files without such offsets do not pass, by their bounds."""
    least, greatest = pc.min_max(offsets).as_py().values()
    if least is None:
        return where.AlwaysFalse()
    term = where.Reference(column)
    return where.And(
        where.GreaterThanOrEqual(term=term, value=literal(least)),
        where.LessThanOrEqual(term=term, value=literal(greatest)),
    )


def sources_of(
    table: Table,
    scan: DataScan | None,
    name: str,
    columns: Mapping[str, str],
    ends: Mapping[tuple[str, int], int],
) -> list[FileSource]:
    """Read the source columns of files that a scan sees; none where nothing was ever landed.

    Raises InvalidError (P435), OSError, ValueError.
    """
    if scan is None:
        return []
    names = [columns[each] for each in PLACE]
    _require_columns(scan, name, names)
    found = scan.filter(_from_offsets(names, ends)).select(*names)
    return [
        source_of(
            task.file.file_path, _rows_in(table, task, names), altered=bool(task.delete_files)
        )
        for task in found.plan_files()
    ]


def _rows_in(table: Table, task: FileScanTask, names: list[str]) -> pa.Table:
    whole = FileScanTask(task.file)
    projected = table.schema().select(*names)
    read = ArrowScan(table.metadata, table.io, projected, where.AlwaysTrue()).to_table([whole])
    return _as_coordinates(read, names)


def _from_offsets(names: list[str], ends: Mapping[tuple[str, int], int]) -> where.BooleanExpression:
    """Return one flat filter for any number of partitions: nested ones raise RecursionError."""
    topic, partition, offset = map(where.Reference, names)
    if not ends:
        return where.IsNull(term=offset)
    wanted = where.And(
        where.In(term=topic, literals={literal(each) for each, _ in ends}),
        where.In(term=partition, literals={literal(number) for _, number in ends}),
        where.GreaterThanOrEqual(term=offset, value=literal(min(ends.values()))),
    )
    return where.Or(wanted, where.IsNull(term=offset))


def quarantined_in(
    scan: DataScan | None, name: str, chain: str, ranges: Sequence[Sequence[Any]]
) -> list[tuple[str, int, int]]:
    """Find the coordinates in quarantine for the chain's table within ranges.

    Raises InvalidError (P435) when the table has not the columns of a quarantine.
    """
    covered: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for topic_id, partition, _, start, stop in ranges:
        covered.setdefault((topic_id, partition), []).append((start, stop))
    return [
        (topic_id, partition, offset)
        for batch in refused_in(scan, name, chain, _PLACE, ranges)
        for topic_id, partition, offset in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        )
        if any(start <= offset < stop for start, stop in covered.get((topic_id, partition), ()))
    ]


def refused_in(
    scan: DataScan | None,
    name: str,
    chain: str,
    columns: Sequence[str],
    ranges: Sequence[Sequence[Any]] | None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of a chain's table; of all its pipeline's with `<pipeline>/*`.

    Raises InvalidError (P435).
    """
    if scan is None or (ranges is not None and not ranges):
        return
    _require_columns(scan, name, ("pipeline", "table", *columns))
    wanted = _of_chain(chain) if ranges is None else _row_filter(chain, ranges)
    for batch in scan.filter(wanted).select(*columns).to_arrow_batch_reader():
        yield batch.select(columns)


def _of_chain(chain: str) -> where.BooleanExpression:
    pipeline, _, target = chain.partition("/")
    ours = where.EqualTo(term=where.Reference("pipeline"), value=literal(pipeline))
    if target == "*":
        return ours
    return where.And(ours, where.EqualTo(term=where.Reference("table"), value=literal(target)))


def _row_filter(chain: str, ranges: Sequence[Sequence[Any]]) -> where.BooleanExpression:
    """Return one flat filter however many ranges there are; the rest is compared row by row."""
    lowest, beyond = min(each[3] for each in ranges), max(each[4] for each in ranges)
    return where.And(
        _of_chain(chain),
        where.GreaterThanOrEqual(term=where.Reference("offset"), value=literal(lowest)),
        where.LessThan(term=where.Reference("offset"), value=literal(beyond)),
        where.In(term=where.Reference("topic_id"), literals={literal(each[0]) for each in ranges}),
        where.In(term=where.Reference("partition"), literals={literal(each[1]) for each in ranges}),
    )


def _require_columns(scan: DataScan, name: str, columns: Sequence[str]) -> None:
    there = set(scan.projection().column_names)
    for column in columns:
        if column not in there:
            raise no_column(name, column)
