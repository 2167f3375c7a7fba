"""Which snapshots of a table expire, and why each of the others stays: a pure plan.

Invariants (docs/design/0289, 0308):
- what a branch or a tag points to stays, whatever its age; so do the newest of each branch;
- what a ledger is judged by stays: all from the head of its branch down to the snapshot that
  vouches for it, or the whole branch where none does;
- a snapshot of the last hour stays: a rewrite by others validates from the one it began at.

Source: Apache Iceberg table specification, "Snapshot Retention Policy".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

YOUNG_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that the metadata has, and the one it followed; `made_ms` since the epoch."""

    id: str
    parent: str | None
    made_ms: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: `least` of its newest snapshots stay, and those of the last `age_ms`.

    `evidence` are snapshots by which its ledgers are judged.
    """

    name: str
    head: str
    least: int
    age_ms: int
    evidence: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A snapshot that stays, and the reason in words."""

    id: str
    made_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Expiry:
    """What expires, oldest first, and what stays, newest first.

    `unwanted` is why nothing may expire at all, where that is so.
    """

    expired: tuple[Snapshot, ...] = ()
    kept: tuple[KeptSnapshot, ...] = ()
    unwanted: str = ""


def plan_expiry(
    snapshots: Sequence[Snapshot],
    branches: Sequence[Branch],
    tags: Mapping[str, str],
    *,
    age_ms: int,
    now_ms: int,
) -> Expiry:
    """Plan what expires. `tags` are snapshots by tag; those of no branch stay for `age_ms`."""
    by_id = {each.id: each for each in snapshots}
    lines = {branch.name: [*_line(branch.head, by_id)] for branch in branches}
    reasons: dict[str, str] = {}
    for branch in branches:
        for at, reason in _kept_by(branch, lines[branch.name], now_ms):
            reasons.setdefault(at, reason)
    for tag, at in sorted(tags.items()):
        reasons.setdefault(at, f"tag {tag}")
    on_branches = {each.id for line in lines.values() for each in line}
    for each in snapshots:
        if now_ms - each.made_ms < YOUNG_MS:
            reasons.setdefault(each.id, "made within the last hour")
        elif each.id not in on_branches and now_ms - each.made_ms < age_ms:
            reasons.setdefault(each.id, "on no branch, and too young")
    ordered = sorted(snapshots, key=lambda each: each.made_ms)
    return Expiry(
        tuple(each for each in ordered if each.id not in reasons),
        tuple(
            KeptSnapshot(each.id, each.made_ms, reasons[each.id])
            for each in reversed(ordered)
            if each.id in reasons
        ),
    )


def _line(head: str, by_id: Mapping[str, Snapshot]) -> Iterator[Snapshot]:
    """Walk from a head by parents, as far as snapshots are there."""
    at: str | None = head
    while at is not None and at in by_id:
        yield by_id[at]
        at = by_id[at].parent


def _kept_by(branch: Branch, line: Sequence[Snapshot], now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield what a branch keeps, and why."""
    yield branch.head, f"the head of {branch.name}"
    for number, each in enumerate(line):
        if number < branch.least:
            yield each.id, f"among the newest {branch.least} of {branch.name}"
        elif now_ms - each.made_ms < branch.age_ms:
            yield each.id, f"on {branch.name}, and too young"
        elif each.id in branch.evidence:
            yield each.id, f"the ledgers of {branch.name} are judged by it"
