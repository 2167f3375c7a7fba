"""Which records of a partition count, whether or not others' transactions are still open.

Invariants:
- below the last stable offset all is decided: what is not aborted counts, also where compaction
  has removed the marker behind it;
- above it, a record counts by the marker that follows it, whoever's it is, so that an open
  transaction of somebody else holds nothing up;
- of one key the record with the highest offset counts; none is a guess: a record without a marker
  is undecided.

Source: KIP-98; docs/design/0274.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batches import (
    CONTROL,
    TRANSACTIONAL,
    RecordBatch,
    Room,
    is_abort,
)
from penstock.connectors.kafka.native.record_columns import PAD, Records
from penstock.ports.producers import Look

UNPACKED_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """Records of one batch: offsets, keys, values. A marker has none, and `aborts` is not None."""

    producer: int | None
    records: tuple[tuple[int, bytes, bytes | None], ...] = ()
    aborts: bool | None = None


def read(batches: Sequence[RecordBatch], fetched: bytes) -> Iterator[Written]:
    """Unpack the batches of a fetch, markers too. Raises FallbackError."""
    filled = [each for each in batches if each.count > 0]  # compaction may have emptied others
    rows = _rows([each for each in filled if not each.attributes & CONTROL], fetched)
    for batch in filled:
        if batch.attributes & CONTROL:
            yield Written(batch.producer, aborts=is_abort(batch, fetched))
        else:
            producer = batch.producer if batch.attributes & TRANSACTIONAL else None
            own = islice(rows, batch.count)
            records = ((offset, key, value) for offset, key, value in own if key is not None)
            yield Written(producer, tuple(records))


def decide(written: Iterable[Written], stable: int) -> Look:
    """Return what counts of a partition, whose last stable offset was `stable` or higher."""
    counted: dict[bytes, tuple[int, bytes | None]] = {}
    waiting: dict[int, list[tuple[int, bytes, bytes | None]]] = {}

    def count(records: Iterable[tuple[int, bytes, bytes | None]]) -> None:
        for offset, key, value in records:
            if key not in counted or counted[key][0] < offset:
                counted[key] = (offset, value)

    for each in written:
        if each.producer is None:
            count(each.records)
        elif each.aborts is None:
            waiting.setdefault(each.producer, []).extend(each.records)
        else:
            ended = waiting.pop(each.producer, [])
            if not each.aborts:
                count(ended)
    undecided = set()
    for left in waiting.values():
        count(record for record in left if record[0] < stable)
        undecided |= {key for offset, key, _ in left if offset >= stable}
    entries = {key: value for key, (_, value) in counted.items() if value is not None}
    return Look(entries, frozenset(undecided))


def _rows(
    batches: Sequence[RecordBatch], fetched: bytes
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield offset, key and value of all records, unpacked at once: batches of one are usual."""
    room, stops = Room(), []
    for batch in batches:
        if not batch.unpack(fetched, room, UNPACKED_BYTES_MAX - room.size_bytes):
            raise FallbackError(f"the batch at {batch.base} unpacks to more than is expected here")
        stops.append(room.size_bytes)
    if not batches:
        return
    counts = [batch.count for batch in batches]
    records = Records(room.whole(PAD), stops, counts)
    keys: pa.BinaryArray = records.key()
    values: pa.BinaryArray = records.value()
    first = np.repeat(np.array([batch.base for batch in batches], np.int64), counts)
    offsets = (first + records.offset_delta).tolist()
    yield from zip(offsets, keys.to_pylist(), values.to_pylist(), strict=True)
