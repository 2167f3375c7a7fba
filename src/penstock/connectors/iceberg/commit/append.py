"""Builds one commit by hand: snapshot, head, ledger and tag in one list of updates.

Invariants (protocol.md 5):
- the requirements name exactly the examined state: table, head, schema and partition spec;
- a branch that is not there yet begins at the head of main, as other writers' branches do; a table
  without any snapshot is given an empty one on main first, for no branch begins at nothing;
- files, ledger, tag and trimming are one request, so they become visible together or not at all;
- the files written here are named by nothing until the request lands, and never deleted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, snapshots, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from penstock.connectors.iceberg.commit.snapshot_retention import trimmed
from penstock.connectors.iceberg.files.file_metadata import data_file
from penstock.connectors.iceberg.files.manifests import ManifestStack, live_entries
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import judge, vouching
from penstock.connectors.iceberg.read.scan import LiveData
from penstock.core.commits import Committable, Landed, landed_after
from penstock.core.errors import InvalidError
from penstock.core.serialization import ledger_to_json
from penstock.core.table_errors import not_live
from penstock.ports.tables import Verdict

_UNKNOWN_SNAPSHOT = -1


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One request, ready to be sent once."""

    snapshot_id: int
    requirements: tuple[update.TableRequirement, ...]
    updates: tuple[update.TableUpdate, ...]


@dataclass(frozen=True, slots=True)
class CommitBase:
    """What a commit is built on: the table as it was examined, its name, and the branch."""

    table: Table
    name: str
    branch: str

    @property
    def metadata(self) -> TableMetadata:
        """Return the metadata that was examined."""
        return self.table.metadata

    @property
    def parent(self) -> int | None:
        """Return the snapshot that the next one of the branch follows."""
        return records.parent_of(self.metadata, self.branch)


def commit_request(
    base: CommitBase, commit: Committable, landed: Landed | None, *, retain: int
) -> CommitRequest:
    """Write a snapshot's files and give the request that lands `commit` on `landed`.

    Raises InvalidError (P439) for files that no longer fit the table.
    """
    before = landed or Landed(
        commit.chain.name,
        commit.cluster_id,
        commit.generation,
        commit.owner,
        commit.segment,
        commit.rules_hash,
        dict(commit.origins),
    )
    metadata, branch = base.metadata, base.branch
    snapshot_id = metadata.new_snapshot_id()
    newest = _newest_after(base, commit, before, snapshot_id)
    properties = {
        records.ledger_key(commit.chain.name, branch): ledger_to_json(landed_after(before, commit)),
        records.newest_key(commit.chain.name, branch): newest.to_json(),
    }
    vouched = _ledgers_digest(base, commit, properties)
    keys = records.summary_of(
        commit, branch, number=newest.number, ledgers=vouched, keeps_ledger=False
    )
    snapshot = _snapshot(base, commit, snapshot_id, keys)
    tag = records.tag_of(commit.chain.name, branch)
    tagged = _reference(metadata, tag, SnapshotRefType.TAG, snapshot_id)
    updates = [*_moved_head(base, snapshot), tagged]
    if vouched:  # else a trimmed snapshot might be another chain's only way to be found
        gone = trimmed(
            metadata,
            (records.pipeline_of(commit.chain.name), branch),
            retain=retain,
            released=tag,
            now_ms=snapshot.timestamp_ms,
        )
        updates += [update.RemoveSnapshotsUpdate(snapshot_ids=gone)] if gone else []
    updates.append(update.SetPropertiesUpdate(updates=properties))
    return CommitRequest(snapshot_id, _requirements(base), tuple(updates))


def fence_request(base: CommitBase, commit: Committable) -> CommitRequest:
    """Return the request that moves the head of a rolled-back table and leaves ledger and tag.

    So a roll-forward to the tag finds everything as it was, and until then the verdict stays.
    """
    assert not commit.files, "a fence brings no files"
    snapshot_id = base.metadata.new_snapshot_id()
    keys = records.summary_of(commit, base.branch, number=0, ledgers="", keeps_ledger=True)
    snapshot = _snapshot(base, commit, snapshot_id, keys)
    return CommitRequest(snapshot_id, _requirements(base), tuple(_moved_head(base, snapshot)))


def initial_snapshot(base: CommitBase) -> CommitRequest | None:
    """Return the request for the empty snapshot that a branch begins at, where one is needed."""
    if base.branch == MAIN_BRANCH or base.metadata.snapshots:
        return None
    on_main = CommitBase(base.table, base.name, MAIN_BRANCH)
    snapshot_id = base.metadata.new_snapshot_id()
    snapshot = _made(on_main, _Change(), snapshot_id, {records.BEGINNING: "true"})
    return CommitRequest(snapshot_id, _requirements(on_main), tuple(_moved_head(on_main, snapshot)))


