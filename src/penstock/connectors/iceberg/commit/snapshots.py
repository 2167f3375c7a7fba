"""What commits of an Iceberg table are made of: a base, a snapshot with its summary, one request.

Invariant: the requirements name exactly the examined state: table, head, schema, partition spec.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, snapshots, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from penstock.connectors.iceberg.files.manifest_entries import counted
from penstock.connectors.iceberg.files.manifest_lists import next_row_id_of
from penstock.connectors.iceberg.files.manifests import Listed
from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.row_deletes.changes import RowChanges
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows
from penstock.connectors.iceberg.row_deletes.live_rows import partition_key
from penstock.connectors.iceberg.row_deletes.vectors import is_vector
from penstock.connectors.iceberg.schema.partition_schemas import schema_of
from penstock.files import FileOptions
from penstock.ports.runtime import Observer

_UNCOUNTED = snapshots.UpdateMetrics()
_KEPT_OF_REFERENCES = {"max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"}


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One request, ready to be sent once, after the files it names are written."""

    snapshot_id: int
    requirements: tuple[update.TableRequirement, ...]
    updates: tuple[update.TableUpdate, ...]
    files: MetadataBatch


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The base of a commit: the table as it was examined, its name, and the branch.

    `rows` is what the table keeps of its live rows, `options` how files of it are written;
    `observer` passes crash points; `files` are the metadata files that are made for it.
    """

    table: Table
    name: str
    branch: str
    rows: KeptRows = field(repr=False)
    options: FileOptions
    observer: Observer
    files: MetadataBatch

    @property
    def metadata(self) -> TableMetadata:
        """Return the metadata that was examined."""
        return self.table.metadata


def request_of(
    base: CommitBase, snapshot: snapshots.Snapshot, *updates: update.TableUpdate
) -> CommitRequest:
    """Return the request that makes a snapshot the head of the branch, with further updates."""
    metadata, branch = base.metadata, base.branch
    heads = (branch,) if records.head_of(metadata, branch) is not None else (branch, MAIN_BRANCH)
    requirements: tuple[update.TableRequirement, ...] = (
        update.AssertTableUUID(uuid=metadata.table_uuid),
        *(
            update.AssertRefSnapshotId(ref=each, snapshot_id=records.head_of(metadata, each))
            for each in dict.fromkeys(heads)
        ),
        update.AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        update.AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )
    head = reference(metadata, branch, SnapshotRefType.BRANCH, snapshot.snapshot_id)
    added = update.AddSnapshotUpdate(snapshot=snapshot)
    return CommitRequest(snapshot.snapshot_id, requirements, (added, head, *updates), base.files)


def reference(
    metadata: TableMetadata, name: str, kind: SnapshotRefType, snapshot_id: int
) -> update.SetSnapshotRefUpdate:
    """Move a reference and keep what was set on it."""
    now = metadata.refs.get(name)
    kept: dict[str, int | None] = {}
    if now is not None and now.snapshot_ref_type == kind:
        kept = now.model_dump(include=_KEPT_OF_REFERENCES)
    return update.SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **kept)


def snapshot_of(
    base: CommitBase, snapshot_id: int, listed: Listed, summary: snapshots.Summary
) -> snapshots.Snapshot:
    """Return the snapshot of a manifest list that was written, behind the head of the branch."""
    metadata = base.metadata
    return snapshots.Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=records.parent_of(metadata, base.branch),
        sequence_number=metadata.next_sequence_number(),
        # Never before the last change, by another writer's clock perhaps: catalogs reject that.
        timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms),
        manifest_list=listed.path,
        summary=summary,
        schema_id=metadata.current_schema_id,
        first_row_id=None if listed.row_ids is None else next_row_id_of(metadata),
        added_rows=listed.row_ids,
    )


def summary_of(
    base: CommitBase,
    changes: RowChanges,
    keys: dict[str, str],
    previous: Mapping[str, str] | None,
    *,
    moves: bool = False,
) -> snapshots.Summary:
    """Return what changed, and the totals of a former summary carried on.

    Of files that only moved it says so: readers of changes pass over a replacement.
    """
    metadata = base.metadata
    text = metadata.properties.get("write.summary.partition-limit", "0")
    collector = _Summary(int(text) if text.isdecimal() else 0)
    removed = [entry.data_file for entry in changes.removed]
    specs = {file.spec_id for file in (*changes.files, *removed)}
    laid_out = {each: _partitioning(metadata, each) for each in specs}
    for file in changes.files:
        collector.add_file(counted(file), *laid_out[file.spec_id])
    for file in removed:
        collector.remove_file(counted(file), *laid_out[file.spec_id])
    vectors = {
        f"{act}-dvs": str(count)
        for act, files in (("added", changes.files), ("removed", removed))
        if (count := sum(map(is_vector, files)))
    }
    built = {**collector.build(), **vectors, **keys}
    counted_on = snapshots.update_snapshot_summaries(
        snapshots.Summary(operation=_operation(changes), **built), previous
    )
    if not moves:
        return counted_on
    return snapshots.Summary(
        operation=snapshots.Operation.REPLACE, **counted_on.additional_properties
    )


class _Summary(snapshots.SnapshotSummaryCollector):
    """Spells out partitions only where the summary tells them apart: else they are counted."""

    def update_partition_metrics(
        self,
        partition_spec: PartitionSpec,
        file: DataFile,
        is_add_file: bool,  # noqa: FBT001  as PyIceberg has it
        schema: Schema,
    ) -> None:
        """Count the partition of a file."""
        if self.max_changed_partitions_for_summaries:
            super().update_partition_metrics(partition_spec, file, is_add_file, schema)
        else:
            self.partition_metrics.setdefault(repr(partition_key(file)), _UNCOUNTED)


def _partitioning(metadata: TableMetadata, spec_id: int) -> tuple[Schema, PartitionSpec]:
    """Return a spec, and a schema with its columns: those of an old spec may be dropped."""
    return schema_of(metadata, spec_id) or metadata.schema(), metadata.specs()[spec_id]


def _operation(changes: RowChanges) -> snapshots.Operation:
    """Name what a snapshot does; readers of streams go over appends, and stop at the others."""
    adds_rows = [each.content == DataFileContent.DATA for each in changes.files]
    if all(adds_rows) and not changes.removed:
        return snapshots.Operation.APPEND
    return snapshots.Operation.OVERWRITE if any(adds_rows) else snapshots.Operation.DELETE
