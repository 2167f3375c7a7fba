"""What another writer does to rows of an Iceberg table, by PyIceberg's own classes.

PyIceberg 0.12 reads position deletes and has no writer for them: its `delete` writes files again.
So their Parquet files and manifests are written here, by its manifest writer and by pyarrow, as
other engines write them; a table is rewritten by PyIceberg's own `overwrite`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table, snapshots, update
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

PATH_ID, POSITION_ID = 2147483546, 2147483545
Place = tuple[DataFile, int]
"""A row: its data file and its position there."""


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def places_of(table: Table, column: str, value: object, branch: str = "main") -> list[Place]:
    """Find rows by the value of a column, also those that are deleted already."""
    scan = table.scan().use_ref(branch) if branch in table.metadata.refs else table.scan()
    found: list[Place] = []
    for task in scan.plan_files():
        with table.io.new_input(task.file.file_path).open() as stream:
            values = pq.read_table(stream, columns=[column])[column].to_pylist()
        found += [(task.file, at) for at, each in enumerate(values) if each == value]
    return found


def delete_positions(
    table: Table,
    places: Sequence[Place],
    branch: str = "main",
    *,
    bounds: bool = True,
    totals: bool = True,
) -> None:
    """Delete rows of one partition by one position delete file.

    With bounds it is about one data file alone, where it names one; without, about the partition.
    The summary may leave the totals out, as the format lets every writer do.
    """
    paths = sorted({file.file_path for file, _ in places})
    rows = sorted((file.file_path, at) for file, at in places)
    file, _ = places[0]
    deletes = _delete_file(table, rows, paths if bounds else (), file)
    _commit_deletes(table, [deletes], branch, totals=totals)


def delete_where_equal(table: Table, column: str, value: object) -> None:
    """Delete rows by an equality delete file, as a streaming upsert of Flink's does."""
    field = table.schema().find_field(column)
    [arrow] = [f for f in table.schema().as_arrow() if f.name == column]
    rows = pa.table({column: pa.array([value], arrow.type)})
    path = f"{table.location()}/data/{secrets.token_hex(8)}-equality.parquet"
    size = _written(table, path, rows, [field.field_id])
    file = _manifest_file(path, 1, size, content=DataFileContent.EQUALITY_DELETES)
    file.spec_id = table.spec().spec_id
    _commit_deletes(table, [file], "main")


def compact(table: Table, branch: str = "main") -> None:
    """Write all live rows into new files in place of theirs."""
    scan = table.scan().use_ref(branch) if branch in table.metadata.refs else table.scan()
    table.overwrite(scan.to_arrow(), branch=branch)


def _delete_file(
    table: Table, rows: list[tuple[str, int]], paths: Sequence[str], like: DataFile
) -> DataFile:
    columns = {
        "file_path": pa.array([path for path, _ in rows]),
        "pos": pa.array([at for _, at in rows], pa.int64()),
    }
    path = f"{table.location()}/data/{secrets.token_hex(8)}-deletes.parquet"
    size = _written(table, path, pa.table(columns), [PATH_ID, POSITION_ID])
    bounds = [{PATH_ID: each.encode()} for each in (paths[0], paths[-1])] if paths else None
    content = DataFileContent.POSITION_DELETES
    file = _manifest_file(path, len(rows), size, content=content, bounds=bounds, like=like)
    file.spec_id = like.spec_id
    return file


def _written(table: Table, path: str, rows: pa.Table, ids: list[int]) -> int:
    fields = [
        pa.field(each.name, each.type, nullable=False, metadata={"PARQUET:field_id": str(number)})
        for each, number in zip(rows.schema, ids, strict=True)
    ]
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows.cast(pa.schema(fields)), stream)
    return len(table.io.new_input(path))


def _manifest_file(
    path: str,
    count: int,
    size: int,
    *,
    content: DataFileContent,
    bounds: list[dict[int, bytes]] | None = None,
    like: DataFile | None = None,
) -> DataFile:
    return DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record() if like is None else like.partition,
        record_count=count,
        file_size_in_bytes=size,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=bounds[0] if bounds else None,
        upper_bounds=bounds[1] if bounds else None,
        key_metadata=None,
        split_offsets=None,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
        sort_order_id=None,
    )


def _commit_deletes(
    table: Table, files: Sequence[DataFile], branch: str, *, totals: bool = True
) -> None:
    """Add delete files of one partition spec in one snapshot."""
    metadata = table.metadata
    here = branch if branch in metadata.refs else "main"
    head = metadata.snapshot_by_name(here)
    assert head is not None, "rows are deleted where there are some"
    snapshot_id = metadata.new_snapshot_id()
    given = (metadata.specs()[files[0].spec_id], metadata.schema())
    output = table.io.new_output(f"{table.location()}/metadata/{secrets.token_hex(8)}-m0.avro")
    with _DeleteManifest(*given, output, snapshot_id, "deflate") as manifest:
        for file in files:
            manifest.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file
                )
            )
    path = f"{table.location()}/metadata/snap-{snapshot_id}-{secrets.token_hex(8)}.avro"
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(path),
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        avro_compression="deflate",
    ) as listed:
        listed.add_manifests([manifest.to_manifest_file(), *head.manifests(table.io)])
    collector = snapshots.SnapshotSummaryCollector()
    for file in files:
        collector.add_file(file, metadata.schema(), metadata.specs()[file.spec_id])
    summary = snapshots.Summary(operation=Operation.DELETE, **collector.build())
    if totals:
        summary = snapshots.update_snapshot_summaries(summary, head.summary)
    snapshot = snapshots.Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms),
        manifest_list=path,
        summary=summary,
        schema_id=metadata.current_schema_id,
    )
    table.catalog.commit_table(
        table,
        (
            update.AssertTableUUID(uuid=metadata.table_uuid),
            update.AssertRefSnapshotId(ref=here, snapshot_id=head.snapshot_id),
        ),
        (
            update.AddSnapshotUpdate(snapshot=snapshot),
            update.SetSnapshotRefUpdate(ref_name=here, type="branch", snapshot_id=snapshot_id),
        ),
    )
