"""What a table's metadata say of the commits of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.offsets import Positions


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One own commit as the table's metadata has it, for the audit; `progress` is JSON rows
    `[topic id, partition, topic, start, stop]` of `core.serialization.progress_to_json`.
    """

    commit_id: str
    snapshot: str
    timestamp_ms: int
    kind: str
    progress: Sequence[Sequence[Any]]
    rows: int
    files: int
    valid_through_ms: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The history of a chain from metadata alone, oldest commit first.

    `complete` is false when older commits are no longer listed (trimmed or expired): the chain is
    then checked from the oldest one listed up to the ledger. `paths` lists every live data file
    once per reference, so a path listed twice is a file referenced twice. `began` is the very first
    position of the chain in a partition, where it is still known. `doubled` says in a sentence each
    how metadata tell that rows may be there twice.
    """

    commits: Sequence[CommitRecord]
    complete: bool
    paths: Sequence[str]
    foreign_commits: int
    began: Positions = field(default_factory=dict)
    doubled: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CommitsBehind:
    """The commits of a chain behind a snapshot, oldest first.

    `follows` is false where what came next behind the snapshot may be listed no longer, or where
    the snapshot itself is none that is known: then commits before it may be among them.
    """

    commits: Sequence[CommitRecord]
    follows: bool
