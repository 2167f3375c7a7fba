"""What a worker does with rows: encode them, pack them by partition, and send all under a term.

Invariants:
- all rows are read, encoded and packed before the first byte is sent: a row that does not fit stops
  the publication with nothing open;
- rows with one key keep their order: they are in one partition, in the order of the source;
- rows without a key go batch by batch into one partition after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.ports.producers import BatchTooLarge, PackedBatch, RecordsRefused, Refused
from penstock.ports.sources import RowReader, Rows, Stretch
from penstock.publishing.messages import Delivered, Encoding, SendJob, SendResult
from penstock.publishing.worker import SendTools
from penstock.rows.encode.encoder import WHERE, Misfit, encode


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the messages of a batch come from, and which partition each has."""

    of: SourcePartition
    reached: Position
    rows: int
    places: npt.NDArray[np.int64]
    partitions: npt.NDArray[np.int32]

    def said_of(self, row: int) -> str:
        """Say where a row is."""
        return f"{self.of}: row {row + 1} of the {self.rows} before {self.reached}"


@dataclass(slots=True)
class RowWorker:
    """Does one job that encodes; used once."""

    job: SendJob
    encoding: Encoding
    reader: RowReader
    tools: SendTools
    _packed: dict[int, list[PackedBatch]] = field(default_factory=dict)
    _counts: Counter[int] = field(default_factory=Counter)
    _places: list[_Place] = field(default_factory=list)

    def work(self) -> SendResult:
        """Read, encode, pack and send.

        Raises DecisionNeededError for a row that is no message (P840), or that its topic does not
        take (P841), what `encode` raises, and what the reader and the sender raise.
        """
        deadline = self.tools.clock.monotonic() + self.job.timeout_seconds
        delivered = [self._read(each, deadline) for each in self.encoding.stretches]
        targets = {at.partition: at for at in self.encoding.targets}
        batches = {targets[number]: self._packed[number] for number in sorted(self._packed)}
        found = self.tools.sender.send(self.job.transactional_id, self.job.term, batches)
        if isinstance(found, RecordsRefused):
            raise self._not_taken(found)
        if not isinstance(found, Mapping):
            limit = found.bytes_max if isinstance(found, BatchTooLarge) else None
            refused = Refused(found.error, found.reason)
            return SendResult(self.job.number, refused=refused, batch_bytes_max=limit)
        packed = {targets[number]: count for number, count in self._counts.items()}
        return SendResult(self.job.number, tuple(delivered), packed, found)

    def _read(self, stretch: Stretch, deadline: float) -> Delivered:
        reached, rows, filtered = stretch.start, 0, 0
        for each in self.reader.read(stretch, deadline=deadline):
            reached, rows = each.reached, rows + each.rows.num_rows
            filtered += self._pack(stretch.of, each) if each.rows.num_rows else 0
        return Delivered(stretch.of, reached, rows, {WHERE: filtered} if filtered else {})

    def _pack(self, of: SourcePartition, read: Rows) -> int:
        """Encode and pack some rows; return how many are filtered."""
        found = encode(read.rows, self.encoding.rules, now_ms=self.tools.clock.now_ms())
        partitions = self._partitions(found.messages.column("key"))
        place = _Place(of, read.reached, len(read.rows), found.places, partitions.to_numpy())
        if found.misfits:
            raise _no_message(place, found.misfits)
        if len(found.messages):
            self._places.append(place)
            self._counts.update(place.partitions.tolist())
            for number, batches in self.tools.packer.pack(found.messages, partitions).items():
                self._packed.setdefault(number, []).extend(batches)
        return found.filtered

    def _partitions(self, keys: pa.BinaryArray) -> pa.Int32Array:
        """Return the partition of each key; the epoch of a term differs in each transaction."""
        count = len(self.encoding.targets)
        without = (self.job.term.epoch + len(self._places)) % count
        return self.tools.packer.partitions_of(keys, count).fill_null(without)

    def _not_taken(self, refused: RecordsRefused) -> DecisionNeededError:
        place, row = self._find(refused.at, refused.records[0])
        return DecisionNeededError(
            f"the topic {refused.at.topic} does not take the message of a row:"
            f" {place.said_of(row)}: {refused.reason}",
            code="P841",
            hint="let the topic take it, or leave such rows out with  where;  then:"
            "  penstock publish",
        )

    def _find(self, at: TopicPartition, number: int) -> tuple[_Place, int]:
        """Return the place and the row of a partition's record, numbered from 0."""
        for place in self._places:
            own = np.flatnonzero(place.partitions == at.partition)
            if number < len(own):
                return place, int(place.places[own[number]])
            number -= len(own)
        raise AssertionError("a partition's records are those that were packed for it")


def _no_message(place: _Place, misfits: tuple[Misfit, ...]) -> DecisionNeededError:
    first, more = misfits[0], len(misfits) - 1
    others = f" ({more} more in the same batch)" if more else ""
    return DecisionNeededError(
        f"a row is no message: {place.said_of(first.row)}: {first.column}: {first.reason}{others}",
        code="P840",
        hint="correct it in the table, or leave such rows out with  where;  then:"
        "  penstock publish",
    )
