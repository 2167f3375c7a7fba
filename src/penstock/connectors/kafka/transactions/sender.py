"""Sends record batches into the transaction of a term, one after the other.

Invariants:
- one request is under way for a partition, and holds one batch;
- what is asked again is the same bytes under the same sequence number, to the same incarnation;
- an answer that gives no offset is no answer: receipts say where each batch is.

Source: KIP-98, KIP-890; docs/design/0274.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from kafka.protocol.producer import ProduceRequest

from penstock.connectors.kafka.native.brokers import Leader
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.native.record_batch_writer import Codec, pack
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    ID_REFUSED,
    TOPIC_REFUSED,
    named,
    refused,
    require_version,
)
from penstock.connectors.kafka.transactions.leaders import Asked, Leaders
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.producers import NO_ANSWER, Refused, Term

PRODUCE_VERSION = 12
ACKNOWLEDGE_MS = 30_000
ALL_REPLICAS = -1
IN_THE_LOG = frozenset({0, 46})
"""It was written, now or by the attempt before."""


class KafkaSender:
    """Implements `ports.producers.Sender`: packs messages, and asks the leaders of partitions."""

    def __init__(self, leaders: Leaders, codec: Codec = "none") -> None:
        self._leaders, self._codec = leaders, codec

    def send(
        self,
        transactional_id: str,
        term: Term,
        at: TopicPartition,
        messages: Iterable[pa.RecordBatch],
    ) -> Batches | Refused | None:
        """Send all messages of a partition, and return the batches; None where there are none."""
        sent: Batches | None = None
        sequence = 0
        for each in (packed for some in messages for packed in pack(some, codec=self._codec)):
            if sent is None:
                try:  # requests name the topic, of whichever incarnation
                    self._leaders.brokers.look_up(at.topic)
                except FallbackError as failure:
                    return Refused(NO_ANSWER, str(failure))
            batch, checksum = each.headed(term.producer_id, term.epoch, sequence)
            try:
                error, base = self._produced(transactional_id, at, batch)
            except UnavailableError as failed:
                return Refused(NO_ANSWER, failed.message)
            if error == ID_REFUSED:
                what = f"transactional id {transactional_id}"
                raise refused(error, what, self._leaders.settings)
            if error == TOPIC_REFUSED:
                raise _write_refused(at.topic, self._leaders.settings)
            if error not in IN_THE_LOG or base < 0:
                return Refused(error, named(error))
            sequence += each.count
            own = Batches(base, base + each.count - 1, each.count, 1, checksum)
            sent = own if sent is None else _sum(sent, own)
        return sent

    def close(self) -> None:
        """Let go of connections."""
        self._leaders.brokers.forget()

    def _produced(self, transactional_id: str, at: TopicPartition, batch: bytes) -> tuple[int, int]:
        def make(_: Leader, wire: Wire) -> Asked:
            topic = ProduceRequest.TopicProduceData
            partition = topic.PartitionProduceData(index=at.partition, records=batch)
            request = ProduceRequest(
                transactional_id=transactional_id,
                acks=ALL_REPLICAS,
                timeout_ms=ACKNOWLEDGE_MS,
                topic_data=[topic(name=at.topic, partition_data=[partition])],
            )
            version = require_version(wire, request, PRODUCE_VERSION, self._leaders.settings)
            return request, version

        part: Any = self._leaders.ask(
            at, make, lambda answer, _: answer.responses[0].partition_responses[0]
        )
        return int(part.error_code), int(part.base_offset)


def _sum(sent: Batches, own: Batches) -> Batches:
    assert sent.crc_sum is not None
    assert own.crc_sum is not None
    return Batches(
        sent.first,
        own.last,
        sent.records + own.records,
        sent.count + own.count,
        sent.crc_sum + own.crc_sum,
    )


def _write_refused(topic: str, settings: KafkaSettings) -> InvalidError:
    return InvalidError(
        f"user {settings.user} may not write topic {topic}",
        code="P281",
        hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
        f" --operation Read --operation Write --operation Describe --topic '{topic}'",
    )
