"""The nouns of the two phases: data files, committables, what a table has landed.

Invariants:
- one logical commit has one id over retries, restarts and failovers: it is a hash of the source
  ranges it covers and of nothing that changes with time (protocol.md I5);
- a row delta adds rows and deletes others, which are found at the commit (docs/design/0243);
- a purge deletes rows of deleted keys and moves no position: the claim that landed last stays the
  ledger's (docs/design/0267);
- a committable without files moves progress only (an anchor); without ranges it moves nothing but
  the table's head and start positions (a fence, or the anchor that fixes start positions);
- manual changes have no ranges either: a replacement puts files in the place of others and moves no
  position, a seek puts positions back and begins a new segment (docs/design/0110, 0111).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NewType

from penstock.core.accounting import Tally
from penstock.core.claims import Claim, Generation
from penstock.core.growth import end_in
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
from penstock.core.resolutions import records_only

EpochNumber = NewType("EpochNumber", int)
CommitId = NewType("CommitId", str)

RECENT_COMMITS_MAX = 64
NOBODY = Claim(Generation(0), "")
"""The claim in a chain in which nobody has landed: any other outranks it."""


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

    `ranges` are the source ranges of the rows that may be in it; `detail` is versioned JSON for the
    connector that wrote the file (statistics, partition values, split offsets).
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
    ROW_DELTA = "row-delta"
    SEEK = "seek"
    PURGE = "purge"


MOVES = frozenset({CommitKind.APPEND, CommitKind.ANCHOR, CommitKind.ROW_DELTA})
"""The kinds of commits that move positions by ranges."""
DELETES_ROWS = frozenset({CommitKind.ROW_DELTA, CommitKind.PURGE})
"""The kinds of commits that take single rows away."""


@dataclass(frozen=True, slots=True)
class Committable:
    """One prepared commit of one chain: all that is needed to land it after a crash.

    `removes` are paths of live files that a replacement takes away, `purged_through_ms` is until
    when keys were deleted whose rows a purge takes away; neither is ever kept.
    `touched` are the keys that a row delta changes (rows/keyed/touched.py), and `keys` the columns
    of the key; `sequence` and `compares_offsets` are what a ledger that becomes keyed by it is to
    say (`Keyed`). `ends` are where former partitions end as new ones begin, `growths` how many
    such ends of the ledger its plan knew of (`Landed`). `beside` are start positions of the chains
    of sibling shards by their names, and `begun` how many of theirs and its own its plan knew of;
    an anchor with them is never kept.
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
    touched: bytes | None = field(default=None, repr=False)
    keys: tuple[str, ...] = ()
    compares_offsets: bool = False
    sequence: tuple[str, ...] = ()
    ends: Positions = field(default_factory=dict)
    growths: int = 0
    purged_through_ms: int | None = None
    beside: Mapping[str, Positions] = field(default_factory=dict)
    begun: int = 0

    def __post_init__(self) -> None:
        assert all(covered.count for covered in self.progress.values()), (
            "empty ranges claim nothing"
        )
        assert self.kind in MOVES or not self.progress, f"a {self.kind} has no progress"
        assert self.kind is CommitKind.REPLACE or not self.removes, f"a {self.kind} removes nothing"
        assert self.kind is CommitKind.ROW_DELTA or not (
            self.touched or self.keys or self.compares_offsets or self.sequence
        ), f"a {self.kind} has no keys"
        assert self.kind is CommitKind.ANCHOR or not (self.ends or self.beside), (
            f"a {self.kind} begins nothing"
        )
        assert (self.kind is CommitKind.PURGE) == (self.purged_through_ms is not None)

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
class Keyed:
    """How a chain changes rows: by these columns of the key, since its first row delta.

    `compares_offsets` is false where rows may have come from elsewhere before: a row with a higher
    offset is then no later one. `since` are the positions from which on records are changes, where
    that is not the beginning of the partition: before them they were appended, or never read.
    `sequence` are the columns by which a change is later than another, before the order of the log.
    `compares_from` are the positions at which offsets are compared again, once all are reached,
    where the table was put back.
    """

    keys: tuple[str, ...]
    compares_offsets: bool
    since: Positions = field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    compares_from: Positions = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.keys, "a key has columns"


