"""Offsets that consumer groups have committed: read once, and written for lag tools.

Invariants:
- offsets of a group with members are theirs: they are neither believed nor changed;
- what is written is for others; nothing of ours ever reads it to decide where to go on.
"""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition

from penstock.connectors.kafka.log import ANSWER_SECONDS_MAX, KafkaLog
from penstock.connectors.kafka.settings import KafkaSettings, read_settings
from penstock.core.errors import InvalidError
from penstock.core.offsets import Positions
from penstock.ports.connectors import Settings
from penstock.ports.runtime import Secrets

HAS_MEMBERS = frozenset({"NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"})
"""What brokers answer to who commits for a group that others consume by."""


class KafkaGroup:
    """Implements `ports.groups.GroupOffsets`."""

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._log, self._name, self._what = KafkaLog(settings), name, f"group {name}"

    def members(self) -> int:
        """Count the members of the group."""
        asked = self._log.admin().describe_consumer_groups(
            [self._name], request_timeout=ANSWER_SECONDS_MAX
        )
        return len(self._log.answer(asked[self._name], self._what).members)

    def committed(self) -> dict[tuple[str, int], int]:
        """Return the next offsets that it has committed, by topic and partition."""
        wanted = [ConsumerGroupTopicPartitions(self._name)]
        asked = self._log.admin().list_consumer_group_offsets(
            wanted, request_timeout=ANSWER_SECONDS_MAX
        )
        found = self._log.answer(asked[self._name], self._what)
        for each in found.topic_partitions:
            if each.error is not None:
                raise self._log.translated(each.error, self._what)
        return {
            (each.topic, each.partition): each.offset
            for each in found.topic_partitions
            if each.offset >= 0
        }

    def require_unused(self) -> None:
        """Raise InvalidError (P213) while the group has members."""
        if self.members():
            raise self._in_use()

    def put(self, offsets: Positions, metadata: str) -> None:
        """Commit offsets for the group, with one request."""
        wanted = [
            ClientPartition(at.topic, at.partition, offset, metadata)
            for at, offset in sorted(offsets.items())
        ]
        asked = self._log.admin().alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._name, wanted)], request_timeout=ANSWER_SECONDS_MAX
        )
        answered = self._log.answer(asked[self._name], self._what, accepted=HAS_MEMBERS)
        if answered is None:
            raise self._in_use()
        for each in answered.topic_partitions:
            if each.error is not None and each.error.name() in HAS_MEMBERS:
                raise self._in_use()
            if each.error is not None:
                raise self._log.translated(each.error, self._what)

    def close(self) -> None:
        """Let go of connections."""
        self._log.close()

    def _in_use(self) -> InvalidError:
        return InvalidError(
            f"group {self._name} has members, and its offsets are theirs",
            code="P213",
            hint="name a group at kafka.mirror_group that nobody consumes by",
        )


def group_offsets(settings: Settings, secrets: Secrets, group: str) -> dict[tuple[str, int], int]:
    """Return the next offsets that a group has committed, by topic and partition.

    Raises InvalidError (P167) while it has members, UnavailableError when no broker answers.
    """
    there = KafkaGroup(read_settings(settings, secrets), group)
    if count := there.members():
        raise InvalidError(
            f"group {group} has {count} members: the other system still runs",
            code="P167",
            hint="stop it, then try again: its committed offsets say where it ended",
        )
    return there.committed()
