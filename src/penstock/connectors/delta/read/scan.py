"""Reads rows of a Delta table on the driver: coordinates, for the audit and for the quarantine.

Invariant: no SQL text is built from values of records or names of tables; what is asked of the
library are numbers only, the rest is compared in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading
from penstock.core.commits import Chain
from penstock.files.sources import is_within

COORDINATES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_NAMES = ("pipeline", "table", "topic_id")
_QUARANTINE = pa.schema([*((each, pa.string()) for each in _NAMES), *list(COORDINATES)[1:]])


def coordinates(
    handle: Handle, name: str, columns: Mapping[str, str], offsets: pa.Array | None
) -> pa.Table:
    """Read the source coordinates of live rows, at some offsets if asked; duplicates are kept."""
    wanted = [columns[each] for each in COORDINATES.names]
    found = [COORDINATES.empty_table()]
    for batch in _scanned(handle, name, wanted, None):
        read = pa.table({each: batch.column(columns[each]) for each in COORDINATES.names})
        rows = read.cast(COORDINATES)
        if offsets is not None:
            rows = rows.filter(pc.is_in(rows["offset"], value_set=offsets))
        found += [rows] if rows.num_rows else []
    return pa.concat_tables(found)


def quarantined(
    handle: Handle, name: str, chain: Chain, ranges: Sequence[Sequence[Any]]
) -> list[tuple[str, int, int]]:
    """Find the coordinates of a chain's table within ranges; the chain is `pipeline/table`."""
    if not ranges:
        return []
    pipeline, _, table = chain.name.partition("/")
    found: list[tuple[str, int, int]] = []
    for scanned in _scanned(handle, name, _QUARANTINE.names, _predicate(ranges)):
        batch = scanned.select(_QUARANTINE.names).cast(_QUARANTINE)
        ours = pc.and_(pc.equal(batch["pipeline"], pipeline), pc.equal(batch["table"], table))
        found += [
            (row["topic_id"], row["partition"], row["offset"])
            for row in batch.filter(ours).to_pylist()
            if is_within(row, ranges)
        ]
    return found


def refused(
    handle: Handle,
    name: str,
    chain: Chain,
    columns: Sequence[str],
    ranges: Sequence[Sequence[Any]] | None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of a chain's table; of all its pipeline's with `<pipeline>/*`."""
    if ranges is not None and not ranges:
        return
    pipeline, _, table = chain.name.partition("/")
    predicate = None if ranges is None else _predicate(ranges)
    asked = [*dict.fromkeys(("pipeline", "table", "offset", *columns))]
    for scanned in _scanned(handle, name, asked, predicate):
        batch = scanned.cast(_plain_schema(scanned.schema))
        ours = pc.equal(batch["pipeline"], pipeline)
        if table != "*":
            ours = pc.and_(ours, pc.equal(batch["table"], table))
        yield batch.filter(ours).select(columns)


def _predicate(ranges: Sequence[Sequence[Any]]) -> str:
    lowest = min(int(start) for _, _, _, start, _ in ranges)
    beyond = max(int(stop) for _, _, _, _, stop in ranges)
    return f'"offset" >= {lowest} AND "offset" < {beyond}'


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow can filter: views are made strings and bytes."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def _scanned(
    handle: Handle, name: str, columns: list[str], predicate: str | None
) -> Iterator[pa.RecordBatch]:
    with reading(name):
        scan = handle.scan(columns=columns, predicate=predicate)
        yield from pa.RecordBatchReader.from_stream(scan)
