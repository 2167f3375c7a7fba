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

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import SourcePartition
from penstock.ports.producers import PackedBatch, Packer
from penstock.ports.sources import MESSAGES, Rows, Stretch
from penstock.publishing.messages import Encoding
from penstock.publishing.rejects import (
    RowsRead,
    first_of,
    misfits_of,
    no_message,
    poison,
    reason_of,
    reject_messages,
)
from penstock.publishing.topic_source import place_of
from penstock.rows.encode.encoder import WHERE, Misfit, cause_of, encode
from penstock.rows.encode.rules import MessageRules

NO_MESSAGES = pa.RecordBatch.from_pylist([], MESSAGES)


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

    `reasons` and `codes` are those of the rejects.
    """

    read: RowsRead
    messages: PackedMessages | None
    rejects: PackedMessages | None
    filtered: Counter[str]
    reasons: Counter[str]
    codes: Counter[str]


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows that were read at once: their messages with the row of each, and what becomes of others.

    Misfits are in the order of rows, those that were no rows come behind.
    """

    read: RowsRead
    messages: pa.RecordBatch
    places: npt.NDArray[np.int64]
    filtered: Counter[str]
    misfits: Sequence[Misfit]
    _rows: Rows
    _rules: MessageRules

    def no_message(self) -> DecisionNeededError:
        """Return the error for the first misfit, where there is no topic for rejects (P840)."""
        first, cause = first_of(self.read, self.misfits), ""
        if first.row < self._rows.rows.num_rows:
            cause = cause_of(self._rows.rows.slice(first.row, 1), first, self._rules)
        return no_message(self.read, self.misfits, cause)


def judged(of: SourcePartition, rows: Rows, rules: MessageRules, *, now_ms: int) -> Judged:
    """Return what becomes of each of some rows. Raises what `encode` raises."""
    read = RowsRead(of, rows.reached, rows.count, rows.offsets)
    filtered, bad = Counter[str](rows.left_out), misfits_of(rows)
    if not rows.rows.num_rows:
        return Judged(read, NO_MESSAGES, np.zeros(0, np.int64), filtered, bad, rows, rules)
    found = encode(rows.rows, rules, now_ms=now_ms)
    if found.filtered:
        filtered[WHERE] += found.filtered
    misfits = [*found.misfits, *bad]
    return Judged(read, found.messages, found.places, filtered, misfits, rows, rules)


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
        found = judged(stretch.of, rows, self.encoding.rules, now_ms=now_ms)
        if found.misfits and not self.encoding.rejects:
            raise found.no_message()
        messages = None
        if len(found.messages):
            kept = place_of(stretch.of).partition if self.encoding.rules.keeps_partition else None
            messages = self._packed(found.messages, found.places, self.encoding.targets, turn, kept)
        rejects = self._rejects(found.read, found.misfits, rows.records, turn, now_ms)
        return _with_counts(found.read, messages, rejects, found.filtered, found.misfits)

    def pack_poison(self, stretch: Stretch, *, turn: int, now_ms: int) -> PackedRows:
        """Pack the reject of a row that kills the process that reads it."""
        read, misfits = RowsRead(stretch.of, stretch.stop, 1), [poison()]
        rejects = self._rejects(read, misfits, None, turn, now_ms)
        return _with_counts(read, None, rejects, Counter(), misfits)

    def _rejects(
        self,
        read: RowsRead,
        misfits: Sequence[Misfit],
        records: pa.RecordBatch | None,
        turn: int,
        now_ms: int,
    ) -> PackedMessages | None:
        if not misfits:
            return None
        messages = reject_messages(
            read, misfits, records, transactional_id=self.transactional_id, now_ms=now_ms
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


def _with_counts(
    read: RowsRead,
    messages: PackedMessages | None,
    rejects: PackedMessages | None,
    filtered: Counter[str],
    misfits: Sequence[Misfit],
) -> PackedRows:
    reasons = Counter(reason_of(each) for each in misfits)
    codes = Counter(each.code for each in misfits)
    return PackedRows(read, messages, rejects, filtered, reasons, codes)
