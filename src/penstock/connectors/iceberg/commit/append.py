"""Builds one commit as one list of updates: snapshot, head, ledger and tag.

Invariants (protocol.md 5):
- the requirements name exactly the examined state: table, head, schema and partition spec;
- a branch that is not there yet begins at the head of main, as other writers' branches do; a table
  without any snapshot is given an empty one on main first, for no branch begins at nothing;
- files, row deletes, ledger, tag and trimming are one request, so they become visible together or
  not at all;
- the files made here are written before the request is sent (metadata_batch.py), named by nothing
  until it lands, and never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import snapshots, update
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from penstock.connectors.iceberg.commit.row_delete_files import row_delete_writer
from penstock.connectors.iceberg.commit.snapshot_retention import trimmed
from penstock.connectors.iceberg.commit.snapshots import (
    CommitBase,
    CommitRequest,
    reference,
    request_of,
    snapshot_of,
    summary_of,
)
from penstock.connectors.iceberg.files.file_metadata import data_file
from penstock.connectors.iceberg.files.manifests import ManifestStack, live_entries
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import check_chain, vouching
from penstock.connectors.iceberg.read.scan import LiveData
from penstock.connectors.iceberg.row_deletes.changes import RowChanges, row_changes
from penstock.connectors.iceberg.schema.late_spec import added_spec
from penstock.core.commits import (
    DELETES_ROWS,
    Chain,
    Committable,
    Landed,
    begun_beside,
    first_ledger,
    landed_after,
)
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.core.serialization import ledger_from_json, ledger_to_json
from penstock.core.shards import family_of
from penstock.core.table_errors import not_live
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.tables import Verdict

_UNKNOWN_SNAPSHOT = -1


def commit_request(
    base: CommitBase,
    commit: Committable,
    landed: Landed | None,
    *,
    retain: int,
    row_deletes: Sequence[RowDeletes] = (),
) -> CommitRequest:
    """Make a snapshot's files and return the request that lands `commit` on `landed`.

    Raises InvalidError (P439) for files that no longer fit the table; BugError (P707) for row
    deletes that are not of live rows.
    """
    before = landed or _ledger_before(commit)
    metadata, branch = base.metadata, base.branch
    snapshot_id = metadata.new_snapshot_id()
    newest = _newest_after(base, commit, before, snapshot_id)
    properties = {
        records.ledger_key(commit.chain.name, branch): ledger_to_json(landed_after(before, commit)),
        records.newest_key(commit.chain.name, branch): newest.to_json(),
        **_begun_beside(base, commit),
    }
    vouched = _ledgers_digest(base, commit, properties)
    keys = records.summary_of(
        commit, branch, number=newest.number, ledgers=vouched, keeps_ledger=False
    )
    snapshot = _snapshot(base, snapshot_id, keys, commit, row_deletes)
    tag = records.tag_of(commit.chain.name, branch)
    updates: list[update.TableUpdate] = [reference(metadata, tag, SnapshotRefType.TAG, snapshot_id)]
    if vouched:  # else a trimmed snapshot might be another chain's only way to be found
        line = (family_of(commit.chain.name), branch)
        expired = trimmed(metadata, line, retain=retain, released=tag, now_ms=snapshot.timestamp_ms)
        updates += [update.RemoveSnapshotsUpdate(snapshot_ids=expired)] if expired else []
    return request_of(base, snapshot, *updates, update.SetPropertiesUpdate(updates=properties))


def _begun_beside(base: CommitBase, commit: Committable) -> dict[str, str]:
    """Return the ledgers of sibling shards' chains that a commit begins as well."""
    found: dict[str, str] = {}
    for chain in commit.beside:
        key = records.ledger_key(chain, base.branch)
        text = base.metadata.properties.get(key)
        landed = None if text is None else ledger_from_json(text)
        found[key] = ledger_to_json(begun_beside(commit, chain, landed))
    return found


def _ledger_before(commit: Committable) -> Landed:
    """Return the ledger that a table without one is taken to have."""
    ledger = first_ledger(
        commit.chain, commit.claim, commit.cluster_id, commit.rules_hash, commit.origins
    )
    return replace(ledger, segment=commit.segment)


def fence_request(base: CommitBase, commit: Committable) -> CommitRequest:
    """Return the request that moves the head of a rolled-back table and leaves ledger and tag.

    So a roll-forward to the tag finds everything as it was, and until then the verdict stays.
    """
    assert not commit.files, "a fence brings no files"
    snapshot_id = base.metadata.new_snapshot_id()
    keys = records.summary_of(commit, base.branch, number=0, ledgers="", keeps_ledger=True)
    return request_of(base, _snapshot(base, snapshot_id, keys, commit))


def initial_snapshot(base: CommitBase) -> CommitRequest | None:
    """Return the request for the empty snapshot that a branch begins at, where one is needed."""
    if base.branch == MAIN_BRANCH or base.metadata.snapshots:
        return None
    on_main = replace(base, branch=MAIN_BRANCH)
    keys = {records.BEGINNING: "true"}
    return request_of(on_main, _snapshot(on_main, base.metadata.new_snapshot_id(), keys))


