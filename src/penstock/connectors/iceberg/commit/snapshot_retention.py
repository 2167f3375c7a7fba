"""Selects the own snapshots that a commit removes, so that its cost stays flat (protocol.md 5).

Invariants:
- only snapshots of the committing pipeline on the committing branch are removed, whichever of its
  chains and shards made them, for they are one budget; never another writer's;
- what a branch or tag points to stays, and what `history.expire.*` or a reference's own retention
  keeps for readers stays;
- where the table says nothing of age, own snapshots of the last hour stay, `YOUNG_MAX` of them at
  most: a rewrite by others validates from the snapshot it began at, and fails where one is missing
  (docs/design/0205);
- `gc.enabled=false` keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

from penstock.connectors.iceberg.ledger.properties import ancestry_of, writer_of
from penstock.core.shards import family_of

YOUNG_MS = 3_600_000
YOUNG_MAX = 150

KEEP_KEY = "history.expire.min-snapshots-to-keep"
AGE_KEY = "history.expire.max-snapshot-age-ms"


def gc_enabled(metadata: TableMetadata) -> bool:
    """Return whether the table lets anything of it be taken away."""
    return metadata.properties.get("gc.enabled", "true").lower() != "false"


def trimmed(
    metadata: TableMetadata, line: tuple[str, str], *, retain: int, released: str, now_ms: int
) -> list[int]:
    """List the snapshots to remove in a commit that is about to add one more.

    `line` is the pipeline and the branch it lands on: only its own snapshots are examined;
    `released` names the tag that the commit moves away, so what it points to is free.
    """
    if not gc_enabled(metadata):
        return []
    own = [
        each
        for each in metadata.snapshots
        if (found := writer_of(each)) and (family_of(found[0]), found[1]) == line
    ]
    own.sort(key=lambda each: each.sequence_number or 0)
    spare = own[: max(len(own) - max(retain, 1) + 1, 0)]
    if not spare:
        return []
    kept = {i for name, ref in metadata.refs.items() for i in _kept(metadata, name, ref, released)}
    text = metadata.properties.get(AGE_KEY, "")
    # Only where someone set it: Iceberg's default of five days is for expiry by hand and would
    # keep every commit of a pipeline.
    is_set = text.isdecimal()
    young_ms = int(text) if is_set else YOUNG_MS
    too_many = 0 if is_set else max(len(own) - YOUNG_MAX + 1, 0)
    return [
        each.snapshot_id
        for number, each in enumerate(spare)  # the first of all own ones
        if each.snapshot_id not in kept
        and (number < too_many or now_ms - each.timestamp_ms >= young_ms)
    ]


def _kept(
    metadata: TableMetadata, name: str, reference: SnapshotRef, released: str
) -> Iterator[int]:
    """Yield the snapshots that a reference keeps: its own, and a branch's newest ancestors."""
    if reference.snapshot_ref_type == SnapshotRefType.TAG:
        if name != released:
            yield reference.snapshot_id
        return
    text = metadata.properties.get(KEEP_KEY, "1")
    least = reference.min_snapshots_to_keep or (int(text) if text.isdecimal() else 1)
    age = reference.max_snapshot_age_ms
    walked = ancestry_of(metadata, name).snapshots
    for number, each in enumerate(walked):
        young = age is not None and walked[0].timestamp_ms - each.timestamp_ms <= age
        if number >= max(least, 1) and not young:
            return
        yield each.snapshot_id
