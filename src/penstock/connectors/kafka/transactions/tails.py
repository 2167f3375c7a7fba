"""What lies behind the receipts of a publication: committed batches of its producers.

Invariants:
- heads of batches are read, no record is unpacked;
- a batch counts once a marker behind it says that its transaction was committed; one without a
  marker up to the high watermark is open, and no commit.

Source: KIP-98.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.connectors.kafka.native.record_batches import CONTROL, TRANSACTIONAL, is_abort
from penstock.connectors.kafka.transactions.fetching import fetched_batches
from penstock.connectors.kafka.transactions.leaders import Leaders
from penstock.connectors.kafka.transactions.list_offsets import (
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    offset_of,
)
from penstock.core.offsets import TopicPartition
from penstock.core.resuming import TAIL_BYTES_MAX, Tail


class KafkaTails:
    """Implements `ports.producers.Tails`."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    def behind(self, places: Mapping[TopicPartition, int], producers: Collection[int]) -> Tail:
        """Count the committed batches of producers from an offset of each partition on."""
        tails = [self._of(at, begin, producers) for at, begin in sorted(places.items())]
        return Tail(
            max((each.bytes_max for each in tails), default=0), sum(each.ours for each in tails)
        )

    def close(self) -> None:
        """Let go of connections."""
        self._leaders.brokers.forget()

    def _of(self, at: TopicPartition, begin: int, producers: Collection[int]) -> Tail:
        stop = offset_of(self._leaders, at, LATEST, UNCOMMITTED)
        first = max(begin, offset_of(self._leaders, at, EARLIEST, UNCOMMITTED))
        size, ours = 0, 0
        waiting = dict.fromkeys(producers, 0)
        for batches, fetched in fetched_batches(self._leaders, at, first, stop):
            size += len(fetched)
            for batch in batches:
                if batch.producer not in waiting or batch.base < first:
                    continue
                if batch.attributes & CONTROL:
                    ours += 0 if is_abort(batch, fetched) else waiting[batch.producer]
                    waiting[batch.producer] = 0
                elif batch.attributes & TRANSACTIONAL:
                    waiting[batch.producer] += 1
            if size > TAIL_BYTES_MAX:
                break
        return Tail(size, ours)
