"""Checks the witnesses of a chain: the verdict of protocol.md 3, from metadata.

Facts are gathered in the order in which they are cheap; the third witness, the live manifests, is
asked only where history is broken above our newest snapshot, and the fourth, the rows themselves,
where no file that snapshot added is live: a compaction keeps rows, a rollback does not
(docs/design/0201). Of a row delta the rows are not asked: they may be replaced by now, and a commit
of nothing but deletes has none (docs/design/0243). Tables of format version 1 count no sequence
numbers, so there a broken history is always checked by these two.

Invariants:
- AGREED is only said when no rollback of this chain's rows can explain what is found, unless others
  have put back all rows of its newest commit by hand, and those before it not;
- each chain of a shared table is checked alone;
- rows know the name of their topic and nothing else, so they are asked only where no other commit
  can have landed rows of the newest one's ranges, and all of its rows must be there;
- nothing here writes, and only the last two witnesses read more than the table's metadata.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.ledger import properties as records
from penstock.core.claims import Generation
from penstock.core.commits import Chain, CommitId, CommitKind, Landed
from penstock.core.errors import InvalidError
from penstock.core.offsets import Progress, stops
from penstock.core.resolutions import is_of_resolutions
from penstock.core.serialization import ledger_from_json, progress_from_json
from penstock.ports.tables import Verdict

_PUT_BACK = ("source-snapshot-id", "published-wap-id")
"""What the summary of a snapshot has that was cherry-picked: rows of another came with it."""


class Live(Protocol):
    """The data at the head of the branch; read only where the metadata does not decide."""

    def files_of(self, snapshot_id: int) -> int:
        """Count the live files that a snapshot has added, delete files too: the third witness."""

    def rows_of(self, chain: Chain, ranges: Progress, most: int) -> int | None:
        """Count the live rows of these source ranges, no further once they are more than `most`:
        the fourth witness.

        None where rows cannot decide, or are too many to be read.
        """


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, the ledger it is about, and a sentence for people."""

    verdict: Verdict
    landed: Landed | None
    evidence: str


