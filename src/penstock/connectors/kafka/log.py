"""List a cluster's topics, partitions and ends, on the driver.

Invariants:
- `stop` is the last stable offset, what a read_committed reader can reach; `high` the high
  watermark (protocol.md 7);
- a topic is known by its id, in the form Kafka's own tools show; by its name only where the spec
  says so;
- a partition without a leader is left out of bounds and positions, and named in `leaderless`;
- every request ends within `ANSWER_SECONDS_MAX`; a topic that was there and is not is looked for
  again for `GONE_SECONDS_MIN`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from penstock.connectors.kafka import errors
from penstock.connectors.kafka.settings import BY_NAME, KafkaSettings
from penstock.core.errors import PenstockError
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.spec.problems import nearest

ANSWER_SECONDS_MAX = 20
LOOK_UP_SECONDS = 0.1
GONE_SECONDS_MIN = 5
"""Brokers forget a topic for a moment while it is made anew, or while they themselves are."""
NO_ID = "A" * 22
NO_OFFSET = -1


class KafkaLog:
    """The Log of a Kafka cluster. Not for use by several threads at once."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._heard = errors.BrokerLog()
        self._client: AdminClient | None = None
        self._listed: frozenset[str] = frozenset()
        self.leaderless: tuple[TopicPartition, ...] = ()

    def cluster_id(self) -> str:
        """Return the cluster's id. Raises InvalidError (P193): another security protocol."""
        asked = self._admin().describe_cluster(request_timeout=ANSWER_SECONDS_MAX)
        try:
            return str(self._answer(asked, "the cluster").cluster_id)
        except PenstockError as error:
            from penstock.connectors.kafka.native.protocols import mismatch

            other = mismatch(self._settings)
            if other is None:
                raise
            raise other from error

    def partitions(self) -> Sequence[TopicPartition]:
        """List partitions, sorted; a topic that is gone is looked for again for a while."""
        until = time.monotonic() + GONE_SECONDS_MIN
        topics = self._described()
        while self._listed - topics.keys() and time.monotonic() < until:
            time.sleep(LOOK_UP_SECONDS)
            topics = self._described()
        named = frozenset(self._settings.topics)
        for name in sorted(named - topics.keys()):
            raise errors.no_topic(name, self._settings, like=nearest(name, self._names()))
        self._listed = frozenset(topics)
        found: list[TopicPartition] = []
        for name, topic in topics.items():
            identity = self._identity(name, str(topic.topic_id))
            found += [TopicPartition(identity, each.id, name) for each in topic.partitions]
        return sorted(found)

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return what can be read of each partition now; those without a leader are left out."""
        committed = IsolationLevel.READ_COMMITTED
        asked = (
            self._ask(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            self._ask(partitions, OffsetSpec.latest(), committed),
            self._ask(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
        )
        starts, stops, highs = (self._offsets(each) for each in asked)
        known = {}
        for at in partitions:
            if at in starts and at in stops and at in highs:
                # Asked one after the other: what was asked later may have moved on.
                stop = max(starts[at], stops[at])
                known[at] = Bounds(starts[at], stop, max(stop, highs[at]))
        self.leaderless = tuple(at for at in partitions if at not in known)
        return known

    def positions_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
        """Return the first position whose record is not older than a time, else the end."""
        committed = IsolationLevel.READ_COMMITTED
        at_time = self._ask(partitions, OffsetSpec.for_timestamp(timestamp_ms), committed)
        ends = self._offsets(self._ask(partitions, OffsetSpec.latest(), committed))
        found = self._offsets(at_time)
        known = ((at, found[at], end) for at, end in ends.items() if at in found)
        return {at: position if position >= 0 else end for at, position, end in known}

    def close(self) -> None:
        """Let go of connections."""
        self._client = None

    def _admin(self) -> AdminClient:
        if self._client is None:
            try:
                self._client = AdminClient({**self._settings.client, "error_cb": self._heard})
            except KafkaException as error:
                raise errors.refused(error.args[0], self._settings) from error
        return self._client

    def wanted(self) -> set[str]:
        """Return the topics that are named or that a pattern matches, but for Kafka's own."""
        patterns = self._settings.patterns
        listed = self._names() if patterns else ()
        matched = (name for name in listed if any(each.fullmatch(name) for each in patterns))
        return {*self._settings.topics, *matched}

    def _names(self) -> list[str]:
        """Name all topics of the cluster but Kafka's own."""
        try:
            listed = self._admin().list_topics(timeout=ANSWER_SECONDS_MAX).topics
        except KafkaException as error:
            raise self._told(error, "the cluster") from error
        return [name for name in listed if not name.startswith("__")]

    def _described(self) -> dict[str, Any]:
        """Return the descriptions of all topics that are named or matched, and there."""
        described = self._admin().describe_topics(
            TopicCollection(sorted(self.wanted())),
            include_authorized_operations=True,
            request_timeout=ANSWER_SECONDS_MAX,
        )
        found = {}
        for name, asked in described.items():
            topic = self._unless(asked, f"topic {name}", errors.NO_TOPIC)
            if topic is None or (topic.is_internal and name not in self._settings.topics):
                continue
            allowed = topic.authorized_operations
            if allowed is not None and AclOperation.READ not in allowed:
                raise errors.not_allowed(f"topic {name}", self._settings)
            found[name] = topic
        return found

    def _identity(self, name: str, uuid: str) -> str:
        if self._settings.identity == BY_NAME:
            return f"name:{name}"
        if uuid == NO_ID:
            raise errors.no_topic_ids(f"the brokers give no id for topic {name}")
        return uuid.translate(str.maketrans("+/", "-_"))  # as kafka-topics shows it

    def _ask(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec, level: IsolationLevel
    ) -> dict[TopicPartition, Future[Any]]:
        """Send one request for all partitions and do not wait for it."""
        wanted = {ClientPartition(at.topic, at.partition): spec for at in partitions}
        asked = self._admin().list_offsets(
            wanted, isolation_level=level, request_timeout=ANSWER_SECONDS_MAX
        )
        by_place = {(each.topic, each.partition): future for each, future in asked.items()}
        return {at: by_place[at.topic, at.partition] for at in partitions}

    def _offsets(self, asked: Mapping[TopicPartition, Future[Any]]) -> dict[TopicPartition, Offset]:
        """Take the answers; one that was lost comes as an offset that none is: it is no answer.

        Raises UnavailableError.
        """
        found = {}
        for at, future in asked.items():
            what = f"topic {at.topic}"
            answer = self._unless(future, what, errors.NO_LEADER | errors.NO_TOPIC)
            if answer is None:
                continue
            if answer.offset < NO_OFFSET:
                raise self._told(KafkaException(KafkaError(KafkaError._TRANSPORT)), what)  # noqa: SLF001  it has no other name
            found[at] = Offset(answer.offset)
        return found

    def _unless(self, asked: Future[Any], what: str, accepted: set[str]) -> Any | None:
        """Wait for an answer; None when it is one of the errors that the caller accepts."""
        try:
            return self._waited(asked)
        except KafkaException as error:
            if error.args[0].name() in accepted:
                return None
            raise self._told(error, what) from error

    def _answer(self, asked: Future[Any], what: str) -> Any:
        try:
            return self._waited(asked)
        except KafkaException as error:
            raise self._told(error, what) from error

    def _waited(self, asked: Future[Any]) -> Any:
        """Wait for an answer, but not long when brokers have refused us: others may not."""
        self._heard.errors.clear()
        begun = time.monotonic()
        while time.monotonic() < begun + ANSWER_SECONDS_MAX + 1:
            try:
                return asked.result(timeout=LOOK_UP_SECONDS)
            except TimeoutError:
                self._admin().poll(0)
                reason = self._heard.reason(time.monotonic() - begun)
                if reason is not None:
                    raise KafkaException(reason) from None
        return waited(asked, 0)  # this process may have stood still, and not the brokers

    def _told(self, error: KafkaException, what: str) -> Exception:
        self._admin().poll(0)
        return errors.translated(error.args[0], what, self._settings, self._heard)


def waited(asked: Future[Any], seconds: float) -> Any:
    """Wait for an answer; one that does not come raises what the client says of lost requests."""
    try:
        return asked.result(timeout=seconds)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001  it has no other name
