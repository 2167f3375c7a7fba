"""The largest batch that a topic takes, as its settings say."""

from __future__ import annotations

from kafka.protocol.admin import DescribeConfigsRequest

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.connection import FallbackError

VERSION = 4
TOPIC = 2
"""The kind of a resource that has settings."""
LIMITS = ("max.message.bytes", "segment.bytes")


def batch_bytes_max(brokers: Brokers, topic: str, *, refused_bytes: int) -> int:
    """Return how large a batch may be, where one of `refused_bytes` was refused.

    It is half of that where settings do not explain it, or may not be read (`DescribeConfigs`): a
    broker that compresses anew measures its own bytes.
    """
    limit = topic_limit(brokers, topic)
    return refused_bytes // 2 if limit is None or limit >= refused_bytes else limit


def topic_limit(brokers: Brokers, topic: str) -> int | None:
    """Return how large a batch may be by the settings of a topic; None where nobody says."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=list(LIMITS)
    )
    request = DescribeConfigsRequest(resources=[resource])
    found: list[int] = []
    try:
        wire = brokers.any()
        answer = wire.ask(request, wire.version(request, VERSION)).results[0]
        found = [int(each.value) for each in answer.configs or () if each.name in LIMITS]
    except FallbackError:
        pass
    return min(found, default=None)