_agreed = partial(Finding, Verdict.AGREED)
_rolled_back = partial(Finding, Verdict.ROLLED_BACK)
_uncertain = partial(Finding, Verdict.UNCERTAIN)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts of a chain that has landed something."""

    metadata: TableMetadata
    chain: Chain
    landed: Landed
    ancestry: records.Ancestry
    live: Live


def check_chain(metadata: TableMetadata, chain: Chain, branch: str, live: Live) -> Finding:
    """Check one chain on a branch. Raises InvalidError (P190, P191) for an unreadable ledger."""
    text = metadata.properties.get(records.ledger_key(chain.name, branch))
    ancestry = records.ancestry_of(metadata, branch)
    if text is None:
        return _without_ledger(metadata, chain, branch)
    landed = ledger_from_json(text)
    if landed.chain != chain.name:
        return _uncertain(landed, f"the ledger of {chain.name} is that of {landed.chain}")
    if not landed.recent:
        return _agreed(landed, "nothing has landed since the ledger was written")
    vouched = vouching(metadata, ancestry)
    if vouched is not None:
        return _agreed(landed, f"snapshot {vouched} vouches for all ledgers of the table")
    return _by_summary(_Facts(metadata, chain, landed, ancestry, live))


def vouching(metadata: TableMetadata, ancestry: records.Ancestry) -> int | None:
    """Return the nearest snapshot of ours when it was made with the ledgers as they are now.

    A rollback moves it back and leaves the ledgers; a fence on a rolled-back table vouches for
    nothing. So a match means that no ledger of the table was rolled back.
    """
    nearest = records.nearest_digest(ancestry)
    if nearest is None:
        return None
    snapshot_id, found = nearest
    digest = records.digest_of_ledgers(records.ledgers_in(metadata.properties, ancestry.branch))
    return snapshot_id if found == digest else None


def _by_summary(facts: _Facts) -> Finding:
    chain, landed, ancestry = facts.chain, facts.landed, facts.ancestry
    newest_id, _ = landed.recent[-1]
    own = next(records.own_snapshots(ancestry.snapshots, ancestry.branch, chain.name), None)
    if own is None:
        return _without_summary(facts)
    snapshot, summary = own
    where = f"snapshot {snapshot.snapshot_id}"
    if summary.keeps_ledger:
        return _rolled_back(landed, f"{where} fences a table that had been rolled back before")
    if summary.commit_id == newest_id:
        return _agreed(landed, f"{where} and the ledger name the same commit")
    older = summary.commit_id in dict(landed.recent)
    newest = records.mark_in(facts.metadata.properties, chain.name, ancestry.branch)
    if older or (newest is not None and (snapshot.sequence_number or 0) < newest.sequence):
        return _rolled_back(
            landed,
            f"the newest commit of pipeline {chain.name} on branch {ancestry.branch} is "
            f"{summary.commit_id} in {where}; its ledger says {newest_id} landed",
        )
    return _uncertain(landed, f"{where} holds {summary.commit_id}, which the ledger does not know")


def _without_summary(facts: _Facts) -> Finding:
    """Check a chain without a commit on the ancestry that can still be read."""
    metadata, chain, landed, ancestry = facts.metadata, facts.chain, facts.landed, facts.ancestry
    newest_id, _ = landed.recent[-1]
    branch = ancestry.branch
    noted = records.mark_in(metadata.properties, chain.name, branch)
    newest = noted or _tagged(metadata, chain, branch)
    if ancestry.complete:
        return _rolled_back(landed, f"the complete history of {branch} does not hold {newest_id}")
    if newest is None:
        why = "the history is cut off, and neither tag nor property names our snapshot"
        return _uncertain(landed, why)
    lowest = min(each.sequence_number or 0 for each in ancestry.snapshots)
    if metadata.format_version > 1 and lowest <= newest.sequence:
        why = f"the history of {branch} goes back below snapshot {newest.snapshot} without it"
        return _rolled_back(landed, why)
    if newest.commit_id != newest_id:
        return _uncertain(landed, f"the last snapshot recorded is of {newest.commit_id}")
    if not newest.files_snapshot:
        return _agreed(landed, "the history is cut off, and no commit of the chain had files")
    if files := facts.live.files_of(newest.files_snapshot):
        those = f"{files} files of snapshot {newest.files_snapshot}"
        return _agreed(landed, f"the history is cut off, and {those} are live")
    missing = (
        f"the history is cut off above snapshot {newest.snapshot}, and no file that snapshot "
        f"{newest.files_snapshot} added is live"
    )
    found = None
    if _rows_are_its_own(facts, newest):
        found = facts.live.rows_of(chain, newest.ranges, newest.rows)
    if found is None:
        return _uncertain(landed, f"{missing}: a rollback or a compaction: nothing shows which")
    if found == newest.rows:
        return _agreed(landed, f"{missing}, but all its {found} rows are: files were compacted")
    return _uncertain(
        landed, f"{missing}, nor are all of its {newest.rows} rows: a rollback, perhaps"
    )


def _rows_are_its_own(facts: _Facts, newest: records.LedgerMark) -> bool:
    landed, ancestry = facts.landed, facts.ancestry
    if not newest.ranges or not newest.rows or landed.segment:
        return False  # after a seek, what was landed again may be there from before
    summaries = [each.summary for each in ancestry.snapshots if each.summary is not None]
    if any(each.get(key) for each in summaries for key in _PUT_BACK):
        return False
    if facts.chain.is_quarantine:
        return True  # its rows hold pipeline, table and topic id
    if any(map(is_of_resolutions, landed.offsets)):
        return False  # a retry lands rows ahead of the chain
    try:
        others = [
            at
            for key, text in facts.metadata.properties.items()
            if key.startswith(records.LEDGER)
            and key != records.ledger_key(facts.chain.name, ancestry.branch)
            for at in ledger_from_json(text).offsets
        ]
    except InvalidError:
        return False
    landings = Counter((at.topic, at.partition) for at in (*landed.offsets, *others))
    return all(landings[at.topic, at.partition] == 1 for at in newest.ranges)


def _without_ledger(metadata: TableMetadata, chain: Chain, branch: str) -> Finding:
    own = records.own_snapshots(metadata.snapshots, branch, chain.name)
    newest = max(own, key=lambda each: (each[0].sequence_number or 0, each[1].number), default=None)
    if newest is None:
        return Finding(Verdict.ABSENT, None, f"the table has no ledger of {chain.name}")
    _, summary = newest
    landed = Landed(  # what the summary alone says: to be read, not continued from
        chain=chain.name,
        cluster_id=summary.cluster_id,
        generation=Generation(summary.generation),
        owner="",
        segment=0,
        rules_hash="",
        offsets=stops(progress_from_json(summary.progress or [])),
        recent=((CommitId(summary.commit_id), ""),),
    )
    return _uncertain(
        landed,
        f"the property {records.ledger_key(chain.name, branch)} was removed, and snapshots "
        f"say that {summary.commit_id} landed",
    )


def _tagged(metadata: TableMetadata, chain: Chain, branch: str) -> records.LedgerMark | None:
    at = records.head_of(metadata, records.tag_of(chain.name, branch))
    tagged = (each for each in metadata.snapshots if each.snapshot_id == at)
    found = next(records.own_snapshots(tagged, branch, chain.name), None)
    if found is None:
        return None
    snapshot, summary = found
    progress = [] if summary.kind == CommitKind.ROW_DELTA else summary.progress or []
    return records.LedgerMark(
        commit_id=summary.commit_id,
        snapshot=snapshot.snapshot_id,
        sequence=snapshot.sequence_number or 0,
        number=summary.number,
        # Without files it proves nothing by itself: the one before it may have been rolled back.
        files_snapshot=snapshot.snapshot_id,
        rows=summary.rows if progress else 0,
        ranges=records.bounded_ranges(progress_from_json(progress)),
    )
