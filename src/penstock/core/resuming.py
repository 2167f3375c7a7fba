"""Whether a task of a publication may go on from its ledger: one decision over what was read.

The witnesses are the ledger, the targets, what the coordinator remembered of the id before it was
fenced, and the tail: committed batches of ours behind the last receipt.

Invariants:
- what was read was read after the fence, but for what the coordinator remembered: that counts only
  where the fence gave the term behind it, so that no transaction ended between the two;
- a ledger that went back, or lost positions, is never gone on from without a person's word;
- the tail is asked for only where nothing cheaper decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from penstock.core.claims import Generation
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipts import LedgerRecord, Receipt, counted
from penstock.core.tasks_record import TasksRecord

TAIL_BYTES_MAX = 1 << 30


class Resume(Enum):
    """What a start may do with a task."""

    GO_ON = "go on from the ledger"
    BEGIN = "begin at the start"
    READ_TAIL = "read the tail, and decide again"


class StopReason(StrEnum):
    """Why a start may not use a task's ledger."""

    OTHER_GROUP = "other group"
    FENCED = "fenced"
    LEDGER_DAMAGED = "ledger damaged"
    TARGET_LOST_RECORDS = "target lost records"
    TAIL_TOO_LONG = "tail too long"
    LEDGER_WENT_BACK = "ledger went back"
    LEDGER_GONE = "ledger gone"
    SOURCE = "source"


class Accepted(StrEnum):
    """What a person accepted for this start."""

    LEDGER = "ledger"
    TARGET = "target"
    TAIL = "tail"
    POSITIONS = "positions"
    """Only by naming those to go on from: a seek does."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The start ends here; the message is what was found, `topics` are those that lost records."""

    reason: StopReason
    message: str
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tail:
    """What is behind the last receipt: the bytes of its largest partition, our batches there."""

    bytes_max: int
    ours: int


@dataclass(frozen=True, slots=True)
class FoundOfTask:
    """What was read of one task.

    `remembered` is the coordinator's term before the fence, `fenced` the one that the fence gave
    (None where nothing is fenced), and `following` the one that the coordinator has if the ledger's
    transaction was the last. `ends` are the high watermarks of the targets now.
    `witness` says who else knows of a commit; `source` what is wrong with the source.
    """

    ledger: LedgerRecord | None = None
    claim: TasksRecord | None = None
    stands: Mapping[SourcePartition, Position] = field(default_factory=dict)
    last: Receipt | None = None
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    remembered: tuple[int, int] | None = None
    fenced: tuple[int, int] | None = None
    following: tuple[int, int] | None = None
    tail: Tail | None = None
    witness: str = ""
    source: str = ""


def resume(
    found: FoundOfTask,
    *,
    group: str,
    generation: Generation,
    accepted: AbstractSet[Accepted] = frozenset(),
) -> Resume | Stopped:
    """Decide whether a start of `group` and `generation` goes on, begins, reads more, or stops."""
    newest = max((each.generation for each in (found.ledger, found.claim) if each), default=0)
    if found.ledger and found.ledger.group != group:
        return Stopped(StopReason.OTHER_GROUP, f"it is of the group {found.ledger.group}")
    if newest > generation:
        return Stopped(StopReason.FENCED, f"generation {newest} is above {generation}")
    if found.ledger is None:
        decision = _without_ledger(found, accepted)
    else:
        decision = _with_ledger(found, found.ledger, accepted)
    if found.source and decision in {Resume.GO_ON, Resume.BEGIN}:
        return Stopped(StopReason.SOURCE, found.source)
    return decision


def _with_ledger(
    found: FoundOfTask, ledger: LedgerRecord, accepted: AbstractSet[Accepted]
) -> Resume | Stopped:
    damaged = counted(found.stands) != ledger.positions
    if damaged and Accepted.POSITIONS not in accepted:
        said = f"{len(found.stands)} positions are not the {ledger.positions.count} it counts"
        return Stopped(StopReason.LEDGER_DAMAGED, said)
    lost = lost_records(found.last, ledger.accepted_ends, found.ends)
    if lost is not None and Accepted.TARGET not in accepted:
        return lost
    if _followed(found):
        return Resume.GO_ON
    if found.tail is None:
        return Resume.READ_TAIL
    if found.tail.ours and Accepted.LEDGER not in accepted:
        said = f"{found.tail.ours} batches of ours are behind its last receipt"
        return Stopped(StopReason.LEDGER_WENT_BACK, said)
    return _too_long(found.tail, accepted) or Resume.GO_ON


def _followed(found: FoundOfTask) -> bool:
    """Return whether no transaction ended after the ledger's, up to the fence."""
    before = found.remembered
    return (
        before is not None
        and before == found.following
        and found.fenced in {None, (before[0], before[1] + 1)}
    )


def _without_ledger(found: FoundOfTask, accepted: AbstractSet[Accepted]) -> Resume | Stopped:
    """Positions alone are Connect's, or their ledger is gone: a person says which."""
    if Accepted.LEDGER in accepted:
        return Resume.BEGIN
    if found.stands:
        return Stopped(StopReason.LEDGER_GONE, f"{len(found.stands)} positions are there")
    witness = found.witness
    if found.claim is not None:  # one that has not begun was announced where nothing was known
        witness = "the claim of a start that began" if found.claim.begun else ""
    if witness:
        return Stopped(StopReason.LEDGER_GONE, f"a commit is known from {witness}")
    if _is_new(found):
        return Resume.BEGIN
    if found.tail is None:
        return Resume.READ_TAIL
    if found.tail.ours:
        said = f"{found.tail.ours} batches in the targets are of its transactional id"
        return Stopped(StopReason.LEDGER_GONE, said)
    return _too_long(found.tail, accepted) or Resume.BEGIN


def _is_new(found: FoundOfTask) -> bool:
    """Return whether nobody had the id: a term that was taken erases that one had ended."""
    return found.remembered is None and (found.fenced is None or not found.fenced[1])


def _too_long(tail: Tail, accepted: AbstractSet[Accepted]) -> Stopped | None:
    if tail.bytes_max <= TAIL_BYTES_MAX or Accepted.TAIL in accepted:
        return None
    said = f"{tail.bytes_max} bytes in one partition, {TAIL_BYTES_MAX} are read"
    return Stopped(StopReason.TAIL_TOO_LONG, said)


def lost_records(
    last: Receipt | None,
    accepted_ends: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Stopped | None:
    """Return the stop of a target that lost records of the last receipt, if it did."""
    lost = lost_ends(last, accepted_ends, ends)
    if not lost:
        return None
    named = ", ".join(f"{at.topic}-{at.partition}" for at in sorted(lost))
    topics = frozenset(at.topic for at in lost)
    return Stopped(StopReason.TARGET_LOST_RECORDS, f"receipts say more of {named}", topics)


def lost_ends(
    last: Receipt | None,
    accepted_ends: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return where the partitions end that lost records of the last receipt.

    One that is not there ends at 0; what is still as a person accepted it is left out.
    """
    targets = last.targets if last else {}
    return {
        at: ends.get(at, 0)
        for at, batches in targets.items()
        if ends.get(at, 0) < accepted_ends.get(at, batches.last + 1)
    }
