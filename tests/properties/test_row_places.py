"""Each row is at the place that its writer reports, however it was split, buffered and rolled."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
)

from penstock.connectors.delta.files import target as delta
from penstock.connectors.delta.files.writer import DeltaWriter
from penstock.connectors.delta.schema.column_mapping import Stored
from penstock.connectors.iceberg.write.target import TARGET_VERSION
from penstock.connectors.iceberg.write.writer import IcebergWriter
from penstock.core.schema import Field, Kind, Struct
from penstock.files import FileOptions, ParquetEncoding, PartitionedWriter
from penstock.ports.writers import FileWriter, Placing
from penstock.rows.arrow_types import arrow_schema
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet

SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field("kind", Kind.STRING),
        Field("wide", Kind.DOUBLE),
        Field("at", Kind.TIMESTAMPTZ),
    )
)
STORED = Struct(tuple(Field(f"col-{n}", each.type) for n, each in enumerate(SCHEMA.fields)))
IDS = (3, 5, 8, 13)
NOTHING = ProcessSecrets({})

ROWS = st.tuples(
    st.sampled_from(["a", "b", "a longer text", None]),
    st.sampled_from([math.nan, -0.0, 0.0, 1.5, None]),
    st.sampled_from([*(dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in range(1, 5)), None]),
)
BATCHES = st.lists(st.lists(ROWS, max_size=30), max_size=8)
SIZES = st.tuples(st.sampled_from([1, 600, 3_000, 1 << 20]), st.sampled_from([1, 200, 1 << 20]))
"""Bytes of a file, and of a row group."""
WRITERS = st.integers(1, 4)

LAYOUTS: tuple[tuple[tuple[int, Transform[Any, Any]], ...], ...] = (
    (),
    ((2, IdentityTransform()),),
    ((3, IdentityTransform()),),
    ((1, BucketTransform(3)), (4, DayTransform())),
    ((2, IdentityTransform()), (3, IdentityTransform())),
)


def batches_of(batches: list[list[tuple[Any, ...]]]) -> Iterator[pa.RecordBatch]:
    number = 0
    for batch in batches:
        rows = [
            dict(zip(SCHEMA.names, (number + n, *row), strict=True)) for n, row in enumerate(batch)
        ]
        number += len(rows)
        yield pa.RecordBatch.from_pylist(rows, arrow_schema(SCHEMA))


def check(
    writer: FileWriter | PartitionedWriter,
    batches: list[list[tuple[Any, ...]]],
    column: str = "id",
) -> None:
    """Write, and read the row at each place from its file."""
    for batch in batches_of(batches):
        writer.write(batch)
    files = [each.path.removeprefix("file://") for each in writer.close()]
    file, row = writer.places()
    held = [pq.read_table(each, partitioning=None)[column].to_pylist() for each in files]

    assert sum(map(len, batches)) == sum(map(len, held)) == len(file) == len(row)
    assert [*range(len(file))] == [
        held[number][at] for number, at in zip(file.tolist(), row.tolist(), strict=True)
    ]


def by_kind(batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    for kind in pc.unique(batch["kind"]).to_pylist():
        yield (kind,), batch.filter(pc.is_in(batch["kind"], pa.array([kind], pa.string())))


@settings(max_examples=30)
@given(
    batches=BATCHES, sizes=SIZES, writers=WRITERS, buffer_bytes=st.sampled_from([1, 500, 1 << 20])
)
def test_of_parquet_under_pressure(
    batches: list[list[tuple[Any, ...]]], sizes: tuple[int, int], writers: int, buffer_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        numbers = itertools.count()
        writer = PartitionedWriter(
            encoding=ParquetEncoding(
                arrow_schema(SCHEMA),
                replace(FileOptions.of_sizes([*sizes, writers]), buffer_bytes=buffer_bytes),
            ),
            filesystem=fs.LocalFileSystem(),
            path_of=lambda *_: f"{place}/{next(numbers)}.parquet",
            partition_of=by_kind,
            observer=Quiet(),
            places=True,
        )
        check(writer, batches)


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@settings(max_examples=30)
@given(batches=BATCHES, sizes=SIZES, writers=WRITERS, is_sorted=st.booleans())
def test_of_iceberg(
    layout: int,
    batches: list[list[tuple[Any, ...]]],
    sizes: tuple[int, int],
    writers: int,
    is_sorted: bool,
) -> None:
    schema = IcebergSchema(
        iceberg.NestedField(1, "id", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "kind", iceberg.StringType(), required=False),
        iceberg.NestedField(3, "wide", iceberg.DoubleType(), required=False),
        iceberg.NestedField(4, "at", iceberg.TimestamptzType(), required=False),
    )
    spec = PartitionSpec(
        *(
            PartitionField(source, 1000 + n, transform, f"part_{n}")
            for n, (source, transform) in enumerate(LAYOUTS[layout])
        )
    )
    order = SortOrder(
        SortField(3, IdentityTransform(), direction=SortDirection.DESC),
        SortField(2, TruncateTransform(1)),
        order_id=1,
    )
    with tempfile.TemporaryDirectory() as place:
        target = {
            "v": TARGET_VERSION,
            "table": "t",
            "location": f"file://{place}",
            "schema": schema.model_dump(mode="json", by_alias=True),
            "format": 2,
            "spec": spec.model_dump(mode="json", by_alias=True),
            "order": order.model_dump(mode="json", by_alias=True),
            "properties": {},
            "storage": {},
            "lent": {},
            "sizes": [*sizes, writers],
        }
        writer = IcebergWriter(
            json.dumps(target),
            prefix="x",
            observer=Quiet(),
            secrets=NOTHING,
            places=True,
            placing=Placing(is_sorted=is_sorted),
        )
        check(writer, batches)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("partition_by", [(), ("kind",), ("kind", "at")])
@settings(max_examples=30)
@given(batches=BATCHES, sizes=SIZES, writers=WRITERS)
def test_of_delta(
    mapped: bool,
    partition_by: tuple[str, ...],
    batches: list[list[tuple[Any, ...]]],
    sizes: tuple[int, int],
    writers: int,
) -> None:
    names = dict(zip(SCHEMA.names, (STORED if mapped else SCHEMA).names, strict=True))
    with tempfile.TemporaryDirectory() as place:
        target = delta.Target(
            "t",
            place,
            SCHEMA,
            Stored(STORED, IDS) if mapped else Stored(SCHEMA),
            tuple(names[each] for each in partition_by),
            options=FileOptions.of_sizes([*sizes, writers]),
        )
        writer = DeltaWriter(
            delta.target_to_json(target),
            prefix="x",
            observer=Quiet(),
            secrets=NOTHING,
            places=True,
            row_ids=(),
        )
        check(writer, batches, names["id"])
