"""From librdkafka's messages to Arrow columns, the columns of `ports/log.py`.

Invariants:
- per message only its own accessors are called, each mapped over the whole list in C: this is the
  hottest loop of a worker outside the decoder;
- a key or value that a record does not have is null; an empty one is empty; a record without
  headers has an empty list of them; a record without a timestamp has null;
- headers whose names are not UTF-8 cannot be had from the client: the list is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from penstock.core.offsets import Offset

BATCH_RECORDS = 25_000
BATCH_BYTES = 16 << 20
NO_TIMESTAMP = -1
TIMESTAMP = pa.timestamp("ms", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PLAIN = pa.schema(
    [("offset", pa.int64()), ("timestamp", TIMESTAMP), ("key", pa.binary()), ("value", pa.binary())]
)
WITH_HEADERS = PLAIN.append(pa.field("headers", HEADERS))


@dataclass(slots=True)
class Gathered:
    """Messages gathered for one batch, in order."""

    messages: list[Any] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, messages: Sequence[Any]) -> None:
        """Take messages that follow the ones gathered."""
        self.messages += messages
        self.size_bytes += sum(map(len, messages))

    def full(self) -> bool:
        """Return whether this is enough for one batch."""
        return len(self.messages) >= BATCH_RECORDS or self.size_bytes >= BATCH_BYTES

    def leader_epoch(self, reached: Offset) -> int | None:
        """Return the leader epoch of the message just before a position, or None.

        Between the last message and the position lies what the client does not show: markers, maybe
        of a later leader.
        """
        if not self.messages or self.messages[-1].offset() + 1 != reached:
            return None
        epoch = self.messages[-1].leader_epoch()
        return None if epoch is None or epoch < 0 else epoch

    def batch(self, *, headers: bool) -> pa.RecordBatch:
        """Return what was gathered as one batch."""
        messages = self.messages
        columns = [
            pa.array(map(Message.offset, messages), pa.int64(), size=len(messages)),
            timestamps(messages),
            pa.array(list(map(Message.key, messages)), pa.binary()),
            pa.array(list(map(Message.value, messages)), pa.binary()),
        ]
        if not headers:
            return pa.RecordBatch.from_arrays(columns, schema=PLAIN)
        columns.append(pa.array([headers_of(message) for message in messages], HEADERS))
        return pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS)


def timestamps(messages: Sequence[Any]) -> pa.Array:
    """Return the messages' times; null where a record has none."""
    pairs = chain.from_iterable(map(Message.timestamp, messages))
    stamps = np.fromiter(pairs, np.int64, count=2 * len(messages))[1::2]
    missing = stamps == NO_TIMESTAMP
    mask = missing if missing.any() else None
    return pa.array(stamps, pa.int64(), mask=mask).cast(TIMESTAMP)


def headers_of(message: Any) -> list[tuple[str, bytes | None]] | None:
    """Return a message's headers, or None when one's name is not UTF-8."""
    try:
        return message.headers() or []
    except (SystemError, UnicodeDecodeError):  # the former is how the client's C code says it
        return None
