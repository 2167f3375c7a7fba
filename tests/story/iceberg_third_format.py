"""Another writer of the third format: PyIceberg 0.12 with the writers that it lacks.

What it appends and overwrites is written by PyIceberg's own code, with manifests and lists that say
they are of the third format and give no row ids, as those of tables that were upgraded do. Vectors
are written by our own writer: Spark's are in tests/integration/readers/test_third_format.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from pyiceberg.manifest import (
    DataFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import Table, snapshots, update
from pyiceberg.table.update import snapshot as producers
from pyiceberg.typedef import TableVersion

from penstock.connectors.iceberg.files.manifest_entries import counted
from penstock.connectors.iceberg.files.manifest_lists import next_row_id_of
from penstock.connectors.iceberg.files.manifests import ManifestStack
from penstock.connectors.iceberg.row_deletes.changes import as_vectors, row_changes
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows
from penstock.connectors.iceberg.row_deletes.vectors import VectorWriter
from penstock.files.positions import joined, without
from penstock.ports.row_deletes import RowDeletes

THIRD: TableVersion = 3


class _Manifest(ManifestWriterV2):
    @property
    def version(self) -> TableVersion:
        return THIRD


class _List(ManifestListWriterV2):
    def __init__(self, **given: Any) -> None:
        compression = given.pop("avro_compression")
        super().__init__(**given, compression=compression)
        self._format_version = THIRD
        self._meta["format-version"] = str(THIRD)


def let_pyiceberg_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyIceberg's appends and overwrites write the third format."""

    def manifest(format_version: TableVersion, *given: Any, **named: Any) -> ManifestWriterV2:
        if format_version != THIRD:
            return write_manifest(format_version, *given, **named)
        return _Manifest(*given, **named)

    def listed(format_version: TableVersion, **named: Any) -> ManifestListWriterV2:
        if format_version != THIRD:
            return write_manifest_list(format_version, **named)
        return _List(**named)

    def snapshot(*, summary: Any, **named: Any) -> snapshots.Snapshot:
        if named["first_row_id"] is not None:  # without their count PyIceberg forgets the next id
            named["added_rows"] = int(summary["added-records"] or 0)
        return snapshots.Snapshot(summary=summary, **named)

    monkeypatch.setattr(producers, "Snapshot", snapshot)
    monkeypatch.setattr(producers, "write_manifest", manifest)
    monkeypatch.setattr(producers, "write_manifest_list", listed)


def delete_by_vectors(
    table: Table, places: Sequence[tuple[DataFile, int]], branch: str = "main"
) -> None:
    """Delete rows by a deletion vector for each of their data files, in a commit of no pipeline."""
    metadata = table.metadata
    here = branch if branch in metadata.refs else "main"
    live = KeptRows("orders", here).of(table)
    write = partial(
        as_vectors,
        live=live,
        write=VectorWriter(table.io, table.location_provider(), "other").write,
    )
    deletes = [
        RowDeletes(path, live.delete_state(path), positions)
        for path in sorted({file.file_path for file, _ in places})
        if len(positions := _left(places, path, live.deleted_in(path)))
    ]
    changes = row_changes([], live, deletes, "orders", write)
    head = metadata.snapshot_by_name(here)
    snapshot_id = metadata.new_snapshot_id()
    stack = ManifestStack(table, snapshot_id)
    listed = stack.changed(changes.files, changes.removed, head.snapshot_id)
    collector = snapshots.SnapshotSummaryCollector()
    for file in changes.files:
        collector.add_file(counted(file), metadata.schema(), metadata.specs()[file.spec_id])
    for entry in changes.removed:
        gone = entry.data_file
        collector.remove_file(counted(gone), metadata.schema(), metadata.specs()[gone.spec_id])
    built: Mapping[str, str] = collector.build()
    summary = snapshots.Summary(operation=snapshots.Operation.DELETE, **built)
    snapshot = snapshots.Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms),
        manifest_list=listed.path,
        summary=snapshots.update_snapshot_summaries(summary, head.summary),
        schema_id=metadata.current_schema_id,
        first_row_id=next_row_id_of(metadata),
        added_rows=listed.row_ids,
    )
    table.catalog.commit_table(
        table,
        (update.AssertRefSnapshotId(ref=here, snapshot_id=head.snapshot_id),),
        (
            update.AddSnapshotUpdate(snapshot=snapshot),
            update.SetSnapshotRefUpdate(ref_name=here, type="branch", snapshot_id=snapshot_id),
        ),
    )


def _left(places: Sequence[tuple[DataFile, int]], path: str, deleted: Any) -> Any:
    found = [np.array([at], np.int64) for file, at in places if file.file_path == path]
    return without(joined(found), deleted)
