"""What people want to know of a table, and how its files lie, by its metadata alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from penstock.connectors.iceberg.files.manifests import live_manifests
from penstock.connectors.iceberg.io.arrow_file_io import storage_of
from penstock.connectors.iceberg.ledger.properties import is_maintenance, parent_of
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows
from penstock.connectors.iceberg.row_deletes.live_rows import PartitionKey, partition_key
from penstock.connectors.iceberg.schema.late_spec import late_spec_id
from penstock.core.errors import InvalidError
from penstock.core.maintenance import OURS, LastMaintenance, Layout, StoredFile
from penstock.core.partition_names import PartitionValues, name_of
from penstock.ports.tables import TableFacts

_ANOTHER = "another writer"
_COUNTED_FILES_MAX = 10_000
"""Of how many data files deleted rows are counted; manifests, and some delete files, are read."""


def facts_of(table: Table, branch: str, rows: KeptRows) -> TableFacts:
    """Return format, partitioning, delete files, snapshots, rows. Raises OSError, ValueError."""
    metadata = table.metadata
    words = [f"Iceberg, format version {metadata.format_version}"]
    if metadata.spec().fields:
        words.append("partitioned by " + ", ".join(f.name for f in metadata.spec().fields))
    head = metadata.snapshot_by_name(branch)
    none = {"total-records": "0", "total-data-files": "0"}
    summary: Mapping[str, str] = none if head is None else head.summary or {}
    deletes = summary.get("total-delete-files") or "0"
    if deletes != "0":
        words.append(f"{deletes} delete files")
    live, files = _number(summary, "total-records"), _number(summary, "total-data-files")
    if deletes != "0":  # summaries do not tell how many rows these take away
        counted = files is not None and files <= _COUNTED_FILES_MAX
        live = _live_rows(table, rows) if counted else None
    kept = len(metadata.snapshots)
    return TableFacts(", ".join(words), kept, "snapshots", _stored_ms(table), live, files)


def layout_of(table: Table, branch: str, rows: KeptRows, target_bytes: int) -> Layout:
    """List how the live data files of a branch lie.

    Raises InvalidError (P436): format version 1, equality deletes; OSError, ValueError.
    """
    live, metadata = rows.of(table), table.metadata
    late = late_spec_id(metadata)
    known: dict[PartitionKey, tuple[str, PartitionValues]] = {}
    files = []
    for path, entry in live.data.items():
        file = entry.data_file
        key = partition_key(file)
        if key not in known:
            values = _values(metadata, file)
            named = _named(metadata, file.spec_id, values)
            known[key] = named, _as_now(metadata, file.spec_id, values)
        named, values = known[key]
        stored = StoredFile(
            path,
            named,
            file.record_count,
            file.file_size_in_bytes,
            live.count_deleted(path),
            late=file.spec_id == late,
            values=values,
        )
        files.append(stored)
    commit_bytes, manifests_bytes = _metadata_bytes(table, branch)
    read_bytes = commit_bytes + manifests_bytes
    return Layout(files, target_bytes, read_bytes, commit_bytes, last_maintenance(metadata, branch))


def last_maintenance(metadata: TableMetadata, branch: str) -> LastMaintenance | None:
    """Return when and by what files were last rearranged, as the snapshots tell that are left.

    Trimmed ones break the line of a branch, so all that are not newer than its head are looked at.
    """
    head = metadata.snapshot_by_name(branch)
    if head is None:
        return None
    moves = [
        each
        for each in metadata.snapshots
        if (each.sequence_number or 0) <= (head.sequence_number or 0) and _moves_rows(each)
    ]
    if not moves:
        return None
    newest = max(moves, key=lambda each: (each.sequence_number or 0, each.timestamp_ms))
    assert newest.summary is not None, "it tells what moved"
    others = newest.summary.get("engine-name") or _ANOTHER
    by = OURS if is_maintenance(newest, branch) else others
    return LastMaintenance(newest.timestamp_ms, by)


def _moves_rows(snapshot: Snapshot) -> bool:
    """Return whether a snapshot put data files in the place of others with the same rows."""
    summary = snapshot.summary
    if summary is None or summary.operation != Operation.REPLACE:
        return False
    return bool(summary.get("deleted-data-files"))


def _named(metadata: TableMetadata, spec_id: int, values: PartitionValues) -> str:
    """Name a partition by its values; a former spec's is another one."""
    if spec_id == late_spec_id(metadata):
        return "late"
    former = [] if spec_id == metadata.default_spec_id else [f"spec {spec_id}"]
    return ", ".join([*former, *([name_of(values)] if values else [])])


def _as_now(metadata: TableMetadata, spec_id: int, values: PartitionValues) -> PartitionValues:
    """Return the values of a partition without those whose field is now made of another column, or
    by another transform: a partition of that name would not be whole in files of both.
    """
    now = {each.name: each for each in metadata.spec().fields}
    then = {each.name: each for each in metadata.specs()[spec_id].fields}
    return {
        name: value
        for name, value in values.items()
        if name not in now or _made_of(now[name]) == _made_of(then[name])
    }


def _made_of(field: PartitionField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def _values(metadata: TableMetadata, file: DataFile) -> PartitionValues:
    """Return the values of a file's partition as people read them, texts in quotes."""
    spec, schema = metadata.specs()[file.spec_id], metadata.schema()
    found = {}
    for at, each in enumerate(spec.fields):
        value: Any = file.partition[at]
        column = schema.find_column_name(each.source_id)
        if value is not None and column is not None:
            human = each.transform.to_human_string(schema.find_type(each.source_id), value)
            value = json.dumps(human, ensure_ascii=False) if isinstance(value, str) else human
        found[each.name] = "null" if value is None else str(value)
    return found


def _metadata_bytes(table: Table, branch: str) -> tuple[int, int]:
    """Sum up what each commit writes again, the metadata file and the manifest list; and the
    manifests with live entries.
    """
    head = parent_of(table.metadata, branch)
    snapshot = None if head is None else table.metadata.snapshot_by_id(head)
    places = [table.metadata_location, *([] if snapshot is None else [snapshot.manifest_list])]
    manifests = live_manifests(table, head)
    lists = sum(len(table.io.new_input(each)) for each in places)
    return lists, sum(each.manifest_length for each in manifests)


def _live_rows(table: Table, rows: KeptRows) -> int | None:
    """Count rows that are not deleted; None where equality deletes say which are."""
    try:
        live = rows.of(table)
    except InvalidError:
        return None
    return sum(
        entry.data_file.record_count - live.count_deleted(path) for path, entry in live.data.items()
    )


def _number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key) or ""
    return int(text) if text.isdecimal() else None


def _stored_ms(table: Table) -> int | None:
    if not isinstance(table.io, PyArrowFileIO):
        return None
    filesystem, path = storage_of(table.io, table.metadata_location)
    (info,) = filesystem.get_file_info([path])
    return info.mtime_ns // 1_000_000 if info.mtime_ns else None
