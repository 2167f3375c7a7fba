"""What the audit reads of a chain, from metadata and manifests alone.

Invariants:
- commits are told oldest first, without a hole between the first told and the ledger: counted by
  `penstock.number`, a hole hides everything older;
- `complete` is only said when the chain's first commit is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from penstock.connectors.iceberg.files.manifests import live_entries
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.ledger.witnesses import Finding
from penstock.core.commits import Chain
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.serialization import progress_from_json
from penstock.ports.tables import CommitRecord, History, Verdict

_Own = tuple[Snapshot, records.SummaryRecord]


def history_of(table: Table, chain: Chain, branch: str, finding: Finding) -> History:
    """Return the chain's commits on a branch and the branch's live files."""
    ancestry = records.ancestry_of(table.metadata, branch)
    told = _told(table.metadata, chain, finding, ancestry)
    commits = [_record(snapshot, each) for snapshot, each in told]
    first = told[0][1].number if told else 1
    landed = bool(finding.landed and finding.landed.recent)
    return History(
        commits=commits,
        complete=first <= 1 and (bool(told) or not landed),
        paths=[entry.data_file.file_path for entry in live_entries(table, branch)],
        foreign_commits=sum(_is_foreign(each, branch) for each in ancestry.snapshots),
        began=_began(table.metadata, chain, branch, finding),
    )


def _began(
    metadata: TableMetadata, chain: Chain, branch: str, finding: Finding
) -> dict[TopicPartition, Offset]:
    """Return first positions by the chain's commits from number 1 on, rolled back or not.

    A partition of which no commit tells has never moved, where all commits are told.
    """
    own = {
        told.number: told
        for snapshot in metadata.snapshots
        if (told := records.record_of(snapshot)) is not None
        and (told.chain, told.branch) == (chain.name, branch)
        and not told.keeps_ledger
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
    told = records.record_of(snapshot)
    begins = snapshot.summary is not None and snapshot.summary.get(records.BEGINNING)
    return not begins and (told is None or told.branch != branch)


def _told(
    metadata: TableMetadata, chain: Chain, finding: Finding, ancestry: records.Ancestry
) -> list[_Own]:
    """Return the commits that can be told: those on the branch, and those the ledger knows.

    In a table that several chains share, trimming may cut a chain's older snapshots off the branch;
    an agreed ledger proves by commit id that they belong to it.
    """
    own = ancestry.own()
    found = {s.snapshot_id: (s, told) for s, told in own if told.chain == chain.name}
    if finding.verdict is Verdict.AGREED and finding.landed is not None:
        known = dict(finding.landed.recent)
        for snapshot in metadata.snapshots:
            told = records.record_of(snapshot)
            if (
                told is not None
                and (told.chain, told.branch) == (chain.name, ancestry.branch)
                and told.commit_id in known
            ):
                found.setdefault(snapshot.snapshot_id, (snapshot, told))
    in_order = sorted(found.values(), key=lambda own: (own[0].sequence_number or 0, own[1].number))
    return _without_holes(each for each in in_order if not each[1].keeps_ledger)


def _without_holes(own: Iterable[_Own]) -> list[_Own]:
    """Keep the newest stretch whose commits are counted without a hole and tell their ranges."""
    kept: list[_Own] = []
    for each in own:
        if kept and kept[-1][1].number + 1 != each[1].number:
            kept.clear()
        kept.append(each)
        if each[1].progress is None:
            kept.clear()
    return kept


def _record(snapshot: Snapshot, told: records.SummaryRecord) -> CommitRecord:
    return CommitRecord(
        commit_id=told.commit_id,
        snapshot=str(snapshot.snapshot_id),
        timestamp_ms=snapshot.timestamp_ms,
        kind=told.kind,
        progress=told.progress or [],
        rows=told.rows,
        files=told.files,
    )
