"""What the snapshots of one branch of an Iceberg table did, from its metadata and manifests.

Invariants:
- an effect is read from the snapshot's own manifests, not from its summary: an overwrite that
  removes no live file is an append. Of a `replace` alone the word is believed: it moves files, and
  the caller compares how many rows there are before and after;
- rows are counted as live ones: row deletes are taken off;
- snapshots of the first format have no order, and are refused.

Source: Apache Iceberg table specification, "Snapshots", "Manifests", "Sequence Numbers".
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from penstock.connectors.iceberg.context import Context
from penstock.connectors.iceberg.errors import reading
from penstock.connectors.iceberg.files.entry_counts import count_entries
from penstock.connectors.iceberg.files.kept_entries import KeptEntries
from penstock.connectors.iceberg.files.manifest_lists import manifests_of
from penstock.connectors.iceberg.files.manifests import live_manifests
from penstock.connectors.iceberg.ledger.properties import ancestry_of
from penstock.connectors.iceberg.read.file_rows import columns_of
from penstock.connectors.iceberg.read.table_rows import detail_of, work_of
from penstock.connectors.iceberg.row_deletes.delete_files import DeleteFileReader
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows, live_rows
from penstock.core import table_errors
from penstock.core.errors import InvalidError
from penstock.files.positions import NONE
from penstock.ports.increments import (
    NO_SNAPSHOT,
    Effect,
    SourceFile,
    StepsSince,
    TableHead,
    TableStep,
)

_SNAPSHOTS_KEPT = 4
_WITHOUT_ORDER = 1


class IcebergIncrements:
    """Implements `ports.increments.Increments` for one branch of a table, or a tag."""

    def __init__(
        self, name: str, identifier: tuple[str, ...], branch: str, context: Context
    ) -> None:
        self._name, self._identifier, self._branch = name, identifier, branch
        self._context = context
        self._entries = KeptEntries()
        self._deletes = DeleteFileReader(name)
        self._live: OrderedDict[tuple[str, int], LiveRows] = OrderedDict()
        self._steps: dict[int, TableStep] = {}

    def head(self) -> TableHead:
        """Load the table. Raises UnavailableError, InvalidError (P436, P831: no such ref)."""
        with reading(self._name):
            table = self._context.catalog.load_table(self._identifier)
            metadata = table.metadata
            if metadata.format_version == _WITHOUT_ORDER:
                raise table_errors.unsupported(
                    self._name, "format-version 1", "its snapshots have no order"
                )
            uuid, newest = str(metadata.table_uuid), metadata.snapshot_by_name(self._branch)
            if newest is None and self._branch != MAIN_BRANCH:
                raise _no_reference(self._name, self._branch, metadata.refs)
            if newest is None:
                return TableHead(uuid, NO_SNAPSHOT, 0, 0, table)
            snapshot, sequence = newest.snapshot_id, newest.sequence_number or 0
            return TableHead(uuid, snapshot, sequence, self._records(table, snapshot), table)

    def since(self, head: TableHead, snapshot: int, sequence: int) -> StepsSince:
        """List the snapshots behind one. Raises UnavailableError, InvalidError (P438)."""
        table: Table = head.handle
        steps: list[TableStep] = []
        former, self._steps = self._steps, {}
        gone = f"it was rolled back: snapshot {snapshot} is not in its history"
        ancestry = ancestry_of(table.metadata, self._branch)
        for each in ancestry.snapshots:
            if each.snapshot_id == snapshot:
                return StepsSince(steps[::-1])
            if (each.sequence_number or 0) <= sequence:
                return StepsSince(left=gone)
            with reading(self._name):
                step = former.get(each.snapshot_id) or _step(each, table)
            self._steps[each.snapshot_id] = step
            steps.append(step)
        if snapshot != NO_SNAPSHOT and table.metadata.snapshot_by_id(snapshot) is not None:
            return StepsSince(left=gone)
        from_first = snapshot == NO_SNAPSHOT and ancestry.complete
        return StepsSince(steps[::-1] if from_first else None)

    def added(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        """List the data files that a snapshot's own manifests add. Raises as `since` does."""
        table: Table = head.handle
        with reading(self._name):
            found = table.metadata.snapshot_by_id(snapshot)
            assert found is not None, "it is one of the steps that were listed"
            manifests = [
                each for each in _own(found, table) if each.content == ManifestContent.DATA
            ]
            entries = [e for each in manifests for e in self._entries.of(each, table.io)]
        return [
            _source_file(each, None)
            for each in entries
            if each.status == ManifestEntryStatus.ADDED and each.snapshot_id == snapshot
        ]

    def live(self, head: TableHead, snapshot: int) -> Sequence[SourceFile] | None:
        """List the data files of a snapshot, None where it is expired.

        Raises as `since` does, InvalidError (P436): equality deletes.
        """
        table: Table = head.handle
        if snapshot == NO_SNAPSHOT:
            return []
        with reading(self._name):
            if table.metadata.snapshot_by_id(snapshot) is None:
                return None
            rows = self._rows(table, snapshot)
            return [_source_file(each, rows) for each in rows.data.values()]

    def columns(self, head: TableHead) -> pa.Schema:
        """Return the columns of the table's current schema."""
        table: Table = head.handle
        return columns_of(table.schema())

    def work(self, head: TableHead) -> str:
        """Return the table's schemas, partition specs and storage."""
        table: Table = head.handle
        return work_of(self._name, table, self._context.kept().credentials)

    def detail(self, head: TableHead, file: SourceFile) -> str:
        """Return what a file is, and which of its rows are deleted."""
        table: Table = head.handle
        entry, rows = file.handle
        with reading(self._name):
            deleted = NONE if rows is None else rows.deleted_in(file.path)
        return detail_of(table.metadata, entry.data_file, deleted)

    def close(self) -> None:
        """Let go of connections."""
        self._context.kept.close()

    def _rows(self, table: Table, snapshot: int) -> LiveRows:
        key = str(table.metadata.table_uuid), snapshot
        if key not in self._live:
            entries = [
                entry
                for manifest in live_manifests(table, snapshot)
                for entry in self._entries.of(manifest, table.io)
            ]
            read = partial(self._deletes.deletes_in, io=table.io)
            self._live[key] = live_rows(entries, self._name, read)
            while len(self._live) > _SNAPSHOTS_KEPT:
                self._live.popitem(last=False)
        return self._live[key]

    def _records(self, table: Table, snapshot: int) -> int:
        """Count live rows: by the manifest list, where no delete file takes any away."""
        manifests = live_manifests(table, snapshot)
        if all(each.content == ManifestContent.DATA for each in manifests):
            counts = [(each.added_rows_count, each.existing_rows_count) for each in manifests]
            return sum((added or 0) + (existing or 0) for added, existing in counts)
        rows = self._rows(table, snapshot)
        return sum(
            each.data_file.record_count - rows.count_deleted(path)
            for path, each in rows.data.items()
        )


