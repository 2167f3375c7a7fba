"""Where the protocol's records are kept in a table: names of properties, tag and summary keys.

Theory of operation (protocol.md 3, plus two keys that make shared tables and trimming sound):
- the ledger is a table property, the newest own commit a snapshot with a summary and a tag;
- `penstock.newest.<chain>.<ref>` repeats which snapshot the ledger was written with, the last one
  that brought files or deleted rows, how many rows and of which ranges, so that a lost tag, an
  expired history or a compaction loses no witness;
- `penstock.ledgers` in a summary is a digest of all ledgers of its branch as that commit left them:
  while the nearest own snapshot on the ancestry carries the digest of the current ledgers,
  none of them can have been rolled back, whatever was trimmed or expired below it; a snapshot that
  only moved rows into other files (`penstock.maintenance`) repeats it, and is of no chain;
- each branch has ledgers, tag and summaries of its own: what landed on one is foreign to another,
  though the one begins with the other's history (docs/design/0080).

Invariants: reading returns what was written; foreign or damaged values are never half understood.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot, Summary

from penstock.core.commits import CommitKind, Committable
from penstock.core.offsets import Progress
from penstock.core.serialization import progress_from_json, progress_to_json

RANGES_BYTES_MAX = 16_384
BEGINNING = "penstock.beginning"
"""The summary key of an empty snapshot of ours that something begins at: a branch, late rows."""

_MAINTENANCE = "penstock.maintenance"
_BRANCH = "penstock.branch"
_LEDGERS = "penstock.ledgers"

_ERA = "penstock.maintenance-era"

CREATED = "penstock.created"
"""The property of a table that we created: nobody relies on how its files are distributed."""
LATE_SPEC = "penstock.late-spec"
"""The property that names the partition spec of rows that land late (docs/design/0320)."""

LEDGER = "penstock.ledger."
"""The prefix of the property of each chain's ledger, on any branch."""
_NEWEST = "penstock.newest."
_NEWEST_VERSION = 2
_NEWEST_VERSION_WITHOUT_ROWS = 1
NEWEST_RANGES_MAX = 16
_UNCOUNTED = -1


def ledger_key(chain: str, branch: str = MAIN_BRANCH) -> str:
    """Name the property that holds a chain's ledger."""
    return f"{LEDGER}{chain}.{branch}"


def newest_key(chain: str, branch: str = MAIN_BRANCH) -> str:
    """Name the property that records which snapshot the ledger was written with."""
    return f"{_NEWEST}{chain}.{branch}"


def tag_of(chain: str, branch: str = MAIN_BRANCH) -> str:
    """Name the tag on a chain's newest snapshot; neither pipelines nor branches have a dot."""
    return f"penstock-{chain}" if branch == MAIN_BRANCH else f"penstock-{chain}.{branch}"


def ledgers_in(properties: Mapping[str, str], branch: str) -> dict[str, str]:
    """Return the texts of all ledgers of a branch by property."""
    return {
        key: text
        for key, text in properties.items()
        if key.startswith(LEDGER) and key.endswith(f".{branch}")
    }


def branches_in(properties: Mapping[str, str]) -> set[str]:
    """Return the branches on which chains have ledgers."""
    return {key.rpartition(".")[2] for key in properties if key.startswith(LEDGER)}


def era_in(properties: Mapping[str, str]) -> int:
    """Return how many times the era of a table was raised (docs/design/0289)."""
    text = properties.get(_ERA, "")
    return int(text) if text.isdecimal() else 0


def next_era(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the property of the next era."""
    return {_ERA: str(era_in(properties) + 1)}


def digest_of_ledgers(ledgers: Mapping[str, str]) -> str:
    """Return a digest of the current ledgers."""
    text = json.dumps(sorted(ledgers.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """The snapshot that a ledger was written with.

    `number` counts a chain's commits from 1; `files_snapshot` is the last own one that brought
    files or was a row delta, 0 when none has; it landed so many `rows` of the `ranges`, which are
    empty where they are too many to be recorded, and for a row delta; `sequence` is the snapshot's
    sequence number.
    """

    commit_id: str
    snapshot: int
    sequence: int
    number: int
    files_snapshot: int
    rows: int = 0
    ranges: Progress = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as the property holds it."""
        return json.dumps(
            [
                _NEWEST_VERSION,
                self.commit_id,
                str(self.snapshot),
                self.sequence,
                self.number,
                str(self.files_snapshot),
                self.rows,
                progress_to_json(self.ranges),
            ],
            separators=(",", ":"),
        )


def mark_in(properties: Mapping[str, str], chain: str, branch: str) -> LedgerMark | None:
    """Read which snapshot a ledger was written with; None when that is not recorded."""
    try:
        version, *values = json.loads(properties.get(newest_key(chain, branch), ""))
        if version == _NEWEST_VERSION_WITHOUT_ROWS:
            values += [0, []]
        elif version != _NEWEST_VERSION:
            return None
        commit_id, snapshot, sequence, number, files, rows, ranges = values
        return LedgerMark(
            str(commit_id),
            int(snapshot),
            int(sequence),
            int(number),
            int(files),
            int(rows),
            progress_from_json(ranges),
        )
    except (ValueError, TypeError, AssertionError):
        return None


def bounded_ranges(progress: Progress) -> Progress:
    """Return the ranges by which a commit's rows are searched for, or none where they are many."""
    return progress if len(progress) <= NEWEST_RANGES_MAX else {}


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """The record in the summary of an own snapshot.

    `progress` is None when the ranges were too many to be written. `keeps_ledger` marks a fence
    that was laid on a rolled-back table: it moved the head and nothing else. `ledgers` is the
    digest of all ledgers after the commit, "" when it could not vouch for them.
    """

    commit_id: str
    kind: str
    number: int
    generation: int
    cluster_id: str
    progress: list[list[Any]] | None
    rows: int
    files: int
    keeps_ledger: bool
    ledgers: str
    valid_through_ms: int | None = None


def summary_of(
    commit: Committable, branch: str, *, number: int, ledgers: str, keeps_ledger: bool
) -> dict[str, str]:
    """Return the summary keys of a commit; ranges beyond `RANGES_BYTES_MAX` are marked as cut."""
    ranges = json.dumps(progress_to_json(commit.progress), separators=(",", ":"))
    keys = {
        "penstock.pipeline": commit.chain.name,
        "penstock.commit-id": commit.commit_id,
        "penstock.kind": commit.kind.value,
        "penstock.number": str(number),
        "penstock.generation": str(commit.generation),
        "penstock.epoch": str(commit.epoch),
        "penstock.cluster": commit.cluster_id,
        "penstock.rows": str(commit.rows),
        "penstock.files": str(len(commit.files)),
    }
    if len(ranges) <= RANGES_BYTES_MAX:
        keys["penstock.ranges"] = ranges
    else:
        keys["penstock.ranges-omitted"] = str(len(commit.progress))
    if commit.valid_through_ms is not None:
        keys["penstock.valid-through"] = str(commit.valid_through_ms)
    if ledgers:
        keys[_LEDGERS] = ledgers
    if keeps_ledger:
        keys["penstock.keeps-ledger"] = "true"
    if branch != MAIN_BRANCH:
        keys[_BRANCH] = branch
    return keys


def summary_of_rearrangement(branch: str, ledgers: Mapping[str, str]) -> dict[str, str]:
    """Return the summary keys of a snapshot that puts files in the place of others with the same
    rows; it vouches for ledgers as they are.
    """
    keys = {_MAINTENANCE: "rearrange"}
    if ledgers:
        keys[_LEDGERS] = digest_of_ledgers(ledgers)
    if branch != MAIN_BRANCH:
        keys[_BRANCH] = branch
    return keys


def is_maintenance(snapshot: Snapshot, branch: str) -> bool:
    """Return whether a snapshot of a branch only moved rows into other files, and is ours."""
    summary = snapshot.summary
    if summary is None or not summary.get(_MAINTENANCE):
        return False
    return str(summary.get(_BRANCH) or MAIN_BRANCH) == branch


def nearest_digest(ancestry: Ancestry) -> tuple[int, str] | None:
    """Return the nearest snapshot of ours, and the digest of all ledgers that it was made with."""
    for each in ancestry.snapshots:
        own = writer_of(each)
        if (own and own[1] == ancestry.branch) or is_maintenance(each, ancestry.branch):
            assert each.summary is not None, "it says whose it is"
            return each.snapshot_id, str(each.summary.get(_LEDGERS) or "")
    return None


def writer_of(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return chain and branch of a snapshot of Penstock's; None for another writer's."""
    summary = snapshot.summary
    chain = None if summary is None else summary.get("penstock.pipeline")
    if summary is None or not chain:
        return None
    return str(chain), str(summary.get(_BRANCH) or MAIN_BRANCH)


def own_snapshots(
    snapshots: Iterable[Snapshot], branch: str, chain: str = ""
) -> Iterator[tuple[Snapshot, SummaryRecord]]:
    """Yield those that a chain made on a branch, or any chain of ours where none is named."""
    for snapshot in snapshots:
        line, summary = writer_of(snapshot), snapshot.summary
        if line and summary is not None and line[1] == branch and chain in ("", line[0]):
            yield snapshot, _record(summary)


def _record(summary: Summary) -> SummaryRecord:
    return SummaryRecord(
        commit_id=str(summary.get("penstock.commit-id") or ""),
        kind=str(summary.get("penstock.kind") or CommitKind.APPEND.value),
        number=_number(summary.get("penstock.number"), _UNCOUNTED),
        generation=_number(summary.get("penstock.generation"), 0),
        cluster_id=str(summary.get("penstock.cluster") or ""),
        progress=_progress(summary.get("penstock.ranges")),
        rows=_number(summary.get("penstock.rows"), 0),
        files=_number(summary.get("penstock.files"), 0),
        keeps_ledger=summary.get("penstock.keeps-ledger") == "true",
        ledgers=str(summary.get(_LEDGERS) or ""),
        valid_through_ms=_time(summary.get("penstock.valid-through")),
    )


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The snapshots that can be reached from the head of a branch, newest first.

    `complete` is true when the walk ended at the table's very first snapshot: one without a parent
    and with the first sequence number, for expiry may cut the parent off without a trace. Tables of
    format version 1 count no sequence numbers: there it is true only while there is no snapshot.
    """

    branch: str
    snapshots: tuple[Snapshot, ...]
    complete: bool


def ancestry_of(metadata: TableMetadata, branch: str) -> Ancestry:
    """Walk from the head of a branch by parents, as far as snapshots are kept."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    at = head_of(metadata, branch)
    walked: list[Snapshot] = []
    while at is not None and at in by_id:
        walked.append(by_id.pop(at))
        at = walked[-1].parent_snapshot_id
    first = not walked or (at is None and walked[-1].sequence_number == 1)
    return Ancestry(branch, tuple(walked), complete=first)


def head_of(metadata: TableMetadata, branch: str) -> int | None:
    """Return the snapshot that a branch points to; None when there is no such branch yet."""
    reference = metadata.refs.get(branch)
    return None if reference is None else reference.snapshot_id


def parent_of(metadata: TableMetadata, branch: str) -> int | None:
    """Return the snapshot that the next one of a branch follows: main's head before it begins."""
    head = head_of(metadata, branch)
    return head_of(metadata, MAIN_BRANCH) if head is None else head


def _number(text: Any, otherwise: int) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else otherwise


def _time(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _progress(text: Any) -> list[list[Any]] | None:
    try:
        rows: list[list[Any]] = json.loads(text)
        progress_from_json(rows)
    except (ValueError, TypeError, AssertionError):
        return None
    return rows