def late_spec_request(base: CommitBase) -> CommitRequest:
    """Return the request that gives a table a partition spec for late rows; it needs one.

    An empty snapshot comes with it, and every ref is asserted: of two that add it at once, on
    whatever branches, one is refused. Catalogs that PyIceberg keeps would else have it twice.
    """
    keys = {records.BEGINNING: "true"}
    snapshot = _snapshot(base, base.metadata.new_snapshot_id(), keys)
    request = request_of(base, snapshot, *added_spec(base.metadata))
    asserted = {getattr(each, "ref", "") for each in request.requirements}
    others = (
        update.AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
        for name, ref in base.metadata.refs.items()
        if name not in asserted
    )
    return replace(request, requirements=(*request.requirements, *others))


def _snapshot(
    base: CommitBase,
    snapshot_id: int,
    keys: dict[str, str],
    commit: Committable | None = None,
    row_deletes: Sequence[RowDeletes] = (),
) -> snapshots.Snapshot:
    """Make the files of a snapshot, an empty one where there is no commit."""
    metadata, head = base.metadata, records.parent_of(base.metadata, base.branch)
    changes = _changes(base, commit, row_deletes) if commit else RowChanges(())
    stack = ManifestStack(base.table, snapshot_id, base.rows.entries, files=base.files)
    previous = None if head is None else metadata.snapshot_by_id(head)
    totals: Mapping[str, str] | None = previous.summary if previous is not None else None
    if row_deletes:
        totals = base.rows.of(base.table).totals()
        listed = stack.changed(changes.files, changes.removed, head)
    elif changes.removed:
        listed = stack.replaced(changes.files, changes.removed, head)
    else:
        listed = stack.appended(changes.files, head)
    return snapshot_of(base, snapshot_id, listed, summary_of(base, changes, keys, totals))


def _changes(
    base: CommitBase, commit: Committable, row_deletes: Sequence[RowDeletes]
) -> RowChanges:
    """Return what a commit adds and removes; files of row deletes are written.

    Raises what `commit_request` raises.
    """
    files = [data_file(file, base.metadata, base.name) for file in commit.files]
    if not row_deletes:
        return RowChanges(tuple(files), tuple(_removed_entries(base, commit)))
    assert commit.kind in DELETES_ROWS, f"a {commit.kind} deletes no rows"
    live = base.rows.of(base.table)
    rewritten = [
        data_file(file, base.metadata, base.name)
        for each in row_deletes
        for file in each.rewritten or ()
    ]
    prefix = f"{commit.chain.name}-{commit.commit_id}-{commit.attempt}"
    write = row_delete_writer(base, prefix, live)
    changes = row_changes(files, live, row_deletes, base.name, write)
    base.observer.passed(CrashPoint.ROW_DELETES_WRITTEN)
    return replace(changes, files=(*changes.files, *rewritten))


def _removed_entries(base: CommitBase, commit: Committable) -> list[ManifestEntry]:
    """Find the files to remove, and the delete files that are about none but them.

    Raises InvalidError (P439) when one is no longer live.
    """
    if not commit.removes:
        return []
    live = {entry.data_file.file_path: entry for entry in live_entries(base.table, base.branch)}
    lost = [path for path in commit.removes if path not in live]
    if lost:
        raise not_live(base.name, lost[0])
    removed = [live[path] for path in commit.removes]
    if base.metadata.format_version == 1:  # it has no row deletes
        return removed
    return [*removed, *base.rows.of(base.table).about(set(commit.removes))]


def _newest_after(
    base: CommitBase, commit: Committable, before: Landed, snapshot_id: int
) -> records.LedgerMark:
    """Return the snapshot that the ledger is written with; one that was lost stays unknown."""
    metadata = base.metadata
    last = records.mark_in(metadata.properties, commit.chain.name, base.branch)
    if last is None or not before.recent or last.commit_id != before.recent[-1][0]:
        files_snapshot = _UNKNOWN_SNAPSHOT if before.recent else 0
        last = records.LedgerMark("", 0, 0, len(before.recent), files_snapshot)
    newest = replace(
        last,
        commit_id=commit.commit_id,
        snapshot=snapshot_id,
        sequence=metadata.next_sequence_number(),
        number=last.number + 1,
    )
    if commit.kind in DELETES_ROWS:
        # Rows in files are no longer those that live, and a commit that found none to delete must
        # vouch all the same: what it knew to be deleted may come back (docs/design/0243).
        return replace(newest, files_snapshot=snapshot_id, rows=0, ranges={})
    if not (commit.files or commit.removes):
        return newest
    rows, ranges = commit.rows, records.bounded_ranges(commit.progress)
    return replace(newest, files_snapshot=snapshot_id, rows=rows, ranges=ranges)


def _ledgers_digest(base: CommitBase, commit: Committable, properties: dict[str, str]) -> str:
    """Return the digest of all ledgers as the commit leaves them, or "" when one is in doubt."""
    metadata, branch = base.metadata, base.branch
    after = records.ledgers_in({**metadata.properties, **properties}, branch)
    own = records.ledger_key(commit.chain.name, branch)
    others = [key for key in after if key != own and key in metadata.properties]
    if not others or vouching(metadata, records.ancestry_of(metadata, branch)) is not None:
        return records.digest_of_ledgers(after)
    agreed = all(_agrees(base, key) for key in others)
    return records.digest_of_ledgers(after) if agreed else ""


def _agrees(base: CommitBase, key: str) -> bool:
    live = LiveData(base.table, base.branch, rows_are_read=False)
    chain = Chain(key.removeprefix(records.LEDGER).removesuffix(f".{base.branch}"), "")
    try:
        finding = check_chain(base.metadata, chain, base.branch, live)
    except InvalidError:
        return False  # a ledger nobody can read vouches for nothing
    return finding.verdict is Verdict.AGREED
