"""The first offset of a partition, its high watermark, and its last stable offset."""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest

from penstock.connectors.kafka.native.brokers import Leader
from penstock.connectors.kafka.native.connection import Wire
from penstock.connectors.kafka.transactions.answers import refused
from penstock.connectors.kafka.transactions.leaders import Asked, Leaders
from penstock.core.offsets import TopicPartition

EARLIEST, LATEST = -2, -1
UNCOMMITTED, COMMITTED = 0, 1
VERSION = 7
CONSUMER = -1


def offset_of(leaders: Leaders, at: TopicPartition, place: int, isolation: int) -> int:
    """Return an offset of a partition: EARLIEST or LATEST, of all records or COMMITTED ones.

    Raises InvalidError (P204, P205), UnavailableError (P280).
    """

    def make(leader: Leader, wire: Wire) -> Asked:
        topic = ListOffsetsRequest.ListOffsetsTopic
        partition = topic.ListOffsetsPartition(
            partition_index=at.partition, current_leader_epoch=leader.epoch, timestamp=place
        )
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=isolation,
            topics=[topic(name=at.topic, partitions=[partition])],
        )
        return request, wire.version(request, VERSION)

    part = leaders.ask(at, make, lambda answer, _: answer.topics[0].partitions[0])
    if part.error_code:
        raise refused(part.error_code, f"topic {at.topic}", leaders.settings)
    return int(part.offset)
