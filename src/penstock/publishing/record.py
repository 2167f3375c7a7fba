"""What an offsets topic says of one publication, and what a transaction writes there.

Invariants:
- what is written is read back as an equal record;
- a position, the ledger that counts it and the receipt that moved it are entries of one list:
  they are written in one transaction, or none is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.core.positions import (
    OffsetKey,
    Position,
    SourcePartition,
    is_key_of,
    key_of,
    stands_of,
    values_of,
)
from penstock.core.receipts import (
    LedgerRecord,
    PublishedTotals,
    Receipt,
    counted,
    ledger_key,
    ledger_record_from_json,
    ledger_record_to_json,
    receipt_from_parts,
    receipt_key,
    receipt_to_parts,
)
from penstock.core.tasks_record import (
    TasksRecord,
    tasks_key,
    tasks_record_from_json,
    tasks_record_to_json,
)
from penstock.ports.producers import Entry, Ledger, Look

NOTHING: Mapping[Any, Any] = {}

FIRST = 0
"""The task whose id is the lock; the only one where all workers write under one term."""
Found = TypeVar("Found")


def task_of(at: SourcePartition, tasks: int) -> int:
    """Return the task of a source partition: few change theirs when the number of tasks does."""
    return max(range(tasks), key=lambda task: hashlib.sha256(f"{task} {at}".encode()).digest())


def share_of(
    of: Mapping[SourcePartition, Found], task: int, tasks: int
) -> dict[SourcePartition, Found]:
    """Return what is of the source partitions of one task."""
    return {at: each for at, each in of.items() if task_of(at, tasks) == task}


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """Ledgers, claim and positions of a publication, as its offsets topic has them.

    `ledgers` are those of its tasks, from 0 on; all are written where their number changes.
    `keys` are the keys of positions as they are in the topic: Connect finds a position by the bytes
    of its key.
    """

    ledgers: tuple[LedgerRecord, ...] = ()
    claim: TasksRecord | None = None
    stands: Mapping[SourcePartition, Position] = field(default_factory=dict)
    keys: Mapping[SourcePartition, OffsetKey] = field(default_factory=dict)
    lasts: tuple[Receipt | None, ...] = ()
    entries: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """All that the topic holds, from which older receipts are read."""
    undecided: bool = False
    """Whether a transaction has entries of the publication, and has not ended."""

    @property
    def ledger(self) -> LedgerRecord | None:
        """Return the ledger of the first task, if there is any."""
        return self.ledgers[FIRST] if self.ledgers else None

    @property
    def is_whole(self) -> bool:
        """Return whether there are ledgers, and the positions are those that they count."""
        return bool(self.ledgers) and all(
            counted(self.stands_of(task)) == ledger.positions
            for task, ledger in enumerate(self.ledgers)
        )

    def stands_of(self, task: int) -> Mapping[SourcePartition, Position]:
        """Return the positions of a task."""
        return share_of(self.stands, task, max(len(self.ledgers), 1))


def read_record(name: str, look: Look) -> PublicationRecord:
    """Read what a topic says of a publication.

    Raises InvalidError for what cannot be read (P190, P191, P291).
    """
    entries = look.entries
    stands = stands_of(name, entries)
    claim, ledgers = entries.get(tasks_key(name).raw), list[LedgerRecord]()
    while (ledger := entries.get(ledger_key(name, len(ledgers)).raw)) is not None:
        ledgers.append(ledger_record_from_json(ledger))
    return PublicationRecord(
        ledgers=tuple(ledgers),
        claim=None if claim is None else tasks_record_from_json(claim),
        stands={key.partition: position for key, position in stands.items()},
        keys={key.partition: key for key in stands},
        lasts=tuple(
            _receipt(name, task, each.epoch, entries) if each.epoch else None
            for task, each in enumerate(ledgers)
        ),
        entries=entries,
        undecided=any(is_key_of(name, key) for key in look.undecided),
    )


def standing_record(name: str, ledger: Ledger) -> PublicationRecord:
    """Read what stands in an offsets topic, which may not be there. Raises as `look`."""
    return read_record(name, ledger.look()) if ledger.exists() else PublicationRecord()


def entries_of(
    name: str,
    ledgers: Mapping[int, LedgerRecord | None],
    *,
    claim: TasksRecord | None = None,
    moved: Mapping[SourcePartition, Position] = NOTHING,
    gone: Collection[SourcePartition] = (),
    keys: Mapping[SourcePartition, OffsetKey] = NOTHING,
    receipt: tuple[int, Receipt] | None = None,
) -> list[Entry]:
    """Return what one transaction writes into the offsets topic.

    `ledgers` are by task, None for one that is no more; `gone` are source partitions that have no
    position any more; `receipt` is that of a task.
    """
    entries: list[Entry] = [
        (_key(name, at, keys).raw, position.encode()) for at, position in sorted(moved.items())
    ]
    entries += [(_key(name, at, keys).raw, None) for at in sorted(gone)]
    entries += [
        (ledger_key(name, task).raw, None if each is None else ledger_record_to_json(each))
        for task, each in sorted(ledgers.items())
    ]
    if claim is not None:
        entries.append((tasks_key(name).raw, tasks_record_to_json(claim)))
    if receipt is not None:
        task, own = receipt
        entries += [
            (receipt_key(name, task, own.epoch, part).raw, value)
            for part, value in enumerate(receipt_to_parts(own))
        ]
    return entries


def receipts_of(name: str, record: PublicationRecord, task: int = FIRST) -> list[Receipt]:
    """Read the receipts that lead to a task's ledger, oldest first, as far back as they are there.

    Raises InvalidError (P190, P191).
    """
    found: list[Receipt] = []
    for epoch in range(record.ledgers[task].epoch, 0, -1):
        receipt = _receipt(name, task, epoch, record.entries)
        if receipt is None or receipt.epoch != epoch:
            break
        found.append(receipt)
    return found[::-1]


def totals_of(name: str, record: PublicationRecord) -> tuple[PublishedTotals, bool]:
    """Return what was published since the publication began, and whether that is all of it.

    A ledger counts since its segment began, that is, since a seek or an accepted gap; of what was
    before it, the receipts that are still there tell. Raises InvalidError (P190, P191).
    """
    totals, is_all = PublishedTotals(), True
    for task, ledger in enumerate(record.ledgers):
        receipts = receipts_of(name, record, task)
        totals = totals.plus(ledger.totals)
        for each in receipts:
            if each.segment < ledger.segment:
                totals = totals.plus(each.totals)
        begun = receipts[0].epoch == 1 if receipts else ledger.epoch == 0
        is_all = is_all and (begun or ledger.segment == 0)
    return totals, is_all


def _receipt(name: str, task: int, epoch: int, entries: Mapping[bytes, bytes]) -> Receipt | None:
    """Read the receipt in the slot of an epoch, which may be an older epoch's."""
    parts: list[bytes] = []
    while (value := entries.get(receipt_key(name, task, epoch, len(parts)).raw)) is not None:
        parts.append(value)
    return receipt_from_parts(parts) if parts else None


def _key(name: str, at: SourcePartition, keys: Mapping[SourcePartition, OffsetKey]) -> OffsetKey:
    return keys.get(at) or key_of(name, values_of(at))