def _requirements(base: CommitBase) -> tuple[update.TableRequirement, ...]:
    metadata, branch = base.metadata, base.branch
    heads = (branch,) if records.head_of(metadata, branch) is not None else (branch, MAIN_BRANCH)
    return (
        update.AssertTableUUID(uuid=metadata.table_uuid),
        *(
            update.AssertRefSnapshotId(ref=each, snapshot_id=records.head_of(metadata, each))
            for each in dict.fromkeys(heads)
        ),
        update.AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        update.AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """Which files a snapshot adds, and which it takes away."""

    files: Sequence[DataFile] = ()
    gone: Sequence[ManifestEntry] = ()


def _snapshot(
    base: CommitBase, commit: Committable, snapshot_id: int, keys: dict[str, str]
) -> snapshots.Snapshot:
    files = [data_file(file, base.metadata, base.name) for file in commit.files]
    return _made(base, _Change(files, _gone(base, commit)), snapshot_id, keys)


def _made(
    base: CommitBase, change: _Change, snapshot_id: int, keys: dict[str, str]
) -> snapshots.Snapshot:
    metadata, head = base.metadata, base.parent
    files, gone = change.files, change.gone
    stack = ManifestStack(base.table, snapshot_id)
    return snapshots.Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head,
        sequence_number=metadata.next_sequence_number(),
        # Never before the last change: catalogs refuse a clock that runs behind another writer's.
        timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms),
        manifest_list=stack.replaced(files, gone, head) if gone else stack.appended(files, head),
        summary=_summary(base, change, keys),
        schema_id=metadata.current_schema_id,
    )


def _gone(base: CommitBase, commit: Committable) -> list[ManifestEntry]:
    """Find the files to take away. Raises InvalidError (P439) when one is not live any more."""
    if not commit.removes:
        return []
    live = {entry.data_file.file_path: entry for entry in live_entries(base.table, base.branch)}
    lost = [path for path in commit.removes if path not in live]
    if lost:
        raise not_live(base.name, lost[0])
    return [live[path] for path in commit.removes]


def _summary(base: CommitBase, change: _Change, keys: dict[str, str]) -> snapshots.Summary:
    metadata, head = base.metadata, base.parent
    text = metadata.properties.get("write.summary.partition-limit", "0")
    collector = snapshots.SnapshotSummaryCollector(int(text) if text.isdecimal() else 0)
    specs: dict[int, PartitionSpec] = metadata.specs()
    for file in change.files:
        collector.add_file(file, metadata.schema(), specs[file.spec_id])
    for entry in change.gone:
        removed = entry.data_file
        collector.remove_file(removed, metadata.schema(), specs[removed.spec_id])
    previous = None if head is None else metadata.snapshot_by_id(head)
    operation = snapshots.Operation.OVERWRITE if change.gone else snapshots.Operation.APPEND
    return snapshots.update_snapshot_summaries(
        snapshots.Summary(operation=operation, **collector.build(), **keys),
        previous.summary if previous is not None else None,
    )


def _moved_head(base: CommitBase, snapshot: snapshots.Snapshot) -> list[update.TableUpdate]:
    kind = SnapshotRefType.BRANCH
    return [
        update.AddSnapshotUpdate(snapshot=snapshot),
        _reference(base.metadata, base.branch, kind, snapshot.snapshot_id),
    ]


def _reference(
    metadata: TableMetadata, name: str, kind: SnapshotRefType, snapshot_id: int
) -> update.SetSnapshotRefUpdate:
    """Move a reference and keep what was set on it."""
    now = metadata.refs.get(name)
    kept: dict[str, Any] = {}
    if now is not None and now.snapshot_ref_type == kind:
        kept = {"max_ref_age_ms": now.max_ref_age_ms}
        if kind is SnapshotRefType.BRANCH:
            kept["min_snapshots_to_keep"] = now.min_snapshots_to_keep
            kept["max_snapshot_age_ms"] = now.max_snapshot_age_ms
    return update.SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **kept)


def _newest_after(
    base: CommitBase, commit: Committable, before: Landed, snapshot_id: int
) -> records.LedgerMark:
    """Return the snapshot that the ledger is written with; one that was lost stays unknown."""
    metadata = base.metadata
    last = records.mark_in(metadata.properties, commit.chain.name, base.branch)
    if not before.recent:
        last = records.LedgerMark("", snapshot=0, sequence=0, number=0, files_snapshot=0)
    elif last is None or last.commit_id != before.recent[-1][0]:
        last = records.LedgerMark(
            "", 0, 0, number=len(before.recent), files_snapshot=_UNKNOWN_SNAPSHOT
        )
    newest = replace(
        last,
        commit_id=commit.commit_id,
        snapshot=snapshot_id,
        sequence=metadata.next_sequence_number(),
        number=last.number + 1,
    )
    if not (commit.files or commit.removes):
        return newest
    rows, ranges = commit.rows, records.bounded_ranges(commit.progress)
    return replace(newest, files_snapshot=snapshot_id, rows=rows, ranges=ranges)


def _ledgers_digest(base: CommitBase, commit: Committable, properties: dict[str, str]) -> str:
    """Return the digest of all ledgers as the commit leaves them, or "" when one is in doubt."""
    metadata, branch = base.metadata, base.branch
    after = records.ledgers_in({**metadata.properties, **properties}, branch)
    others = [key for key in after if key != records.ledger_key(commit.chain.name, branch)]
    if not others or vouching(metadata, records.ancestry_of(metadata, branch)) is not None:
        return records.digest_of_ledgers(after)
    agreed = all(_agrees(base, key) for key in others)
    return records.digest_of_ledgers(after) if agreed else ""


def _agrees(base: CommitBase, key: str) -> bool:
    live = LiveData(base.table, base.branch, rows_are_read=False)
    try:
        finding = judge(base.metadata, records.chain_of_key(key, base.branch), base.branch, live)
    except InvalidError:
        return False  # a ledger nobody can read vouches for nothing
    return finding.verdict is Verdict.AGREED
