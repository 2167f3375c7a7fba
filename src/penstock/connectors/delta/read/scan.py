"""Reads rows of a Delta table on the driver, for the audit and from the quarantine.

Invariant: no SQL text is built from values of records or names of tables; what is asked of the
library are numbers only, the rest is compared in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading


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
    handle: Handle,
    name: str,
    chain: str,
    columns: Sequence[str],
    ranges: Sequence[Sequence[Any]] | None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of a chain's rows in quarantine, those in some ranges and a few others."""
    pipeline, _, table = chain.partition("/")
    asked = [*dict.fromkeys(("pipeline", "table", "offset", *columns))]
    for batch in scanned(handle, name, asked, ranges):
        ours = pc.equal(batch["pipeline"], pipeline)
        if table != "*":
            ours = pc.and_(ours, pc.equal(batch["table"], table))
        yield batch.filter(ours).select(columns)


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
