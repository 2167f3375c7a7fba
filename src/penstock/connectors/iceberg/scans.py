"""Reads rows back: source coordinates for the audit and the fourth witness, what is in quarantine.

Invariants:
- only the columns asked for are read;
- duplicates are kept: this is what finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.table import DataScan, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import IntegerType, LongType, StringType

from penstock.connectors.iceberg.ledgers import head_of, parent_of
from penstock.connectors.iceberg.manifests import live_entries
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.offsets import Progress
from penstock.core.schema import SOURCE_PREFIX
from penstock.core.wire import progress_to_json

COORDINATES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_PLACE = ("topic_id", "partition", "offset")
_SOURCES = tuple(f"{SOURCE_PREFIX}{name}" for name in COORDINATES.names)


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
    name: str
    branch: str

    def files_of(self, snapshot_id: int) -> int:
        """Count the live files that a snapshot has added. Raises OSError."""
        return sum(
            entry.snapshot_id == snapshot_id for entry in live_entries(self.table, self.branch)
        )

    def holds(self, chain: Chain, ranges: Progress) -> bool:
        """Tell whether a row of source ranges is live. Raises InvalidError (P435), OSError."""
        scan, rows = scan_of(self.table, self.branch), progress_to_json(ranges)
        if chain.is_quarantine:
            return bool(quarantined_in(scan, self.name, chain.name, rows))
        if scan is None or not _tells_sources(scan):
            return False
        wanted = {(at.topic, at.partition): covered for at, covered in ranges.items()}
        found = scan.filter(_within(_SOURCES, 2, rows)).select(*_SOURCES)
        for batch in found.to_arrow_batch_reader():
            places = zip(*(batch.column(each).to_pylist() for each in _SOURCES), strict=True)
            for topic, partition, offset in places:
                covered = wanted.get((topic, partition))
                if covered is not None and covered.start <= offset < covered.stop:
                    return True
        return False


def _tells_sources(scan: DataScan) -> bool:
    """Tell whether a table has the source columns in types that can be asked for coordinates."""
    types = {field.name: field.field_type for field in scan.projection().fields}
    topic, partition, offset = (types.get(each) for each in _SOURCES)
    return (
        isinstance(topic, StringType)
        and isinstance(partition, IntegerType | LongType)
        and isinstance(offset, IntegerType | LongType)
    )


def coordinates_of(scan: DataScan | None, name: str, columns: Mapping[str, str]) -> pa.Table:
    """Read `topic, partition, offset` of every live row. Raises InvalidError (P435)."""
    if scan is None:
        return COORDINATES.empty_table()
    names = [columns[each] for each in COORDINATES.names]
    require_columns(scan, name, names)
    read = scan.select(*dict.fromkeys(names)).to_arrow()
    return read.select(names).rename_columns(COORDINATES.names).cast(COORDINATES)


def quarantined_in(
    scan: DataScan | None, name: str, chain: str, ranges: Sequence[Sequence[Any]]
) -> list[tuple[str, int, int]]:
    """Find the coordinates in quarantine for the chain's table within ranges.

    Raises InvalidError (P435) when the table has not the columns of a quarantine.
    """
    if not ranges or scan is None:
        return []
    require_columns(scan, name, ("pipeline", "table", *_PLACE))
    rows = scan.filter(_row_filter(chain, ranges)).select(*_PLACE).to_arrow()
    covered: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for topic_id, partition, _, start, stop in ranges:
        covered.setdefault((topic_id, partition), []).append((start, stop))
    return [
        (topic_id, partition, offset)
        for topic_id, partition, offset in zip(
            *(rows.column(each).to_pylist() for each in _PLACE), strict=True
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
    require_columns(scan, name, ("pipeline", "table", *columns))
    wanted = _of_chain(chain) if ranges is None else _row_filter(chain, ranges)
    for batch in scan.filter(wanted).select(*columns).to_arrow_batch_reader():
        yield batch.select(columns)


def _of_chain(chain: str) -> BooleanExpression:
    pipeline, _, target = chain.partition("/")
    ours = EqualTo(term=Reference("pipeline"), value=literal(pipeline))
    if target == "*":
        return ours
    return And(ours, EqualTo(term=Reference("table"), value=literal(target)))


def _row_filter(chain: str, ranges: Sequence[Sequence[Any]]) -> BooleanExpression:
    return And(_of_chain(chain), _within(_PLACE, 0, ranges))


def _within(
    columns: Sequence[str], label: int, ranges: Sequence[Sequence[Any]]
) -> BooleanExpression:
    """Give one flat filter however many ranges there are; the rest is compared row by row.

    Topics are known by what stands at `label` in a range: 0 for their ids, 2 for their names.
    """
    topic, partition, offset = map(Reference, columns)
    return And(
        GreaterThanOrEqual(term=offset, value=literal(min(each[3] for each in ranges))),
        LessThan(term=offset, value=literal(max(each[4] for each in ranges))),
        In(term=topic, literals={literal(each[label]) for each in ranges}),
        In(term=partition, literals={literal(each[1]) for each in ranges}),
    )


def require_columns(scan: DataScan, name: str, columns: Sequence[str]) -> None:
    """Raise InvalidError (P435) when a table lacks a column."""
    there = set(scan.projection().column_names)
    for column in columns:
        if column not in there:
            raise InvalidError(
                f"{name} has no column {column}",
                code="P435",
                hint="see source_columns in the spec, or name the table's own columns",
            )