@dataclass(frozen=True, slots=True)
class Landed:
    """The ledger of one chain in a table: all that it has landed (protocol.md 3).

    `offsets` are next-to-read, for every partition ever read, also of topics no longer read;
    `leader_epochs` are those of the records before them, where known (KIP-320): they show that a
    log was truncated and has grown past our position again.
    `recent` are the newest commit ids with the digest of their files, oldest first. `keyed` is None
    for a chain that only appends. `grown` are, each time that topics of a keyed table were given
    partitions, the ends of the former ones: what lies before these comes before what lies behind
    them (core/growth.py). Of keys that were deleted until `purged_through_ms`, rows may
    have been purged.
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
    keyed: Keyed | None = None
    grown: tuple[Positions, ...] = ()
    purged_through_ms: int | None = None

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

    Anchors without ranges and fences pass a nonce, since they cover nothing that could differ.
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
    positions, which `decide` has checked on the same state. After a seek the origins count, and of
    what landed before nothing is recent: it may land again. Rows may be of other rules then, or of
    records that the log has lost, so offsets are not compared until all has been applied again.
    """
    by_commit = replace(
        landed,
        generation=commit.generation,
        owner=commit.owner,
        rules_hash=commit.rules_hash,
        recent=((commit.commit_id, commit.digest),),
        keyed=keyed_after(landed, commit),
        grown=_grown_after(landed, commit),
    )
    if commit.kind is CommitKind.SEEK:
        return replace(
            by_commit,
            segment=commit.segment,
            offsets={**landed.offsets, **commit.origins},
            keyed=landed.keyed and _put_back(landed.keyed, landed.offsets, commit.origins),
            valid_through_ms=None,
            leader_epochs=without(landed.leader_epochs, commit.origins),
        )
    return replace(
        by_commit,
        cluster_id=commit.cluster_id,
        offsets=advanced({**commit.origins, **landed.offsets}, commit.progress),
        recent=(*landed.recent, *by_commit.recent)[-RECENT_COMMITS_MAX:],
        valid_through_ms=_later(landed.valid_through_ms, commit.valid_through_ms),
        leader_epochs={**without(landed.leader_epochs, commit.progress), **commit.leader_epochs},
        purged_through_ms=_later(landed.purged_through_ms, commit.purged_through_ms),
    )


def _later(*times_ms: int | None) -> int | None:
    return max((each for each in times_ms if each is not None), default=None)


def keyed_after(landed: Landed, commit: Committable) -> Keyed | None:
    """Return how a chain changes rows once `commit` has landed: its first row delta decides.

    Its changes begin where the partitions were then, and where later ones are read from.
    """
    keyed = landed.keyed
    if keyed is None and commit.keys:
        keyed = Keyed(
            commit.keys, commit.compares_offsets, _beyond_first(landed.offsets), commit.sequence
        )
    if keyed is None or commit.kind is CommitKind.SEEK:
        return keyed
    begun = {at: each for at, each in commit.origins.items() if at not in landed.offsets}
    keyed = replace(keyed, since={**keyed.since, **_beyond_first(begun)})
    reached = advanced({**commit.origins, **landed.offsets}, commit.progress)
    again = keyed.compares_from
    if again and all(position(reached, at) >= stop for at, stop in again.items()):
        return replace(keyed, compares_offsets=True, compares_from={})
    return keyed


def _grown_after(landed: Landed, commit: Committable) -> tuple[Positions, ...]:
    """Return when topics grew; another owner may have written the same start positions first."""
    begins = any(at not in landed.offsets for at in commit.origins)
    return (*landed.grown, commit.ends) if commit.ends and begins else landed.grown


def outgrown(landed: Landed, commit: Committable) -> bool:
    """Return whether a commit lies behind the ends of a growth that its plan did not know of."""
    return any(
        (end := end_in(ends, at)) is not None and covered.stop > end
        for ends in landed.grown[commit.growths :]
        for at, covered in commit.progress.items()
    )


def _put_back(keyed: Keyed, offsets: Positions, to: Positions) -> Keyed:
    """Return how a chain changes rows once it is put back: what it reads again are changes."""
    since = {at: min(first, to.get(at, first)) for at, first in keyed.since.items()}
    again = dict(keyed.compares_from)
    if again or keyed.compares_offsets:
        again |= {
            at: max(offset, again.get(at, offset)) for at, offset in offsets.items() if at in to
        }
    return replace(keyed, compares_offsets=False, since=since, compares_from=again)


def _beyond_first(positions: Positions) -> Positions:
    """Return the positions of records that are not at the beginning of their partition."""
    return {at: each for at, each in records_only(positions).items() if each}


def target_of(pipeline: str, chain: Chain) -> str:
    """Name the target table of a chain: its own table, or the one that it holds the rejects of."""
    return chain.name.removeprefix(f"{pipeline}/") if chain.is_quarantine else chain.table


def first_ledger(
    chain: Chain,
    claim: Claim,
    cluster_id: str,
    rules_hash: str,
    origins: Positions,
    *,
    keyed: Keyed | None = None,
    grown: tuple[Positions, ...] = (),
) -> Landed:
    """Return the ledger a table is created with: start positions and nothing landed."""
    if keyed is not None:
        keyed = replace(keyed, since=_beyond_first(origins))
    return Landed(
        chain.name,
        cluster_id,
        claim.generation,
        claim.owner,
        0,
        rules_hash,
        dict(origins),
        keyed=keyed,
        grown=grown,
    )


def begun_beside(commit: Committable, chain: str, landed: Landed | None) -> Landed:
    """Return the ledger of a sibling's chain once a commit has landed that begins it as well.

    Positions that it has stay, and so does who landed last; of a chain that begins, nobody did.
    """
    origins = commit.beside[chain]
    if landed is not None:
        return replace(landed, offsets={**origins, **landed.offsets})
    named = Chain(chain, commit.chain.table)
    return first_ledger(named, NOBODY, commit.cluster_id, commit.rules_hash, origins)


def begun_count(chains: Collection[str], ledgers: Iterable[Landed]) -> int:
    """Count the positions in the ledgers of some chains: they are only ever added to."""
    return sum(len(each.offsets) for each in ledgers if each.chain in chains)


def position(positions: Positions, at: TopicPartition) -> Offset:
    """Return the position of a partition, or -1 where none is known."""
    return positions.get(at, Offset(-1))
