"""Topics that a publication creates where they are missing: its target, and its offsets topic."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigResource, ResourceType
from confluent_kafka.admin import NewTopic as Created

from penstock.connectors.kafka.errors import NO_TOPIC
from penstock.connectors.kafka.log import ANSWER_SECONDS_MAX, GONE_SECONDS_MIN, KafkaLog
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.leaders import PAUSE_SECONDS
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.producers import NewTopic

POLICY = "cleanup.policy"
COMPACT = "compact"
AS_BROKERS_SAY = -1
NOT_ALLOWED = "P204"
REFUSED = {"INVALID_CONFIG", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "POLICY_VIOLATION"}
"""Answers to how a topic was to be, which will not be others."""
EXISTS = "TOPIC_ALREADY_EXISTS"


class KafkaTopics:
    """Implements `ports.producers.Topics`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings, self._log = settings, KafkaLog(settings)

    def exists(self, topic: str) -> bool:
        """Return whether a topic is there."""
        asked = self._log.describe([topic])[topic]
        return self._log.answer(asked, f"topic {topic}", accepted=NO_TOPIC) is not None

    def is_compacted(self, topic: str) -> bool:
        """Return whether its policy names compaction, alone or beside deletion."""
        return COMPACT in self.policy(topic).split(",")

    def policy(self, topic: str) -> str:
        """Return a topic's `cleanup.policy`; brokers learn of a new topic one after the other."""
        wanted = ConfigResource(ResourceType.TOPIC, topic)
        until = time.monotonic() + GONE_SECONDS_MIN
        while True:
            asked = self._log.admin().describe_configs([wanted], request_timeout=ANSWER_SECONDS_MAX)
            accepted = NO_TOPIC if time.monotonic() < until else ()
            try:
                found = self._log.answer(asked[wanted], f"topic {topic}", accepted=accepted)
            except InvalidError as error:
                if error.code == NOT_ALLOWED:
                    raise InvalidError(
                        f"user {self._settings.user} may not read the settings of topic {topic}",
                        code="P868",
                        hint=self._acl("DescribeConfigs", topic),
                    ) from error
                raise
            if found is not None:
                return str(found[POLICY].value)
            time.sleep(PAUSE_SECONDS)

    def _acl(self, operation: str, topic: str) -> str:
        return (
            f"kafka-acls --add --allow-principal 'User:{self._settings.user}'"
            f" --operation {operation} --topic '{topic}'"
        )

    def prepare(self, topic: str, new: NewTopic) -> None:
        """Create a topic unless it is there; brokers learn of it one after the other."""
        if self.exists(topic):
            return
        asked = Created(topic, new.partitions or AS_BROKERS_SAY, config=dict(new.config))
        created = self._log.admin().create_topics([asked], request_timeout=ANSWER_SECONDS_MAX)
        try:
            self._log.answer(created[topic], f"topic {topic}", accepted={EXISTS})
        except InvalidError as error:
            if error.code == NOT_ALLOWED:
                raise InvalidError(
                    f"user {self._settings.user} may not create topic {topic}",
                    code="P281",
                    hint=self._acl("Create", topic),
                ) from error
            raise
        except UnavailableError as error:
            answer = getattr(error.__cause__, "args", (None,))[0]
            if isinstance(answer, KafkaError) and answer.name() in REFUSED:
                raise self._not_created(topic, answer) from error
            raise
        until = time.monotonic() + GONE_SECONDS_MIN
        while not self.exists(topic) and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)

    def _not_created(self, topic: str, answer: KafkaError) -> InvalidError:
        said = self._settings.named_by.get(topic, "")
        return InvalidError(
            f"the brokers do not create topic {topic}: {answer.str()} ({answer.name()})",
            code="P890",
            hint=f"correct  topic,  beside {said}" if said else "see the policies of the brokers",
        )

    def close(self) -> None:
        """Let go of connections."""
        self._log.close()
