"""Builds one rearrangement: files in the place of others with the same rows, and nothing claimed.

Invariants (docs/design/0289, 0291):
- manifests of data files are staged before the table is examined, and written once for all
  attempts, for they depend on no state: what lands meanwhile costs a look at its own manifests and
  another list;
- only what the metadata itself proves of each chain of the branch is vouched for, never what files
  or rows suggest: once vouched for, a guess would count for ever;
- files go with the delete files that are about none that stays, and come with those that say what
  was deleted meanwhile;
- where no file that stays bears the newest rows of a chain, its record says that this snapshot
  does; how many rows, and of which ranges, stays as it was: they are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry
from pyiceberg.table import Table, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from penstock.connectors.iceberg.commit.row_delete_files import row_delete_writer
from penstock.connectors.iceberg.commit.snapshots import (
    CommitBase,
    CommitRequest,
    request_of,
    snapshot_of,
    summary_of,
)
from penstock.connectors.iceberg.files.file_metadata import data_file
from penstock.connectors.iceberg.files.manifest_entries import content_of, name_of
from penstock.connectors.iceberg.files.manifests import ManifestStack
from penstock.connectors.iceberg.files.staged_manifests import StagedManifests
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import check_chain, vouching
from penstock.connectors.iceberg.row_deletes.changes import RowChanges, touched_by
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows
from penstock.core import table_errors
from penstock.core.commits import Chain
from penstock.core.offsets import Progress
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.tables import Verdict


class _MetadataAlone:
    """Implements `witnesses.Live` for those who take no guess: it has seen nothing."""

    def files_of(self, snapshot_id: int) -> int:
        """Count none."""
        del snapshot_id
        return 0

    def rows_of(self, chain: Chain, ranges: Progress, most: int) -> int | None:
        """Decide nothing."""
        del chain, ranges, most
        return None


def require_rearrangeable(table: Table, name: str, branch: str) -> None:
    """Raise DecisionNeededError (P846) where no file may be replaced."""
    metadata = table.metadata
    if branch != MAIN_BRANCH and records.head_of(metadata, branch) is None:
        raise table_errors.not_vouched(name, f"branch {branch}", "it is not there yet")
    require_vouched(table, name, branch)


def require_vouched(table: Table, name: str, branch: str) -> None:
    """Raise DecisionNeededError (P846) where the metadata does not prove a chain of a branch."""
    metadata = table.metadata
    if vouching(metadata, records.ancestry_of(metadata, branch)) is not None:
        return
    for key in records.ledgers_in(metadata.properties, branch):
        chain = Chain(key.removeprefix(records.LEDGER).removesuffix(f".{branch}"), name)
        finding = check_chain(metadata, chain, branch, _MetadataAlone())
        if finding.verdict is not Verdict.AGREED:
            raise table_errors.not_vouched(name, chain.name, finding.evidence)


class Rearranger:
    """Makes the requests of one table; it keeps what it wrote for the last one."""

    def __init__(self) -> None:
        self._staged: StagedManifests | None = None

    def stage(self, base: CommitBase, rearrangements: Sequence[Rearrangement]) -> None:
        """Write the manifests of data files before anybody waits for the request.

        Raises BugError (P848), OSError, ValueError.
        """
        removed = _removed(base.name, base.rows.of(base.table), rearrangements)
        data = [each for each in removed if content_of(each.data_file) == ManifestContent.DATA]
        changes = RowChanges(_data_files(base, rearrangements), (*data,))
        staged = self._staged = self._staged_for(changes, base.metadata)
        stack = ManifestStack(base.table, staged.snapshot_id, base.rows.entries, staged)
        stack.stage(changes.files, changes.removed, base.rows.manifests(base.table))

    def request(self, base: CommitBase, rearrangements: Sequence[Rearrangement]) -> CommitRequest:
        """Write a snapshot's files and return the request that lands rearrangements.

        Raises what `require_rearrangeable` raises; BugError (P707, P848); InvalidError (P439).
        """
        require_rearrangeable(base.table, base.name, base.branch)
        live = base.rows.of(base.table)
        files = _data_files(base, rearrangements)
        removed = _removed(base.name, live, rearrangements)
        changes = RowChanges(
            (*files, *_carried_deletes(base, live, files, rearrangements)), removed
        )
        staged = self._staged = self._staged_for(changes, base.metadata)
        carried = _carried(base, live, changes, staged.snapshot_id) if files else {}
        return _moved(base, live.totals(), changes, staged, carried)

    def _staged_for(self, changes: RowChanges, metadata: TableMetadata) -> StagedManifests:
        """Return what was written for the same changes; a new snapshot where that one landed."""
        going = (each.data_file for each in changes.removed)
        names = frozenset(
            name_of(each)
            for each in (*changes.files, *going)
            if content_of(each) == ManifestContent.DATA
        )
        former = self._staged
        has_landed = former and metadata.snapshot_by_id(former.snapshot_id)
        if former is not None and former.of == names and has_landed is None:
            return former
        return StagedManifests(names, metadata.new_snapshot_id())


def _data_files(base: CommitBase, rearrangements: Sequence[Rearrangement]) -> tuple[DataFile, ...]:
    files = (file for each in rearrangements for file in each.files)
    return tuple(data_file(each, base.metadata, base.name) for each in files)


def era_request(base: CommitBase) -> CommitRequest:
    """Write an empty snapshot and return the request that raises the era.

    Raises DecisionNeededError (P846).
    """
    require_vouched(base.table, base.name, base.branch)
    staged = StagedManifests(frozenset(), base.metadata.new_snapshot_id())
    head = records.parent_of(base.metadata, base.branch)
    former = None if head is None else base.metadata.snapshot_by_id(head)
    totals = None if former is None else former.summary
    raised = records.next_era(base.metadata.properties)
    return _moved(base, totals, RowChanges(()), staged, raised)


def _moved(
    base: CommitBase,
    totals: Mapping[str, str] | None,
    changes: RowChanges,
    staged: StagedManifests,
    properties: dict[str, str],
) -> CommitRequest:
    """Write what a snapshot needs in which no row comes or goes; return its request."""
    metadata, branch = base.metadata, base.branch
    stack = ManifestStack(base.table, staged.snapshot_id, base.rows.entries, staged)
    head = records.parent_of(metadata, branch)
    manifests = base.rows.manifests(base.table) if changes.removed else None
    listed = stack.replaced(changes.files, changes.removed, head, manifests)
    ledgers = records.ledgers_in(metadata.properties, branch)
    keys = records.summary_of_rearrangement(branch, ledgers)
    summary = summary_of(base, changes, keys, totals, moves=True)
    snapshot = snapshot_of(base, staged.snapshot_id, listed, summary)
    updates = [update.SetPropertiesUpdate(updates=properties)] if properties else []
    return request_of(base, snapshot, *updates)


def _carried_deletes(
    base: CommitBase,
    live: LiveRows,
    files: Sequence[DataFile],
    rearrangements: Sequence[Rearrangement],
) -> Sequence[DataFile]:
    """Write the delete files of new data files. Raises BugError (P707)."""
    prefixes = [each.prefix for each in rearrangements if each.row_deletes]
    if not prefixes:
        return ()
    row_deletes = [each for of in rearrangements for each in of.row_deletes]
    touched = touched_by(files, live, row_deletes, base.name)
    return row_delete_writer(base, prefixes[0], live)(touched).files


def _removed(
    name: str, live: LiveRows, rearrangements: Sequence[Rearrangement]
) -> tuple[ManifestEntry, ...]:
    """Find the entries that go. Raises BugError (P848)."""
    gone: set[str] = set()
    for each in rearrangements:
        for path, deleted in each.replaced.items():
            if path in gone or path not in live.data or live.delete_state(path) != deleted:
                raise table_errors.not_rearrangeable(name, path)
            gone.add(path)
    return (*(live.data[path] for path in gone), *live.about(gone))


def _carried(
    base: CommitBase, live: LiveRows, changes: RowChanges, snapshot_id: int
) -> dict[str, str]:
    """Return the records of chains whose newest rows are in no file that stays."""
    going = Counter(entry.snapshot_id for entry in changes.removed)
    carried: dict[str, str] = {}
    for key in records.ledgers_in(base.metadata.properties, base.branch):
        chain = key.removeprefix(records.LEDGER).removesuffix(f".{base.branch}")
        mark = records.mark_in(base.metadata.properties, chain, base.branch)
        if mark is None or mark.files_snapshot <= 0:
            continue
        if live.added_by.get(mark.files_snapshot, 0) <= going[mark.files_snapshot]:
            moved = replace(mark, files_snapshot=snapshot_id)
            carried[records.newest_key(chain, base.branch)] = moved.to_json()
    return carried
