"""Which own snapshots a commit removes, so that its cost stays flat (protocol.md 5).

Invariants:
- only snapshots of the committing pipeline on the committing branch go, whatever chain of it made
  them; never a stranger's;
- what a branch or tag points to stays, and what `history.expire.*` or a reference's own retention
  keeps for readers stays;
- where the table says nothing of age, own snapshots of the last hour stay, `YOUNG_MAX` of them at
  most: a rewrite by others validates from the snapshot it began at, and fails where one is missing
  (docs/design/0205);
- `gc.enabled=false` keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from penstock.connectors.iceberg.ledger.properties import pipeline_of, writer_of

YOUNG_MS = 3_600_000
YOUNG_MAX = 150

_KEEP_KEY = "history.expire.min-snapshots-to-keep"
_AGE_KEY = "history.expire.max-snapshot-age-ms"


def trimmed(
    metadata: TableMetadata, line: tuple[str, str], *, retain: int, released: str, now_ms: int
) -> list[int]:
    """List the snapshots to remove beside a commit that is about to add one more.

    `line` is the pipeline and the branch it lands on, whose own snapshots alone are looked at;
    `released` names the tag that the commit moves away, so what it points to is free.
    """
    if metadata.properties.get("gc.enabled", "true").lower() == "false":
        return []
    own = [each for each in metadata.snapshots if _is_of(each, line)]
    own.sort(key=lambda each: each.sequence_number or 0)
    spare = own[: max(len(own) - max(retain, 1) + 1, 0)]
    if not spare:
        return []
    kept = {i for name, ref in metadata.refs.items() for i in _kept(metadata, name, ref, released)}
    old = _old(metadata, own, now_ms)
    return [
        each.snapshot_id
        for each in spare
        if each.snapshot_id not in kept and each.snapshot_id in old
    ]


def _old(metadata: TableMetadata, own: Sequence[Snapshot], now_ms: int) -> set[int]:
    """Find those that age lets go: by the table's word, or by ours, which too many outlive not."""
    told = _told_age(metadata)
    young_ms = YOUNG_MS if told is None else told
    too_many = max(len(own) - YOUNG_MAX + 1, 0) if told is None else 0
    return {
        each.snapshot_id
        for number, each in enumerate(own)
        if number < too_many or now_ms - each.timestamp_ms >= young_ms
    }


def _is_of(snapshot: Snapshot, line: tuple[str, str]) -> bool:
    found = writer_of(snapshot)
    return found is not None and (pipeline_of(found[0]), found[1]) == line


def _kept(
    metadata: TableMetadata, name: str, reference: SnapshotRef, released: str
) -> Iterator[int]:
    """Yield the snapshots that a reference keeps: its own, and a branch's newest ancestors."""
    if reference.snapshot_ref_type == SnapshotRefType.TAG:
        if name != released:
            yield reference.snapshot_id
        return
    text = metadata.properties.get(_KEEP_KEY, "1")
    least = reference.min_snapshots_to_keep or (int(text) if text.isdecimal() else 1)
    age = reference.max_snapshot_age_ms
    newest = 0
    at = metadata.snapshot_by_id(reference.snapshot_id)
    number = 0
    while at is not None:
        newest = newest or at.timestamp_ms
        young = age is not None and newest - at.timestamp_ms <= age
        if number >= max(least, 1) and not young:
            return
        yield at.snapshot_id
        number += 1
        parent = at.parent_snapshot_id
        at = None if parent is None else metadata.snapshot_by_id(parent)


def _told_age(metadata: TableMetadata) -> int | None:
    """Return the age up to which snapshots stay, only where someone set it: Iceberg's default of
    five days is for expiry by hand and would keep every commit of a pipeline.
    """
    text = metadata.properties.get(_AGE_KEY, "")
    return int(text) if text.isdecimal() else None
