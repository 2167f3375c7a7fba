"""The record batches of a partition from an offset on, whoever's transactions are open.

Invariant: what was listed is read, or an error says at which offset nothing came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kafka.protocol.consumer import FetchRequest

from penstock.connectors.kafka.native.brokers import NO_ID, Leader, only
from penstock.connectors.kafka.native.connection import Wire
from penstock.connectors.kafka.native.record_batches import RecordBatch, headers_of
from penstock.connectors.kafka.transactions.answers import not_answered, refused
from penstock.connectors.kafka.transactions.leaders import Asked, Leaders
from penstock.connectors.kafka.transactions.list_offsets import UNCOMMITTED
from penstock.core.offsets import TopicPartition

FETCH_VERSION, FETCH_VERSION_BY_NAME = 13, 12
FETCH_BYTES = 4 << 20
WAIT_MS = 100


def fetched_batches(
    leaders: Leaders, at: TopicPartition, begin: int, stop: int
) -> Iterator[tuple[list[RecordBatch], bytes]]:
    """Yield the batches between two offsets with the bytes that they were read from.

    Raises InvalidError (P204, P205), UnavailableError (P280).
    """
    position = begin
    until = time.monotonic() + leaders.patience_seconds
    while position < stop:
        fetched = _fetched(leaders, at, position)
        batches = list(headers_of(fetched))
        if batches:
            position = batches[-1].last + 1
            until = time.monotonic() + leaders.patience_seconds
            yield [each for each in batches if each.base < stop], fetched
        elif time.monotonic() > until:
            raise not_answered(f"topic {at.topic}", f"nothing came at offset {position}")


def _fetched(leaders: Leaders, at: TopicPartition, position: int) -> bytes:
    def make(leader: Leader, wire: Wire) -> Asked:
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=at.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=position,
            partition_max_bytes=FETCH_BYTES,
        )
        topic = FetchRequest.FetchTopic(
            topic=at.topic, topic_id=leader.topic_id, partitions=[partition]
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=UNCOMMITTED,
            topics=[topic],
        )
        by_name = leader.topic_id == NO_ID
        wanted = FETCH_VERSION_BY_NAME if by_name else FETCH_VERSION
        return request, wire.version(request, wanted)

    def part_of(answer: Any, leader: Leader) -> Any:
        return answer if answer.error_code else only(answer.responses, at, leader.topic_id)

    part = leaders.ask(at, make, part_of)
    if part.error_code:
        raise refused(part.error_code, f"topic {at.topic}", leaders.settings)
    return bytes(part.records or b"")
