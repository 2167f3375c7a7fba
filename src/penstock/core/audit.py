"""Check a chain by metadata alone: gapless, without overlap, level with its ledger.

Source: protocol.md 1, "Audit form of I1-I3": per table and partition the landed ranges form one
gapless, non-overlapping chain, and no data file is referenced twice. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock.core.commits import CommitKind, Landed
from penstock.core.offsets import OffsetRange, Progress, TopicPartition, gaps_and_overlaps


class _HasKind(Protocol):
    @property
    def kind(self) -> str: ...


Kinded = TypeVar("Kinded", bound=_HasKind)


@dataclass(frozen=True, slots=True)
class Break:
    """One place where a chain is broken, as a sentence."""

    kind: str
    where: str
    message: str


def chain_breaks(landed: Landed, commits: Sequence[Progress]) -> list[Break]:
    """Check the ranges of commits, oldest first, against each other and the ledger."""
    found: list[Break] = []
    by_partition: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for progress in commits:
        for at, covered in progress.items():
            by_partition[at].append(covered)
    for at, ranges in sorted(by_partition.items()):
        for kind, where in gaps_and_overlaps(ranges):
            verb = "is in no commit" if kind == "gap" else "is in two commits"
            found.append(Break(kind, str(at), f"{at}{where} {verb}"))
        last, ledger = ranges[-1].stop, landed.offsets.get(at)
        if ledger != last:
            message = f"{at}: the newest commit ends at {last}, the ledger says {ledger}"
            found.append(Break("ledger", str(at), message))
    return found


def newest_segment(commits: Sequence[Kinded]) -> Sequence[Kinded]:
    """Return the commits since the newest seek, which begins a new chain from where it put back to.

    What landed before it was proven before it, or is what the seek repaired.
    """
    seeks = [number for number, each in enumerate(commits) if each.kind == CommitKind.SEEK]
    return commits[seeks[-1] :] if seeks else commits


def doubled_files(paths: Iterable[str]) -> list[Break]:
    """Find data files that the table references more than once."""
    return [Break("file", each, f"{each} is referenced {n} times") for each, n in _doubled(paths)]


def doubled_rows(table: str, told: Iterable[str]) -> list[Break]:
    """Return how metadata tell that rows of a table may be there twice, whoever did it."""
    what = "rows may be there twice, or be back (RESTORE to the version before takes that back)"
    return [Break("rows", table, f"{each}: {what}") for each in told]


def doubled_commits(commit_ids: Iterable[str]) -> list[Break]:
    """Find commits that landed more than once."""
    found = _doubled(commit_ids)
    return [Break("commit", each, f"commit {each} landed {n} times") for each, n in found]


def _doubled(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, count) for name, count in sorted(Counter(names).items()) if count > 1]
