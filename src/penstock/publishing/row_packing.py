"""Rows become packed messages, each for the partition of its key; nothing here waits or sends.

Invariants:
- rows with one key keep their order: they are in one partition, in the order of the source;
- where messages keep the partition of their record, they are in it, whatever their key is;
- rows without a key go, those that were read at once, into one partition, the next ones into
  another;
- what is packed depends on the rows, the rules and `turn` alone, so that threads may do it in any
  order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.ports.producers import PackedBatch, Packer
from penstock.ports.sources import Rows, Stretch
from penstock.publishing.messages import Encoding
from penstock.publishing.rejects import (
    NO_MESSAGE,
    POISON,
    RowsRead,
    first_of,
    misfits_of,
    no_message,
    poison,
    reject_messages,
)
from penstock.publishing.topic_source import place_of
from penstock.rows.encode.encoder import WHERE, Misfit, cause_of, encode


@dataclass(frozen=True, slots=True)
class PackedMessages:
    """Messages of one topic: their batches, the row of each, and which partition it has."""

    targets: Sequence[TopicPartition]
    batches: Mapping[TopicPartition, Sequence[PackedBatch]]
    rows: npt.NDArray[np.int64]
    partitions: npt.NDArray[np.int32]

    def counts(self) -> Counter[TopicPartition]:
        """Return how many messages are for each partition, whatever was packed of them."""
        found = np.bincount(self.partitions).tolist()
        return Counter(
            {at: found[at.partition] for at in self.targets if at.partition < len(found)}
        )


@dataclass(frozen=True, slots=True)
class PackedRows:
    """What became of rows that were read at once: messages and rejects, packed, and the counts.

    `reasons` are those of the rejects, and `code` is theirs.
    """

    read: RowsRead
    messages: PackedMessages | None
    rejects: PackedMessages | None
    filtered: Counter[str]
    reasons: Counter[str]
    code: str = NO_MESSAGE


@dataclass(frozen=True, slots=True)
class RowPacking:
    """How the rows of a job are packed."""

    encoding: Encoding
    packer: Packer
    transactional_id: str

    def pack(self, stretch: Stretch, rows: Rows, *, turn: int, now_ms: int) -> PackedRows:
        """Encode and pack rows; `turn` says which partition those without a key have.

        Raises DecisionNeededError for a row that is no message, and has no topic to go to (P840),
        and what `encode` raises.
        """
        read = RowsRead(stretch.of, rows.reached, rows.count, rows.offsets)
        filtered = Counter[str](rows.left_out)
        messages, rejects, misfits = None, None, misfits_of(rows)
        if rows.rows.num_rows:
            found = encode(rows.rows, self.encoding.rules, now_ms=now_ms)
            if found.filtered:
                filtered[WHERE] += found.filtered
            if len(found.messages):
                kept = (
                    place_of(stretch.of).partition if self.encoding.rules.keeps_partition else None
                )
                targets = self.encoding.targets
                messages = self._packed(found.messages, found.places, targets, turn, kept)
            misfits = [*found.misfits, *misfits]
        if misfits:
            if not self.encoding.rejects:
                raise no_message(read, misfits, self._cause(rows, first_of(read, misfits)))
            rejects = self._rejects(read, NO_MESSAGE, misfits, turn, now_ms)
        reasons = Counter(f"{each.column}: {each.reason}" for each in misfits)
        return PackedRows(read, messages, rejects, filtered, reasons)

    def pack_poison(self, stretch: Stretch, *, turn: int, now_ms: int) -> PackedRows:
        """Pack the reject of a row that kills the process that reads it."""
        read, misfits = RowsRead(stretch.of, stretch.stop, 1), [poison()]
        rejects = self._rejects(read, POISON, misfits, turn, now_ms)
        reasons = Counter(f"{each.column}: {each.reason}" for each in misfits)
        return PackedRows(read, None, rejects, Counter(), reasons, POISON)

    def _cause(self, rows: Rows, misfit: Misfit) -> str:
        """Say why SQL has no answer for a row, if it was asked and that is why."""
        if misfit.row >= rows.rows.num_rows:
            return ""
        return cause_of(rows.rows.slice(misfit.row, 1), misfit, self.encoding.rules)

    def _rejects(
        self, read: RowsRead, code: str, misfits: Sequence[Misfit], turn: int, now_ms: int
    ) -> PackedMessages:
        messages = reject_messages(
            read, code, misfits, transactional_id=self.transactional_id, now_ms=now_ms
        )
        rows = np.array([each.row for each in misfits], np.int64)
        return self._packed(messages, rows, self.encoding.rejects, turn)

    def _packed(
        self,
        messages: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
        targets: Sequence[TopicPartition],
        turn: int,
        kept: int | None = None,
    ) -> PackedMessages:
        """Pack messages for the partitions of a topic: each for that of its key, or for the `kept`
        one.
        """
        numbered = {at.partition: at for at in targets}
        if kept is None:
            keyed = self.packer.partitions_of(messages.column("key"), len(targets))
            partitions = keyed.fill_null(turn % len(targets))
        else:
            partitions = pa.array(np.full(len(messages), kept, np.int32))
        batches = {
            numbered[number]: own for number, own in self.packer.pack(messages, partitions).items()
        }
        return PackedMessages(targets, batches, rows, partitions.to_numpy())
