"""Looks at a cluster for `penstock doctor`: what runs there, what we may do, whose clock is off.

Invariants:
- nothing is written, and no group is joined;
- all topics are looked at, also when the first is refused;
- brokers do not tell their release: it is read off the requests they understand, so what is told is
  a span of releases (source: the `apiVersions` of Kafka's request schemas, by release).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from penstock.connectors.kafka.errors import BrokerLog, no_topic_ids, not_allowed, translated
from penstock.connectors.kafka.log import KafkaLog, waited
from penstock.connectors.kafka.settings import BY_NAME, KafkaSettings
from penstock.core.errors import PenstockError
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.ports.runtime import Clock

AHEAD_SECONDS_MAX = 60
ANSWER_SECONDS_MAX = 20
NAMED_MAX = 5

_NEEDED = (AclOperation.READ, AclOperation.DESCRIBE)
_FETCH = re.compile(r"ApiKey Fetch \(1\) Versions (\d+)\.\.(\d+)")
_TOPIC_IDS = 13
"""Version of Fetch that came with topic ids, in Kafka 3.1 (KIP-516)."""
_RELEASES = (
    (18, "4.1 or later"),
    (17, "3.9 or 4.0"),
    (16, "3.7 or 3.8"),
    (14, "3.5 or 3.6"),
    (_TOPIC_IDS, "3.1 to 3.4"),
    (12, "2.7 to 3.0"),
    (0, "older than 2.7"),
)


def examine(settings: KafkaSettings, clock: Clock) -> list[CheckResult]:
    """Look at brokers, release, permissions and clocks; when no broker answers, tell that alone."""
    checkup = _Checkup(settings, clock)
    try:
        described = checkup.described()
    except PenstockError as error:
        return [failed("brokers", settings.brokers, error)]
    nodes = len(described.nodes)
    told = f"cluster {described.cluster_id}, {nodes} broker{'' if nodes == 1 else 's'}"
    return [
        passed("brokers", settings.brokers, told),
        checkup.release(),
        *checkup.permissions(),
    ]


def newest_record(times: Sequence[tuple[int, str]], now_ms: int) -> CheckResult:
    """Judge the newest of many partitions' newest times (-1 for none), each with its topic."""
    newest_ms, topic = max(times, default=(-1, ""))
    if newest_ms < 0:
        return passed("clock", "records", "there are none whose time could be compared")
    ahead_seconds = (newest_ms - now_ms) / 1000
    if ahead_seconds <= AHEAD_SECONDS_MAX:
        return passed("clock", "records", "none is ahead of this machine's clock")
    return warning(
        "clock",
        "records",
        f"the newest record of {topic} is {ahead_seconds:,.0f} s ahead of this machine's clock",
        "compare the clocks of producers and of this machine:  timedatectl",
    )


def release_of(lines: Sequence[str]) -> tuple[int, str] | None:
    """Read off a client's debug lines the newest Fetch, and the releases that speak it."""
    found = [match for line in lines if (match := _FETCH.search(line))]
    if not found:
        return None
    newest = int(found[-1][2])
    return newest, next(name for least, name in _RELEASES if newest >= least)


class _Lines(logging.Handler):
    """Keep what a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


class _Checkup:
    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._heard, self._lines = BrokerLog(), _Lines()
        logger = logging.Logger("penstock-checkup", logging.DEBUG)  # noqa: LOG001  nobody else's
        logger.addHandler(self._lines)
        asked = {**settings.client, "debug": "feature", "log_level": "7", "error_cb": self._heard}
        self._client = AdminClient(asked, logger=logger)

    def described(self) -> Any:
        """Ask for the cluster. Raises as the log does, which knows how long to wait."""
        log = KafkaLog(self._settings)
        try:
            log.cluster_id()
        finally:
            log.close()
        return self._answer(
            self._client.describe_cluster(request_timeout=ANSWER_SECONDS_MAX), "the cluster"
        )

    def release(self) -> CheckResult:
        """Return the brokers' release as far as it is known."""
        self._client.poll(0)
        found = release_of(self._lines.lines)
        subject = self._settings.brokers
        if found is None:
            return unknown("release", subject, "the brokers' release cannot be told", "")
        newest, name = found
        if newest < _TOPIC_IDS and self._settings.identity != BY_NAME:
            return failed("release", subject, no_topic_ids(f"Kafka {name} has no topic ids"))
        return passed("release", subject, f"Kafka {name}, by the requests it understands")

    def permissions(self) -> Iterator[CheckResult]:
        """Yield missing permissions by topic, that all others are granted, and clocks."""
        try:
            names = sorted(KafkaLog(self._settings).wanted())
        except PenstockError as error:
            yield failed("permissions", self._settings.brokers, error)
            return
        if not names:
            yield warning(
                "permissions",
                self._settings.brokers,
                f"user {self._settings.user} sees no topic that a pattern matches",
                "topics one may not describe are not listed: kafka-acls --list, or kafka.topics",
            )
            return
        asked = self._client.describe_topics(
            TopicCollection(names),
            include_authorized_operations=True,
            request_timeout=ANSWER_SECONDS_MAX,
        )
        readable: dict[str, Any] = {}
        for name in names:
            found = self._permitted(name, asked[name])
            if isinstance(found, CheckResult):
                yield found
            else:
                readable[name] = found
        if readable:
            count = f"{len(readable)} topic{'' if len(readable) == 1 else 's'}"
            message = f"user {self._settings.user} may read and describe {count}"
            yield passed("permissions", self._settings.brokers, message)
            yield from self._leaders(readable)
            yield self._records_clock(readable)

    def _permitted(self, name: str, asked: Any) -> Any:
        """Return a topic's description, or the finding that it may not be read or is not there."""
        try:
            topic = self._answer(asked, f"topic {name}")
        except PenstockError as error:
            return failed("permissions", f"topic {name}", error)
        allowed = topic.authorized_operations
        lacking = [each for each in _NEEDED if allowed is not None and each not in allowed]
        if lacking:
            return failed(
                "permissions", f"topic {name}", not_allowed(f"topic {name}", self._settings)
            )
        return topic

    def _leaders(self, topics: Mapping[str, Any]) -> Iterator[CheckResult]:
        without = [
            f"{name}/{part.id}"
            for name, topic in topics.items()
            for part in topic.partitions
            if part.leader is None
        ]
        if without:
            more = f" and {len(without) - NAMED_MAX} more" if len(without) > NAMED_MAX else ""
            yield warning(
                "leaders",
                self._settings.brokers,
                f"no broker leads {', '.join(without[:NAMED_MAX])}{more}",
                "bring their brokers back; other partitions land meanwhile",
            )

    def _records_clock(self, topics: Mapping[str, Any]) -> CheckResult:
        """Compare the newest record's time with ours: records of the future tell of a clock."""
        wanted = {
            ClientPartition(name, part.id): OffsetSpec.max_timestamp()
            for name, topic in topics.items()
            for part in topic.partitions
            if part.leader is not None
        }
        try:
            asked = self._client.list_offsets(
                wanted,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=ANSWER_SECONDS_MAX,
            )
            times = [
                (self._answer(each, f"topic {at.topic}").timestamp or -1, at.topic)
                for at, each in asked.items()
            ]
        except PenstockError as error:
            return unknown("clock", "records", error.message, "see the brokers' logs")
        return newest_record(times, self._clock.now_ms())

    def _answer(self, asked: Any, what: str) -> Any:
        try:
            return waited(asked, ANSWER_SECONDS_MAX + 1)
        except KafkaException as error:
            raise translated(error.args[0], what, self._settings, self._heard) from error
