"""What manifests and their lists are written with is what PyIceberg would write, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from pyiceberg import manifest as of_pyiceberg
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, TimestampType

from penstock.connectors.iceberg.files.manifest_entries import EntryWriter
from penstock.connectors.iceberg.files.manifest_lists import list_writer

SCHEMA = Schema(
    NestedField(1, "n", LongType(), required=True),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "at", TimestampType()),
)
BY_DAY = PartitionSpec(PartitionField(3, 1000, DayTransform(), "day"), spec_id=4)
BY_TWO = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "x"),
    PartitionField(1, 1001, IdentityTransform(), "n"),
    spec_id=5,
)
SPECS = [(PartitionSpec(), ()), (BY_DAY, (19_000,)), (BY_DAY, (None,)), (BY_TWO, (-0.5, 7))]


@pytest.fixture(autouse=True)
def one_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker between blocks is random; here it is not."""
    monkeypatch.setattr("os.urandom", lambda size: bytes(range(size)))


def entry(partition: tuple[Any, ...]) -> ManifestEntry:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="file:///a.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=3,
        file_size_in_bytes=99,
        value_counts={1: 3},
        lower_bounds={1: b"\x01"},
        upper_bounds={1: b"\x02"},
        split_offsets=[4],
    )
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=8, data_file=file)


def written(
    tmp_path: Any, writer_of: Callable[[Any], AbstractContextManager[Any]], act: Any
) -> Any:
    output = PyArrowFileIO().new_output(f"{tmp_path}/f.avro")
    with writer_of(output) as writer:
        act(writer)
    return writer, (tmp_path / "f.avro").read_bytes()


@pytest.mark.parametrize("codec", ["gzip", "null"])
@pytest.mark.parametrize(("spec", "partition"), SPECS)
def test_a_manifest_is_that_of_pyiceberg(tmp_path, spec, partition, codec) -> None:
    def theirs(output: Any) -> Any:
        return of_pyiceberg.write_manifest(2, spec, SCHEMA, output, 8, codec)

    def ours(output: Any) -> Any:
        return EntryWriter(
            2,
            ManifestContent.DATA,
            spec=spec,
            schema=SCHEMA,
            output_file=output,
            snapshot_id=8,
            avro_compression=codec,
        )

    _, expected = written(tmp_path, theirs, lambda each: each.add(entry(partition)))
    for _ in range(2):  # the second is written by what the first has made
        _, actual = written(tmp_path, ours, lambda each: each.add(entry(partition)))
        assert expected == actual


def test_a_list_is_that_of_pyiceberg(tmp_path) -> None:
    def manifest(output: Any) -> Any:
        return of_pyiceberg.write_manifest(2, BY_DAY, SCHEMA, output, 8, "gzip")

    writer, _ = written(tmp_path, manifest, lambda each: each.add(entry((1,))))
    listed = writer.to_manifest_file()
    given = {"snapshot_id": 8, "parent_snapshot_id": 7, "sequence_number": 2}
    given |= {"avro_compression": "gzip"}
    metadata = TableMetadataV2(
        location="file:///t",
        last_column_id=3,
        schemas=[SCHEMA],
        partition_specs=[PartitionSpec()],
    )

    def theirs(output: Any) -> Any:
        return of_pyiceberg.write_manifest_list(2, output_file=output, **given)

    def ours(output: Any) -> Any:
        return list_writer(metadata, output_file=output, **given)

    _, expected = written(tmp_path, theirs, lambda each: each.add_manifests([listed]))
    for _ in range(2):
        _, actual = written(tmp_path, ours, lambda each: each.add_manifests([listed]))
        assert expected == actual
