"""May this prepared commit land on what the table has landed? The exactly-once argument.

The rules and their order are protocol.md 4; each order was found by counterexample. Correctness
rests on the compare-and-set over offsets alone (rules 1, 3, 4, 5): the answer is only good for the
very state it was given, and the table must still be in that state when the commit is applied.
Rule 2 makes zombies stop early and keeps them from landing after a newer owner.

Invariants: no I/O, no clock, no randomness; every pair of facts has exactly one decision.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.core.claims import Claim
from penstock.core.commits import Committable, Landed, position


@dataclass(frozen=True, slots=True)
class Commit:
    """The table is exactly where this commit begins: land it on the examined state."""


@dataclass(frozen=True, slots=True)
class AlreadyLanded:
    """All of its ranges are in the table; `ours` is whether with these very files."""

    ours: bool


@dataclass(frozen=True, slots=True)
class Fenced:
    """A newer owner has landed something."""

    by: Claim


@dataclass(frozen=True, slots=True)
class Gap:
    """The table is before this commit's start: what comes in between never landed."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another run landed an overlapping range."""


Decision = Commit | AlreadyLanded | Fenced | Gap | Superseded


def decide(
    prepared: Committable, landed: Landed, claim: Claim, supersedes: Collection[str] = ()
) -> Decision:
    """Decide what to do with a prepared commit, given what the table says it has landed.

    `over` are the lines that ours was made over, as `outranks` takes them.
    """
    # Rule 1: it has landed already.
    digest = landed.digest_of(prepared.commit_id)
    if digest is not None:
        return AlreadyLanded(ours=digest == prepared.digest)
    ranges = prepared.progress
    ahead = [position(landed.offsets, at) - covered.stop for at, covered in ranges.items()]
    if ranges and min(ahead) >= 0:
        return AlreadyLanded(ours=False)
    # Rule 2: a newer owner landed. Before rule 3: an empty commit of theirs moves no offset.
    theirs = landed.claim
    if outranks(theirs, claim, supersedes):
        return Fenced(by=theirs)
    # Rule 3: it continues exactly where the table is. This holds as well when there are no ranges.
    ahead = [position(landed.offsets, at) - covered.start for at, covered in ranges.items()]
    if all(distance == 0 for distance in ahead):
        return Commit()
    # Rule 4 before 5: a gap on any partition outweighs an overlap on another.
    if any(distance < 0 for distance in ahead):
        return Gap()
    return Superseded()


def outranks(theirs: Claim, ours: Claim, supersedes: Collection[str] = ()) -> bool:
    """Return whether a landed claim fences ours: higher, equal with another known owner, or
    of another lineage, with numbers that cannot be compared with ours (docs/design/0225).

    Not where ours was made `over` that line. A ledger may have forgotten its owner (""), never its
    generation (protocol.md 3).
    """
    if theirs.generation < ours.generation:
        return theirs.line not in ("", ours.line, *supersedes)
    return theirs.generation > ours.generation or theirs.owner not in ("", ours.owner)
