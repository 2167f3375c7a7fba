"""Reads rows back: source coordinates for the row-by-row audit, and what is in quarantine.

Invariants:
- only the columns asked for are read;
- duplicates are kept: this is what finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from pyiceberg.table import DataScan

from penstock.core.errors import InvalidError

COORDINATES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_PLACE = ("topic_id", "partition", "offset")


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
    """Give one flat filter however many ranges there are; the rest is compared row by row."""
    lowest, beyond = min(each[3] for each in ranges), max(each[4] for each in ranges)
    return And(
        _of_chain(chain),
        GreaterThanOrEqual(term=Reference("offset"), value=literal(lowest)),
        LessThan(term=Reference("offset"), value=literal(beyond)),
        In(term=Reference("topic_id"), literals={literal(each[0]) for each in ranges}),
        In(term=Reference("partition"), literals={literal(each[1]) for each in ranges}),
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
