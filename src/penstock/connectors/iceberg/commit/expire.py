"""Builds one expiry: snapshots that nobody needs leave the metadata, in a request of their own.

Invariants (docs/design/0289, 0308):
- nothing expires while a chain of whatever branch was rolled back, or nobody can tell;
- the request asserts every branch and tag that was seen, so that one that moves meanwhile keeps
  what it points to;
- `gc.enabled=false` keeps everything, and so does format version 1, which counts no sequence
  numbers;
- no file is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table import Table, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

from penstock.connectors.iceberg.commit.rearrange import require_vouched
from penstock.connectors.iceberg.commit.snapshot_retention import AGE_KEY, KEEP_KEY, gc_enabled
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import vouching
from penstock.core.expiry import Branch, Expiry, Snapshot, plan_expiry

_AGE_MS = 432_000_000
"""Five days: the default of the table specification."""


def expiry_of(table: Table, name: str, now_ms: int) -> Expiry:
    """Plan which snapshots expire. Raises DecisionNeededError (P846), InvalidError (P190, P191)."""
    metadata = table.metadata
    if not gc_enabled(metadata):
        return Expiry(unwanted="gc.enabled is false")
    if metadata.format_version == 1:
        return Expiry(unwanted="format version 1 counts no sequence numbers")
    branches = tuple(_branches(table, name))
    tags = {
        name: str(ref.snapshot_id)
        for name, ref in metadata.refs.items()
        if ref.snapshot_ref_type == SnapshotRefType.TAG
    }
    snapshots = [
        Snapshot(
            str(each.snapshot_id),
            None if each.parent_snapshot_id is None else str(each.parent_snapshot_id),
            each.timestamp_ms,
        )
        for each in metadata.snapshots
    ]
    return plan_expiry(snapshots, branches, tags, age_ms=_age_ms(metadata), now_ms=now_ms)


def expiry_request(
    metadata: TableMetadata, expiry: Expiry
) -> tuple[tuple[update.TableRequirement, ...], tuple[update.TableUpdate, ...]]:
    """Return the requirements and updates that make an expiry."""
    requirements: tuple[update.TableRequirement, ...] = (
        update.AssertTableUUID(uuid=metadata.table_uuid),
        *(
            update.AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
            for name, ref in metadata.refs.items()
        ),
    )
    gone = [int(each.id) for each in expiry.expired]
    statistics = [
        update.RemovePartitionStatisticsUpdate(snapshot_id=each.snapshot_id)
        for each in metadata.partition_statistics
        if each.snapshot_id in gone
    ]
    return requirements, (*statistics, update.RemoveSnapshotsUpdate(snapshot_ids=gone))


def _branches(table: Table, name: str) -> Iterator[Branch]:
    metadata = table.metadata
    for branch, ref in metadata.refs.items():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            require_vouched(table, name, branch)
            yield Branch(
                branch,
                str(ref.snapshot_id),
                _least(metadata, ref),
                ref.max_snapshot_age_ms or _age_ms(metadata),
                _evidence(metadata, branch),
            )


def _evidence(metadata: TableMetadata, branch: str) -> frozenset[str]:
    """Return all from the head down to the snapshot that vouches, or the whole branch."""
    if not records.ledgers_in(metadata.properties, branch):
        return frozenset()
    ancestry = records.ancestry_of(metadata, branch)
    line = [each.snapshot_id for each in ancestry.snapshots]
    vouched = vouching(metadata, ancestry)
    until = len(line) if vouched is None else line.index(vouched) + 1
    return frozenset(map(str, line[:until]))


def _least(metadata: TableMetadata, ref: SnapshotRef) -> int:
    text = metadata.properties.get(KEEP_KEY, "1")
    return max(ref.min_snapshots_to_keep or (int(text) if text.isdecimal() else 1), 1)


def _age_ms(metadata: TableMetadata) -> int:
    text = metadata.properties.get(AGE_KEY, "")
    return int(text) if text.isdecimal() else _AGE_MS
