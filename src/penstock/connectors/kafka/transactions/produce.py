"""One Produce request to a leader: a batch for each of some partitions, and what it answers.

Invariants:
- partitions are named by the id of their topic where the broker knows ids, so that a topic that was
  created again refuses them;
- an answer has a part for each partition that was asked about, or it is a FallbackError.

Source: KIP-890 (Produce 12 adds partitions to a transaction), KIP-516 (13 has topic ids).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import ProduceRequest

from penstock.connectors.kafka.native.brokers import NO_ID
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import require_version

BY_NAME, BY_ID = 12, 13
"""Versions that add partitions to a transaction under protocol 2."""
ALL_REPLICAS = -1
ACKNOWLEDGE_SECONDS = 10.0
"""For one attempt: a request that was lost on its way is sent again after it."""


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of a leader, by the name and the id of its topic."""

    topic: str
    topic_id: uuid.UUID
    partition: int


@dataclass(frozen=True, slots=True)
class Produced:
    """The part of each partition, as the broker gives it, and how long it wants not to be asked."""

    parts: Sequence[Any]
    throttle_seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent: its places, and whether it names topics by id."""

    places: Sequence[Place]
    by_id: bool


def ask(
    wire: Wire, transactional_id: str, batches: Mapping[Place, bytes], settings: KafkaSettings
) -> Asked:
    """Send one batch to each place. Raises FallbackError, InvalidError (P282)."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=int(ACKNOWLEDGE_SECONDS * 1000),
        topic_data=list(_topics(batches)),
    )
    by_id = wire.version(request, BY_ID) == BY_ID and all(at.topic_id != NO_ID for at in batches)
    wire.send(request, BY_ID if by_id else require_version(wire, request, BY_NAME, settings))
    return Asked(tuple(batches), by_id)


def answered(wire: Wire, asked: Asked, *, until: float) -> Produced:
    """Wait for all replicas in sync until a monotonic time. Raises FallbackError."""
    by_id = asked.by_id
    answer = wire.answer(min(until, time.monotonic() + ACKNOWLEDGE_SECONDS))
    found = {
        (topic.topic_id if by_id else topic.name, part.index): part
        for topic in answer.responses
        for part in topic.partition_responses
    }
    try:
        parts = [found[at.topic_id if by_id else at.topic, at.partition] for at in asked.places]
    except KeyError as error:
        raise FallbackError("an answer about something else") from error
    return Produced(parts, answer.throttle_time_ms / 1000)


def _topics(batches: Mapping[Place, bytes]) -> Iterator[Any]:
    topic = ProduceRequest.TopicProduceData
    of_topic: dict[tuple[str, uuid.UUID], list[Any]] = {}
    for at, batch in batches.items():
        partition = topic.PartitionProduceData(index=at.partition, records=batch)
        of_topic.setdefault((at.topic, at.topic_id), []).append(partition)
    for (name, topic_id), partitions in of_topic.items():
        yield topic(name=name, topic_id=topic_id, partition_data=partitions)