def _no_reference(name: str, reference: str, there: Iterable[str]) -> InvalidError:
    return InvalidError(
        f"the table {name} has no branch or tag {reference}",
        code="P831",
        hint=f"it has {', '.join(sorted(there)) or 'none'}: name one under  ref,  or make it",
    )


def _own(snapshot: Snapshot, table: Table) -> list[ManifestFile]:
    """Return the manifests that a snapshot wrote, counted. Raises OSError, ValueError."""
    found = [
        each
        for each in manifests_of(table, snapshot)
        if each.added_snapshot_id == snapshot.snapshot_id
    ]
    for each in found:
        count_entries(each, table.io)
    return found


def _step(snapshot: Snapshot, table: Table) -> TableStep:
    operation = None if snapshot.summary is None else snapshot.summary.operation
    act = "snapshot" if operation is None else str(operation.value)
    own = _own(snapshot, table)
    data = [each for each in own if each.content == ManifestContent.DATA]
    deletes = [each for each in own if each.content == ManifestContent.DELETES]
    if not any(each.added_files_count or each.deleted_files_count for each in own):
        effect = Effect.NONE
    elif operation is Operation.REPLACE:
        effect = Effect.KEPT
    elif any(each.deleted_files_count for each in data) or any(
        each.added_files_count for each in deletes
    ):
        effect = Effect.REMOVED
    elif any(each.added_files_count for each in data):
        effect = Effect.APPENDED
    else:
        effect = Effect.KEPT
    return TableStep(snapshot.snapshot_id, snapshot.sequence_number or 0, effect, act)


def _source_file(entry: ManifestEntry, rows: LiveRows | None) -> SourceFile:
    file = entry.data_file
    deleted = 0 if rows is None else rows.count_deleted(file.file_path)
    state = "" if rows is None else rows.delete_state(file.file_path)
    return SourceFile(
        path=file.file_path,
        rows=file.record_count,
        live=file.record_count - deleted,
        sequence=entry.sequence_number or 0,
        size_bytes=file.file_size_in_bytes,
        identity=f"{file.file_path} {state}",
        handle=(entry, rows),
    )
