"""The heads of committed batches of transactions in a partition; no record is unpacked.

Invariant: a batch counts once a marker behind it says that its transaction was committed; one
without a marker up to the high watermark is open, and no commit.

Source: KIP-98.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.connectors.kafka.native.record_batches import (
    CODEC,
    CODECS,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatch,
    is_abort,
)
from penstock.connectors.kafka.transactions.fetching import fetched_batches
from penstock.connectors.kafka.transactions.leaders import Leaders
from penstock.connectors.kafka.transactions.list_offsets import (
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    offset_of,
)
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import BatchHead, Term


class KafkaHeads:
    """Implements `ports.producers.Heads`."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    def committed(self, at: TopicPartition, begin: int) -> Iterator[BatchHead]:
        """Yield the committed batches of transactions from an offset on."""
        stop = offset_of(self._leaders, at, LATEST, UNCOMMITTED)
        first = max(begin, offset_of(self._leaders, at, EARLIEST, UNCOMMITTED))
        waiting: dict[int, list[BatchHead]] = defaultdict(list)
        for batches, fetched in fetched_batches(self._leaders, at, first, stop):
            for batch in batches:
                if batch.attributes & CONTROL:
                    ended = waiting.pop(batch.producer, [])
                    if not is_abort(batch, fetched):
                        yield from ended
                elif batch.attributes & TRANSACTIONAL and batch.base >= first:
                    waiting[batch.producer].append(_head(batch, fetched))

    def close(self) -> None:
        """Let go of connections."""
        self._leaders.brokers.forget()


def _head(batch: RecordBatch, fetched: bytes) -> BatchHead:
    _, _, _, _, checksum, *_, epoch, _, _ = HEADER.unpack_from(fetched, batch.begin)
    term = Term(batch.producer, epoch)
    size = batch.stop - batch.begin
    return BatchHead(
        term,
        batch.base,
        batch.last,
        batch.count,
        checksum,
        size,
        codec=CODECS.get(batch.attributes & CODEC, "none"),
        is_stamped=bool(batch.attributes & LOG_APPEND_TIME),
    )
