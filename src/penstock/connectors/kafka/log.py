"""List a cluster's topics, partitions and ends, on the driver.

Invariants:
- `stop` is the last stable offset, what a read_committed reader can reach; `high` the high
  watermark (protocol.md 7);
- a topic is known by its id, in the form Kafka's own tools show; by its name only where the spec
  says so;
- a partition without a leader is left out of bounds and positions, and named in `leaderless`;
- every request ends within `ANSWER_SECONDS_MAX`; a topic that is missing is asked for again for
  `GONE_SECONDS_MIN`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from penstock.connectors.kafka import errors
from penstock.connectors.kafka.certificates import Renewed
from penstock.connectors.kafka.settings import BY_NAME, KafkaSettings
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.spec.problems import nearest

ANSWER_SECONDS_MAX = 20
BROKERS_ASKED_MS = 5_000
"""How often a client asks which brokers there are, which of them answers it, and who leads what.

One that only asks would do so every five minutes, and wait that long for a broker that has died.
"""
LOOK_UP_SECONDS = 0.1
GONE_SECONDS_MIN = 5
"""Brokers forget a topic for a moment while it is created again, or while they restart."""
NO_ID = "A" * 22
NO_OFFSET = -1


class KafkaLog:
    """The Log of a Kafka cluster, `client` more properties. Not for several threads at once."""

    def __init__(self, settings: KafkaSettings, **client: Any) -> None:
        self._settings, self._more = settings, client
        self._heard = errors.BrokerLog()
        self._client = Renewed(settings.client, self._made, InvalidError)
        self._listed: frozenset[str] = frozenset()
        self.leaderless: tuple[TopicPartition, ...] = ()

    def cluster_id(self) -> str:
        """Return the cluster's id. Raises InvalidError (P193): another security protocol."""
        return str(self.cluster().cluster_id)

    def cluster(self) -> Any:
        """Return the description of the cluster. Raises as `cluster_id` does."""
        asked = self.admin().describe_cluster(request_timeout=ANSWER_SECONDS_MAX)
        try:
            return self.answer(asked, "the cluster")
        except PenstockError as error:
            from penstock.connectors.kafka.native.protocols import mismatch

            other = mismatch(self._settings)
            if other is None:
                raise
            raise other from error

    def partitions(self, *, without: Collection[str] = ()) -> Sequence[TopicPartition]:
        """List partitions, sorted; a missing topic is asked for again for a while."""
        until = time.monotonic() + GONE_SECONDS_MIN
        topics = self._described(without)
        while self._listed - topics.keys() - {*without} and time.monotonic() < until:
            time.sleep(LOOK_UP_SECONDS)
            topics = self._described(without)
        named = frozenset(self._settings.topics) - {*without}
        for name in sorted(named - topics.keys()):
            raise errors.no_topic(name, self._settings, like=nearest(name, self._names()))
        self._listed = frozenset(topics)
        return sorted(
            TopicPartition(self._identity(name, str(topic.topic_id)), each.id, name)
            for name, topic in topics.items()
            for each in topic.partitions
        )

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return what can be read of each partition now; those without a leader are left out."""
        committed = IsolationLevel.READ_COMMITTED
        asked = (
            self.ask(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            self.ask(partitions, OffsetSpec.latest(), committed),
            self.ask(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
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
        """Return the first position with a record not older than a time, else the end."""
        committed = IsolationLevel.READ_COMMITTED
        at_time = self.ask(partitions, OffsetSpec.for_timestamp(timestamp_ms), committed)
        ends = self._offsets(self.ask(partitions, OffsetSpec.latest(), committed))
        found = self._offsets(at_time)
        known = {at: found[at] for at in ends if at in found}
        return {at: position if position >= 0 else ends[at] for at, position in known.items()}

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def admin(self) -> AdminClient:
        """Return the client, of the present certificates. Raises InvalidError (P207), and as
        `KafkaSettings.properties` does.
        """
        return self._client()

    def wanted(self) -> set[str]:
        """Return the topics that are named or that a pattern matches, but for Kafka's own."""
        patterns = self._settings.patterns
        listed = self._names() if patterns else ()
        matched = (name for name in listed if any(each.fullmatch(name) for each in patterns))
        return {*self._settings.topics, *matched}

    def _made(self) -> AdminClient:
        own = {"topic.metadata.refresh.interval.ms": BROKERS_ASKED_MS, "error_cb": self._heard}
        given = {**self._settings.properties(), **self._more, **own}
        try:
            return AdminClient(given)
        except KafkaException as error:
            raise errors.refused(error.args[0], self._settings) from error

    def _names(self) -> list[str]:
        try:
            listed = self.admin().list_topics(timeout=ANSWER_SECONDS_MAX).topics
        except KafkaException as error:
            raise self.translated(error.args[0], "the cluster") from error
        return [name for name in listed if not name.startswith("__")]

    def _described(self, without: Collection[str]) -> dict[str, Any]:
        """Return the descriptions of all topics that are named or matched, and there."""
        found = {}
        for name, asked in self.describe(self.wanted() - {*without}).items():
            topic = self.answer(asked, f"topic {name}", accepted=errors.NO_TOPIC)
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
            raise errors.no_topic_ids(f"the brokers have no id for topic {name}")
        return uuid.translate(str.maketrans("+/", "-_"))  # as kafka-topics shows it

    def describe(self, names: Iterable[str]) -> dict[str, Future[Any]]:
        """Ask for topics and what we may do with them; do not wait for it."""
        asked: dict[str, Future[Any]] = self.admin().describe_topics(
            TopicCollection(sorted(names)),
            include_authorized_operations=True,
            request_timeout=ANSWER_SECONDS_MAX,
        )
        return asked

    def ask(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec, level: IsolationLevel
    ) -> dict[TopicPartition, Future[Any]]:
        """Send one request for offsets of all partitions and do not wait for it."""
        wanted = {ClientPartition(at.topic, at.partition): spec for at in partitions}
        asked = self.admin().list_offsets(
            wanted, isolation_level=level, request_timeout=ANSWER_SECONDS_MAX
        )
        by_place = {(each.topic, each.partition): future for each, future in asked.items()}
        return {at: by_place[at.topic, at.partition] for at in partitions}

    def _offsets(self, asked: Mapping[TopicPartition, Future[Any]]) -> dict[TopicPartition, Offset]:
        """Take the answers; one that was lost comes as an offset that none is: it is no answer."""
        found = {}
        for at, future in asked.items():
            what = f"topic {at.topic}"
            answer = self.answer(future, what, accepted=errors.NO_LEADER | errors.NO_TOPIC)
            if answer is None:
                continue
            if answer.offset < NO_OFFSET:
                raise self.translated(KafkaError(KafkaError._TRANSPORT), what)  # noqa: SLF001  it has no other name
            found[at] = Offset(answer.offset)
        return found

    def answer(self, asked: Future[Any], what: str, *, accepted: Collection[str] = ()) -> Any:
        """Wait for an answer about `what`; None for an accepted error. Raises as `translated`."""
        try:
            return self._waited(asked)
        except KafkaException as error:
            if error.args[0].name() in accepted:
                return None
            raise self.translated(error.args[0], what) from error

    def _waited(self, asked: Future[Any]) -> Any:
        """Wait for an answer, but not long when brokers have refused us: others may not."""
        self._heard.errors.clear()
        begun = time.monotonic()
        while time.monotonic() < begun + ANSWER_SECONDS_MAX + 1:
            try:
                return asked.result(timeout=LOOK_UP_SECONDS)
            except TimeoutError:
                self.admin().poll(0)
                reason = self._heard.reason(time.monotonic() - begun)
                if reason is not None:
                    raise KafkaException(reason) from None
        if asked.done():  # this process may have been stopped, and not the brokers
            return asked.result()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001  it has no other name

    def translated(self, error: KafkaError, what: str) -> PenstockError:
        """Translate an error about `what`, with the cause that the brokers logged meanwhile."""
        self.admin().poll(0)
        return errors.translated(error, what, self._settings, self._heard)
