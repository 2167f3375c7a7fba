"""Batches of the wire are gathered until they make one batch of the port.

Invariants:
- no batch given has more than `BATCH_RECORDS` rows, and gathered are at most `BATCH_BYTES` and one
  batch of the log, or a piece of one that unpacks to more than `HELD_BYTES_MAX`;
- offsets ascend, and lie in the range that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.columns import BATCH_BYTES, BATCH_RECORDS, PLAIN, WITH_HEADERS
from penstock.connectors.kafka.native.buffer import Room
from penstock.connectors.kafka.native.connection import UnfitError
from penstock.connectors.kafka.native.record_batches import LOG_APPEND_TIME, RecordBatch
from penstock.connectors.kafka.native.record_columns import (
    PAD,
    Ints,
    Records,
    is_ascending,
    times_of,
)
from penstock.core.offsets import Offset, OffsetRange
from penstock.ports.log import Fetched

HELD_BYTES_MAX = 32 << 20
"""A batch of the log that unpacks to more is given in pieces."""
NO_EPOCHS: Ints = np.empty(0, np.int64)


@dataclass(slots=True)
class GatheredBatches:
    """Batches with their records unpacked, in order."""

    held_bytes_max: int = HELD_BYTES_MAX
    _batches: list[RecordBatch] = field(default_factory=list)
    _stops: list[int] = field(default_factory=list)
    _room: Room = field(default_factory=Room)
    _records: int = 0
    _behind: int = 0

    def add(self, batch: RecordBatch, fetched: bytes) -> bool:
        """Take a batch that follows the ones gathered. Raises UnfitError.

        False when it unpacks to more than is held: then it is to be `unrolled`.
        """
        before = self._room.size_bytes
        if not batch.unpack(fetched, self._room, self.held_bytes_max):
            self._room.cut(before)
            return False
        if batch.count <= 0:  # compaction took all of its records
            if self._room.size_bytes > before:
                raise UnfitError("records do not fill their batch")
            return True
        self._note(batch)
        return True

    def unrolled(
        self,
        batch: RecordBatch,
        fetched: bytes,
        covered: OffsetRange,
        epoch: int | None,
        *,
        headers: bool,
    ) -> Iterator[Fetched]:
        """Yield what is gathered, then the records of a batch that lie in a range, in pieces.

        The last of what is given reaches the last record; `epoch` is that of the log before the
        batch. Raises UnfitError.
        """
        begin = covered.start
        if self._batches:
            begin = Offset(batch.base)
            yield from self.taken(covered, begin, epoch=epoch, headers=headers)
        own = batch.epoch if batch.epoch >= 0 else None
        for piece, plain in batch.pieces(fetched, self.held_bytes_max):
            self._room.put(plain)
            self._note(piece)
            rest = OffsetRange(begin, covered.stop)
            for each in self.taken(rest, None, epoch=own, headers=headers):
                begin = each.reached
                yield each
            if begin >= covered.stop:
                return

    def _note(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._stops.append(self._room.size_bytes)
        self._records += batch.count

    def full_with(self, batch: RecordBatch) -> bool:
        """Return whether what was gathered is to be taken before one more is added."""
        return bool(self._batches) and (
            self._records + batch.count > BATCH_RECORDS or self._room.size_bytes >= BATCH_BYTES
        )

    def taken(
        self, covered: OffsetRange, reached: Offset | None, *, epoch: int | None, headers: bool
    ) -> Iterator[Fetched]:
        """Yield the records that lie in a range, up to a position, and begin anew.

        The last of what is given reaches the position, or the last record; `epoch` is that of the
        log just before it. Raises UnfitError.
        """
        if self._batches:
            rows, epochs = self._rows(covered, headers=headers)
        else:
            schema = WITH_HEADERS if headers else PLAIN
            rows, epochs = pa.RecordBatch.from_pylist([], schema), NO_EPOCHS
        self._batches, self._stops, self._records = [], [], 0
        self._room.clear()
        while rows.num_rows > BATCH_RECORDS:
            head, rows = rows.slice(0, BATCH_RECORDS), rows.slice(BATCH_RECORDS)
            yield Fetched(head, _behind(head), _last(epochs[:BATCH_RECORDS]))
            epochs = epochs[BATCH_RECORDS:]
        if reached is None:
            reached = _behind(rows) if rows.num_rows else covered.start
        yield Fetched(rows, reached, epoch)

    def _rows(self, covered: OffsetRange, *, headers: bool) -> tuple[pa.RecordBatch, Ints]:
        counts = [batch.count for batch in self._batches]
        records = Records(self._room.whole(PAD), self._stops, counts)

        def repeated(values: list[int]) -> Ints:
            return np.repeat(np.array(values, np.int64), counts)

        first = repeated([batch.base for batch in self._batches])
        offsets = first + records.offset_delta
        last = repeated([batch.last for batch in self._batches])
        if not is_ascending(offsets) or (offsets > last).any() or (offsets < first).any():
            raise UnfitError("offsets do not ascend")
        if offsets[0] < self._behind:
            raise UnfitError("offsets do not ascend")
        self._behind = int(offsets[-1]) + 1
        stamped = [bool(batch.attributes & LOG_APPEND_TIME) for batch in self._batches]
        first_ms = [
            batch.last_ms if late else batch.first_ms
            for batch, late in zip(self._batches, stamped, strict=True)
        ]
        delta = records.time_delta
        if any(stamped):
            delta = np.where(np.repeat(stamped, counts), 0, delta)
        columns = [
            pa.array(offsets),
            times_of(repeated(first_ms), delta),
            records.key(),
            records.value(),
        ]
        if headers:
            columns.append(records.headers())
        rows = pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS if headers else PLAIN)
        begin, stop = np.searchsorted(offsets, (covered.start, covered.stop)).tolist()
        epochs = repeated([batch.epoch for batch in self._batches])[begin:stop]
        return rows.slice(begin, stop - begin), epochs


def _behind(rows: pa.RecordBatch) -> Offset:
    return Offset(rows["offset"][-1].as_py() + 1)


def _last(epochs: Ints) -> int | None:
    """Return the leader epoch of the last record, where there is one and it is known."""
    return int(epochs[-1]) if len(epochs) and epochs[-1] >= 0 else None
