"""Batches of the wire are gathered until they make one batch of the port.

Invariants:
- no batch given has more than `BATCH_RECORDS` rows, and gathered are at most `BATCH_BYTES` and one
  batch of the log, or a piece of one that unpacks to more than `HELD_BYTES_MAX`;
- offsets ascend, and are in the requested range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.columns import (
    BATCH_BYTES,
    BATCH_RECORDS,
    PLAIN,
    WITH_HEADERS,
    times_of,
)
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batches import LOG_APPEND_TIME, RecordBatch, Room
from penstock.connectors.kafka.native.record_columns import PAD, Ints, Records
from penstock.core.offsets import Offset, OffsetRange
from penstock.ports.log import Fetched

HELD_BYTES_MAX = 32 << 20
"""A batch of the log that unpacks to more is given in pieces."""


@dataclass(slots=True)
class GatheredBatches:
    """Batches with their records unpacked, in order."""

    held_bytes_max: int = HELD_BYTES_MAX
    headers: bool = False
    _batches: list[RecordBatch] = field(default_factory=list)
    _stops: list[int] = field(default_factory=list)
    _room: Room = field(default_factory=Room)
    _records: int = 0
    _next_offset: int = 0

    def add(self, batch: RecordBatch, fetched: bytes) -> bool:
        """Take a batch that follows the ones gathered. Raises FallbackError.

        False when it unpacks to more than is held: then it is to be `unrolled`.
        """
        before = self._room.size_bytes
        if not batch.unpack(fetched, self._room, self.held_bytes_max):
            self._room.size_bytes = before
            return False
        if batch.count <= 0:  # compaction took all of its records
            if self._room.size_bytes > before:
                raise FallbackError("records do not fill their batch")
            return True
        self._note(batch)
        return True

    def unrolled(
        self, batch: RecordBatch, fetched: bytes, covered: OffsetRange, epoch: int | None
    ) -> Iterator[Fetched]:
        """Yield the gathered records, then those of a batch that are in a range, in pieces.

        The last of what is given reaches the last record; `epoch` is that of the log before the
        batch. Raises FallbackError.
        """
        begin = covered.start
        if self._batches:
            begin = Offset(batch.base)
            yield from self.taken(covered, begin, epoch=epoch)
        own = batch.epoch if batch.epoch >= 0 else None
        for piece, plain in batch.pieces(fetched, self.held_bytes_max):
            self._room.put(plain)
            self._note(piece)
            rest = OffsetRange(begin, covered.stop)
            for each in self.taken(rest, None, epoch=own):
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
        self, covered: OffsetRange, reached: Offset | None, *, epoch: int | None
    ) -> Iterator[Fetched]:
        """Yield the records in a range, up to a position, and begin a new batch.

        The last of what is given reaches the position, or the last record; `epoch` is that of the
        log just before it. Raises FallbackError.
        """
        schema = WITH_HEADERS if self.headers else PLAIN
        if self._batches:
            rows, epochs = self._rows(covered, schema)
        else:
            rows, epochs = pa.RecordBatch.from_pylist([], schema), np.empty(0, np.int64)
        self._batches, self._stops, self._records = [], [], 0
        self._room.clear()
        while rows.num_rows > BATCH_RECORDS:
            head, rows = rows.slice(0, BATCH_RECORDS), rows.slice(BATCH_RECORDS)
            last = int(epochs[BATCH_RECORDS - 1])  # -1 where it is not known
            yield Fetched(head, _offset_after(head), last if last >= 0 else None)
            epochs = epochs[BATCH_RECORDS:]
        if reached is None:
            reached = _offset_after(rows) if rows.num_rows else covered.start
        yield Fetched(rows, reached, epoch)

    def _rows(self, covered: OffsetRange, schema: pa.Schema) -> tuple[pa.RecordBatch, Ints]:
        counts = [batch.count for batch in self._batches]
        records = Records(self._room.whole(PAD), self._stops, counts)

        def repeated(values: list[int]) -> Ints:
            return np.repeat(np.array(values, np.int64), counts)

        first = repeated([batch.base for batch in self._batches])
        offsets = first + records.offset_delta
        last = repeated([batch.last for batch in self._batches])
        ascending = offsets[0] >= self._next_offset and (np.diff(offsets) > 0).all()
        if not ascending or (offsets > last).any() or (offsets < first).any():
            raise FallbackError("offsets do not ascend")
        self._next_offset = int(offsets[-1]) + 1
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
            times_of(repeated(first_ms) + delta),
            records.key(),
            records.value(),
        ]
        if self.headers:
            columns.append(records.headers())
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        begin, stop = np.searchsorted(offsets, (covered.start, covered.stop)).tolist()
        epochs = repeated([batch.epoch for batch in self._batches])[begin:stop]
        return rows.slice(begin, stop - begin), epochs


def _offset_after(rows: pa.RecordBatch) -> Offset:
    return Offset(rows["offset"][-1].as_py() + 1)
