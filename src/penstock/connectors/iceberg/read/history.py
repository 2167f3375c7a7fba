"""Reads the history of a chain for the audit, from metadata and manifests alone.

Invariants:
- commits are listed oldest first, without a hole between the first one and the ledger: counted by
  `penstock.number`, a hole hides everything older;
- `complete` is only set when the chain's first commit is listed.
"""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from penstock.connectors.iceberg.files.manifests import live_entries
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import Finding
from penstock.core.commits import Chain
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.serialization import progress_from_json
from penstock.ports.histories import CommitRecord, CommitsBehind, History
from penstock.ports.tables import Verdict


def history_of(table: Table, chain: Chain, branch: str, finding: Finding) -> History:
    """Return the chain's commits on a branch and the branch's live files."""
    ancestry = records.ancestry_of(table.metadata, branch)
    commits = _commits(table.metadata, chain, finding, ancestry)
    first = commits[0][1].number if commits else 1
    landed = bool(finding.landed and finding.landed.recent)
    return History(
        commits=[_record(*each) for each in commits],
        complete=first <= 1 and (bool(commits) or not landed),
        paths=[entry.data_file.file_path for entry in live_entries(table, branch)],
        foreign_commits=sum(_is_foreign(each, branch) for each in ancestry.snapshots),
        began=_began(table.metadata, chain, branch, finding),
    )


def commits_behind(
    metadata: TableMetadata, chain: Chain, branch: str, finding: Finding, behind: str
) -> CommitsBehind:
    """Return the chain's commits behind a snapshot, "" for all that are listed."""
    found = _commits(metadata, chain, finding, records.ancestry_of(metadata, branch))
    listed = [_record(*each) for each in found]
    places = [each.snapshot for each in listed]
    begun = places.index(behind) + 1 if behind in places else 0
    return CommitsBehind(listed[begun:], follows=not behind or begun > 0)


def _record(snapshot: Snapshot, summary: records.SummaryRecord) -> CommitRecord:
    return CommitRecord(
        commit_id=summary.commit_id,
        snapshot=str(snapshot.snapshot_id),
        timestamp_ms=snapshot.timestamp_ms,
        kind=summary.kind,
        progress=summary.progress or [],
        rows=summary.rows,
        files=summary.files,
        valid_through_ms=summary.valid_through_ms,
    )


def _began(
    metadata: TableMetadata, chain: Chain, branch: str, finding: Finding
) -> dict[TopicPartition, Offset]:
    """Return first positions by the chain's commits from number 1 on, rolled back or not.

    A partition that no commit names has never moved, where all commits are listed.
    """
    own = {
        each.number: each
        for _, each in records.own_snapshots(metadata.snapshots, branch, chain.name)
        if not each.keeps_ledger
    }
    began: dict[TopicPartition, Offset] = {}
    number = 1
    while number in own and (progress := own[number].progress) is not None:
        for at, covered in progress_from_json(progress).items():
            began.setdefault(at, covered.start)
        number += 1
    landed, newest = finding.landed, records.mark_in(metadata.properties, chain.name, branch)
    if landed is None or (landed.recent and (newest is None or newest.number >= number)):
        return began
    return {**landed.offsets, **began}


def _is_foreign(snapshot: Snapshot, branch: str) -> bool:
    if records.is_maintenance(snapshot, branch):
        return False
    line = records.writer_of(snapshot)
    begins = snapshot.summary is not None and snapshot.summary.get(records.BEGINNING)
    return not begins and (line is None or line[1] != branch)


def _commits(
    metadata: TableMetadata, chain: Chain, finding: Finding, ancestry: records.Ancestry
) -> list[tuple[Snapshot, records.SummaryRecord]]:
    """Return the commits that can be listed: those on the branch, and those the ledger knows.

    In a table that several chains share, trimming may cut a chain's older snapshots off the branch;
    an agreed ledger proves by commit id that they belong to it. Of all these it is the newest
    stretch that is counted without a hole and has its ranges.
    """
    reached = {each.snapshot_id for each in ancestry.snapshots}
    agreed = finding.landed if finding.verdict is Verdict.AGREED else None
    known = dict(agreed.recent) if agreed is not None else {}
    own = [*records.own_snapshots(metadata.snapshots, ancestry.branch, chain.name)]
    kept: list[tuple[Snapshot, records.SummaryRecord]] = []
    for snapshot, summary in sorted(
        own, key=lambda each: (each[0].sequence_number or 0, each[1].number)
    ):
        is_listed = snapshot.snapshot_id in reached or summary.commit_id in known
        if summary.keeps_ledger or not is_listed:
            continue
        if summary.progress is None or (kept and kept[-1][1].number + 1 != summary.number):
            kept.clear()
        if summary.progress is not None:
            kept.append((snapshot, summary))
    return kept
