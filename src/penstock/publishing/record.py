"""What an offsets topic says of one publication, and what a transaction writes there.

Invariants:
- what is written is read back as an equal record;
- a position, the ledger that counts it and the receipt that moved it are entries of one list:
  they are written in one transaction, or none is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

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
    Receipt,
    TasksRecord,
    counted,
    ledger_key,
    ledger_record_from_json,
    ledger_record_to_json,
    receipt_from_parts,
    receipt_key,
    receipt_to_parts,
    tasks_key,
    tasks_record_from_json,
    tasks_record_to_json,
)
from penstock.ports.producers import Entry, Ledger, Look

TASK = 0
"""A publication has one task: all workers write under one term."""


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """Ledger, claim, positions and last receipt of a publication, as its offsets topic has them.

    `keys` are the keys of positions as they are in the topic: Connect finds a position by the bytes
    of its key.
    """

    ledger: LedgerRecord | None = None
    claim: TasksRecord | None = None
    stands: Mapping[SourcePartition, Position] = field(default_factory=dict)
    keys: Mapping[SourcePartition, OffsetKey] = field(default_factory=dict)
    last: Receipt | None = None
    entries: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """All that the topic holds, from which older receipts are read."""
    undecided: bool = False
    """Whether a transaction has entries of the publication, and has not ended."""

    @property
    def is_whole(self) -> bool:
        """Return whether there is a ledger, and the positions are those that it counts."""
        return self.ledger is not None and counted(self.stands) == self.ledger.positions


def read_record(name: str, look: Look) -> PublicationRecord:
    """Read what a topic says of a publication.

    Raises InvalidError for what cannot be read (P190, P191, P291).
    """
    entries = look.entries
    stands = stands_of(name, entries)
    ledger, claim = entries.get(ledger_key(name, TASK).raw), entries.get(tasks_key(name).raw)
    read = None if ledger is None else ledger_record_from_json(ledger)
    return PublicationRecord(
        ledger=read,
        claim=None if claim is None else tasks_record_from_json(claim),
        stands={key.partition: position for key, position in stands.items()},
        keys={key.partition: key for key in stands},
        last=_receipt(name, read.epoch, entries) if read and read.epoch else None,
        entries=entries,
        undecided=any(is_key_of(name, key) for key in look.undecided),
    )


def standing_record(name: str, ledger: Ledger) -> PublicationRecord:
    """Read what stands in an offsets topic, which may not be there. Raises as `look`."""
    return read_record(name, ledger.look()) if ledger.exists() else PublicationRecord()


def entries_of(
    name: str,
    ledger: LedgerRecord,
    *,
    claim: TasksRecord | None = None,
    moved: Mapping[SourcePartition, Position],
    gone: Collection[SourcePartition] = (),
    keys: Mapping[SourcePartition, OffsetKey],
    receipt: Receipt | None = None,
) -> list[Entry]:
    """Return what one transaction writes into the offsets topic.

    `gone` are source partitions that have no position any more.
    """
    entries: list[Entry] = [
        (_key(name, at, keys).raw, position.encode()) for at, position in sorted(moved.items())
    ]
    entries += [(_key(name, at, keys).raw, None) for at in sorted(gone)]
    entries.append((ledger_key(name, TASK).raw, ledger_record_to_json(ledger)))
    if claim is not None:
        entries.append((tasks_key(name).raw, tasks_record_to_json(claim)))
    if receipt is not None:
        entries += [
            (receipt_key(name, TASK, receipt.epoch, part).raw, value)
            for part, value in enumerate(receipt_to_parts(receipt))
        ]
    return entries


def receipts_of(name: str, entries: Mapping[bytes, bytes], ledger: LedgerRecord) -> list[Receipt]:
    """Read the receipts that lead to a ledger, oldest first, as far back as they are there.

    Raises InvalidError (P190, P191).
    """
    found: list[Receipt] = []
    for epoch in range(ledger.epoch, 0, -1):
        receipt = _receipt(name, epoch, entries)
        if receipt is None or receipt.epoch != epoch:
            break
        found.append(receipt)
    return found[::-1]


def _receipt(name: str, epoch: int, entries: Mapping[bytes, bytes]) -> Receipt | None:
    """Read the receipt in the slot of an epoch, which may be an older epoch's."""
    parts: list[bytes] = []
    while (value := entries.get(receipt_key(name, TASK, epoch, len(parts)).raw)) is not None:
        parts.append(value)
    return receipt_from_parts(parts) if parts else None


def _key(name: str, at: SourcePartition, keys: Mapping[SourcePartition, OffsetKey]) -> OffsetKey:
    return keys.get(at) or key_of(name, values_of(at))
