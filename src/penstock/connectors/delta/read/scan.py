"""Reads rows of a Delta table on the driver, for the audit and from the quarantine.

Invariant: no SQL text is built from values of records or names of tables; what is asked of the
library are numbers only, the rest is compared in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading
from penstock.files.sources import COORDINATES


def scanned(
    handle: Handle,
    name: str,
    columns: list[str],
    ranges: Sequence[Sequence[Any]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows with offsets in some ranges, as types that Arrow can filter."""
    predicate = None
    if ranges is not None:
        lowest = min(int(start) for _, _, _, start, _ in ranges)
        beyond = max(int(stop) for _, _, _, _, stop in ranges)
        predicate = f'"offset" >= {lowest} AND "offset" < {beyond}'
    with reading(name):
        scan = handle.scan(columns=columns, predicate=predicate)
        for batch in pa.RecordBatchReader.from_stream(scan):
            fields = [field.with_type(_plain(field.type)) for field in batch.schema]
            yield batch.cast(pa.schema(fields))


def refused_in(
    batches: Iterable[pa.RecordBatch], chain: str, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a chain's rows in quarantine."""
    pipeline, _, table = chain.partition("/")
    for batch in batches:
        ours = pc.equal(batch["pipeline"], pipeline)
        if table != "*":
            ours = pc.and_(ours, pc.equal(batch["table"], table))
        yield batch.filter(ours).select(columns)


def coordinates_of(
    batches: Iterable[pa.RecordBatch], columns: Mapping[str, str], offsets: pa.Array | None
) -> pa.Table:
    """Return source coordinates of rows, of all or of those at some offsets."""
    wanted, found = [columns[each] for each in COORDINATES.names], [COORDINATES.empty_table()]
    for batch in batches:
        rows = pa.table([batch[each] for each in wanted], COORDINATES.names).cast(COORDINATES)
        if offsets is not None:
            rows = rows.filter(pc.is_in(rows["offset"], value_set=offsets))
        found += [rows] if rows.num_rows else []
    return pa.concat_tables(found)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind
