"""The nouns of the two phases: data files, committables, what a table has landed.

Invariants:
- one logical commit has one id over retries, restarts and failovers: it is a hash of the source
  ranges it covers and of nothing that changes with time (protocol.md I5);
- a committable without files moves progress only (an anchor); without ranges it moves nothing but
  the table's head and start positions (a fence, or the anchor that fixes start positions);
- what a human asks for has no ranges either: a replacement puts files in the place of others and
  moves no position, a seek puts positions back and begins a new segment (docs/design/0110, 0111).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from penstock.core.accounting import Tally
from penstock.core.claims import Claim, Generation
from penstock.core.offsets import (
    LeaderEpochs,
    Offset,
    Positions,
    Progress,
    TopicPartition,
    advanced,
    without,
    without_empty,
)

EpochNumber = NewType("EpochNumber", int)
CommitId = NewType("CommitId", str)

RECENT_COMMITS_MAX = 64


@dataclass(frozen=True, slots=True)
class Chain:
    """Name one gapless sequence of commits in one table.

    `name` is the pipeline for a target table and `<pipeline>/<table>` for the quarantine rows of
    that table (data.md 5). `table` is `<catalog>.<namespace…>.<table>`, the name in the spec.
    """

    name: str
    table: str

    @property
    def is_quarantine(self) -> bool:
        """Return whether this is the quarantine chain of some table; pipelines have no slash."""
        return "/" in self.name

    def __str__(self) -> str:
        return f"{self.table} ({self.name})"


@dataclass(frozen=True, slots=True)
class DataFile:
    """Describe one written, immutable file well enough to commit it without opening it.

    `ranges` are the source ranges whose rows may be in it; `detail` is versioned JSON that only the
    connector that wrote the file reads (statistics, partition values, split offsets).
    """

    path: str
    record_count: int
    size_bytes: int
    ranges: Progress
    partition: str = ""
    detail: str = "{}"


class CommitKind(StrEnum):
    """Why a commit exists."""

    APPEND = "append"
    ANCHOR = "anchor"
    FENCE = "fence"
    REPLACE = "replace"
    SEEK = "seek"


@dataclass(frozen=True, slots=True)
class Committable:
    """One prepared commit of one chain: all that is needed to land it after a crash.

    `removes` are paths of live files that a replacement takes away; such a commit is never kept.
    """

    chain: Chain
    table_uuid: str
    segment: int
    commit_id: CommitId
    attempt: str
    generation: Generation
    owner: str
    cluster_id: str
    epoch: EpochNumber
    kind: CommitKind
    progress: Progress
    files: tuple[DataFile, ...]
    rules_hash: str
    schema_id: int
    valid_through_ms: int | None = None
    origins: Positions = field(default_factory=dict)
    leader_epochs: LeaderEpochs = field(default_factory=dict)
    tallies: Mapping[TopicPartition, Tally] = field(default_factory=dict)
    removes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert all(covered.count for covered in self.progress.values()), (
            "empty ranges claim nothing"
        )
        assert self.kind in (CommitKind.APPEND, CommitKind.ANCHOR) or not self.progress, (
            f"a {self.kind} has no progress"
        )
        assert self.kind is CommitKind.REPLACE or not self.removes, f"a {self.kind} removes nothing"

    @property
    def claim(self) -> Claim:
        """Return the claim that it was prepared under."""
        return Claim(self.generation, self.owner)

    @property
    def rows(self) -> int:
        """Count the rows in the files."""
        return sum(file.record_count for file in self.files)

    @property
    def digest(self) -> str:
        """Identify the list of files, whatever their order."""
        return digest_of(self.files)


@dataclass(frozen=True, slots=True)
class Landed:
    """What one chain has landed in a table: the ledger (protocol.md 3).

    `offsets` are next-to-read, for every partition ever read, also of topics no longer read;
    `leader_epochs` are those of the records before them, where known (KIP-320): with them a log
    that was cut off and has grown past us again is told from the one we read.
    `recent` are the newest commit ids with the digest of their files, oldest first.
    """

    chain: str
    cluster_id: str
    generation: Generation
    owner: str
    segment: int
    rules_hash: str
    offsets: Positions
    recent: tuple[tuple[CommitId, str], ...] = ()
    valid_through_ms: int | None = None
    leader_epochs: LeaderEpochs = field(default_factory=dict)

    @property
    def claim(self) -> Claim:
        """Return the claim that landed last."""
        return Claim(self.generation, self.owner)

    def digest_of(self, commit_id: CommitId) -> str | None:
        """Return the file digest of a recent commit, or None when it is not among them."""
        return dict(self.recent).get(commit_id)


def commit_id_of(
    chain: Chain, table_uuid: str, segment: int, progress: Progress, *, nonce: str = ""
) -> CommitId:
    """Derive the id of a logical commit from what it covers (protocol.md I5).

    Anchors without ranges and fences pass a nonce, since they cover nothing that tells them apart.
    """
    ranges = [
        [at.topic_id, at.partition, r.start, r.stop]
        for at, r in sorted(without_empty(progress).items())
    ]
    text = json.dumps([chain.name, table_uuid, segment, ranges, nonce], separators=(",", ":"))
    return CommitId(hashlib.sha256(text.encode()).hexdigest()[:32])


def digest_of(files: Iterable[DataFile]) -> str:
    """Identify a list of files, whatever their order."""
    text = "\n".join(sorted(file.path for file in files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def landed_after(landed: Landed, commit: Committable) -> Landed:
    """Return the ledger as it reads once `commit` has landed on `landed`.

    Origins are written only where the ledger has no position; progress must begin at the ledger's
    positions, which `decide` has checked on the same state. After a seek the origins stand, and of
    what landed before nothing is recent: it may land again.
    """
    if commit.kind is CommitKind.SEEK:
        return _after_seek(landed, commit)
    offsets = advanced({**commit.origins, **landed.offsets}, commit.progress)
    recent = (*landed.recent, (commit.commit_id, commit.digest))[-RECENT_COMMITS_MAX:]
    return Landed(
        chain=landed.chain,
        cluster_id=commit.cluster_id,
        generation=commit.generation,
        owner=commit.owner,
        segment=landed.segment,
        rules_hash=commit.rules_hash,
        offsets=offsets,
        recent=recent,
        valid_through_ms=_later(landed.valid_through_ms, commit.valid_through_ms),
        leader_epochs={**without(landed.leader_epochs, commit.progress), **commit.leader_epochs},
    )


def _after_seek(landed: Landed, commit: Committable) -> Landed:
    moved = commit.origins
    return Landed(
        chain=landed.chain,
        cluster_id=landed.cluster_id,
        generation=commit.generation,
        owner=commit.owner,
        segment=commit.segment,
        rules_hash=commit.rules_hash,
        offsets={**landed.offsets, **moved},
        recent=((commit.commit_id, commit.digest),),
        leader_epochs=without(landed.leader_epochs, moved),
    )


def target_of(pipeline: str, chain: Chain) -> str:
    """Name the target table of a chain: its own table, or the one whose rejects it holds."""
    return chain.name.removeprefix(f"{pipeline}/") if chain.is_quarantine else chain.table


def first_ledger(
    chain: Chain, claim: Claim, cluster_id: str, rules_hash: str, origins: Positions
) -> Landed:
    """Return the ledger a table is created with: start positions and nothing landed."""
    return Landed(
        chain.name, cluster_id, claim.generation, claim.owner, 0, rules_hash, dict(origins)
    )


def files_of(commits: Sequence[Committable]) -> tuple[DataFile, ...]:
    """List the files of several commits in order."""
    return tuple(file for commit in commits for file in commit.files)


def _later(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return max(known) if known else None


def position(positions: Positions, at: TopicPartition) -> Offset:
    """Return the position of a partition, or -1 where none is known."""
    return positions.get(at, Offset(-1))
