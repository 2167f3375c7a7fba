"""Where a consumer group stands: for pipelines that go on where another system ended."""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.connectors.kafka.errors import BrokerLog, translated
from penstock.connectors.kafka.log import ANSWER_SECONDS_MAX
from penstock.connectors.kafka.settings import read_settings
from penstock.core.errors import InvalidError
from penstock.ports.connectors import Settings
from penstock.ports.runtime import Secrets


def group_offsets(settings: Settings, secrets: Secrets, group: str) -> dict[tuple[str, int], int]:
    """Return the next offsets that a group has committed, by topic and partition.

    Raises InvalidError (P167) while it has members, UnavailableError when no broker answers.
    """
    read, heard = read_settings(settings, secrets), BrokerLog()
    client = AdminClient({**read.client, "error_cb": heard})

    def answered(asked: Any) -> Any:
        try:
            return asked[group].result()
        except KafkaException as error:
            raise translated(error.args[0], f"group {group}", read, heard) from error

    seconds = ANSWER_SECONDS_MAX
    described = answered(client.describe_consumer_groups([group], request_timeout=seconds))
    if described.members:
        raise InvalidError(
            f"group {group} has {len(described.members)} members: the other system still runs",
            code="P167",
            hint="stop it, then try again: its committed offsets say where it ended",
        )
    wanted = [ConsumerGroupTopicPartitions(group)]
    found = answered(client.list_consumer_group_offsets(wanted, request_timeout=seconds))
    for each in found.topic_partitions:
        if each.error is not None:
            raise translated(each.error, f"group {group}", read, heard)
    return {
        (each.topic, each.partition): each.offset
        for each in found.topic_partitions
        if each.offset >= 0
    }
