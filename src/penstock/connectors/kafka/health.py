"""Checks a cluster for `penstock doctor`: what runs there, what we may do, which clock is off.

Invariants:
- nothing is written, and no group is joined;
- all topics are checked, also when the first is refused;
- brokers do not report their release: it follows from the requests they understand, so the result
  is a span of releases (source: the `apiVersions` of Kafka's request schemas, by release).
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from logging.handlers import BufferingHandler
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AclOperation, OffsetSpec

from penstock.connectors.kafka.errors import no_topic_ids, not_allowed
from penstock.connectors.kafka.log import KafkaLog
from penstock.connectors.kafka.settings import BY_NAME, KafkaSettings
from penstock.connectors.kafka.transactions.open_transactions import KafkaTransactions
from penstock.core.errors import PenstockError
from penstock.core.offsets import TopicPartition
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.ports.runtime import Clock
from penstock.ports.transactions import Scope

AHEAD_SECONDS_MAX = 60
NAMED_MAX = 5

_NEEDED = {AclOperation.READ, AclOperation.DESCRIBE}
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
    """Check brokers, release, permissions and clocks; report only that no broker answers."""
    said = BufferingHandler(sys.maxsize)
    logger = logging.Logger("penstock-checkup", logging.DEBUG)  # noqa: LOG001  used here alone
    logger.addHandler(said)
    log = KafkaLog(settings, debug="feature", log_level="7", logger=logger)
    try:
        described = log.cluster()
    except PenstockError as error:
        return [failed("brokers", settings.brokers, error)]
    nodes = len(described.nodes)
    cluster = f"cluster {described.cluster_id}, {nodes} broker{'' if nodes == 1 else 's'}"
    log.admin().poll(0)
    release = _release(settings, [record.getMessage() for record in said.buffer])
    return [
        passed("brokers", settings.brokers, cluster),
        *_token(settings, clock),
        release,
        *_topics(log, settings, clock),
        *_transactions(settings, clock),
    ]


def newest_record(times: Sequence[tuple[int, str]], now_ms: int) -> CheckResult:
    """Check the newest of many partitions' newest times (-1 for none), each with its topic."""
    newest_ms, topic = max(times, default=(-1, ""))
    if newest_ms < 0:
        return passed("clock", "records", "there are none with a time to compare")
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


def _token(settings: KafkaSettings, clock: Clock) -> Iterator[CheckResult]:
    """Yield whose token the brokers took, and how long it is good."""
    if settings.tokens is not None:
        seconds = settings.tokens.token().expires_at - clock.now_ms() / 1000
        yield passed("token", f"user {settings.user}", f"it is good for {seconds:,.0f} s")


def _release(settings: KafkaSettings, lines: Sequence[str]) -> CheckResult:
    found = release_of(lines)
    subject = settings.brokers
    if found is None:
        return unknown("release", subject, "the brokers' release is not known", "")
    newest, name = found
    if newest < _TOPIC_IDS and settings.identity != BY_NAME:
        return failed("release", subject, no_topic_ids(f"Kafka {name} has no topic ids"))
    return passed("release", subject, f"Kafka {name}, by the requests it understands")


def _topics(log: KafkaLog, settings: KafkaSettings, clock: Clock) -> Iterator[CheckResult]:
    """Yield missing permissions by topic, that all others are granted, and clocks."""
    try:
        names = sorted(log.wanted())
    except PenstockError as error:
        yield failed("permissions", settings.brokers, error)
        return
    if not names:
        yield warning(
            "permissions",
            settings.brokers,
            f"user {settings.user} sees no topic that a pattern matches",
            "topics one may not describe are not listed: kafka-acls --list, or kafka.topics",
        )
        return
    asked = log.describe(names)
    readable: dict[str, Any] = {}
    for name in names:
        subject = f"topic {name}"
        try:
            topic = log.answer(asked[name], subject)
        except PenstockError as error:
            yield failed("permissions", subject, error)
            continue
        allowed = topic.authorized_operations
        if allowed is None or set(allowed) >= _NEEDED:
            readable[name] = topic
        else:
            yield failed("permissions", subject, not_allowed(subject, settings))
    if readable:
        count = f"{len(readable)} topic{'' if len(readable) == 1 else 's'}"
        message = f"user {settings.user} may read and describe {count}"
        yield passed("permissions", settings.brokers, message)
        parts = [(name, part) for name, topic in readable.items() for part in topic.partitions]
        without = [f"{name}/{part.id}" for name, part in parts if part.leader is None]
        if without:
            more = f" and {len(without) - NAMED_MAX} more" if len(without) > NAMED_MAX else ""
            yield warning(
                "leaders",
                settings.brokers,
                f"no broker leads {', '.join(without[:NAMED_MAX])}{more}",
                "bring their brokers back; other partitions land meanwhile",
            )
        led = [
            TopicPartition(name, part.id, name) for name, part in parts if part.leader is not None
        ]
        yield _records_clock(log, led, clock)


def _records_clock(log: KafkaLog, led: Sequence[TopicPartition], clock: Clock) -> CheckResult:
    """Compare the newest record's time with ours: records of the future show a wrong clock."""
    newest, level = OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED
    try:
        times = [
            (log.answer(each, f"topic {at.topic}").timestamp or -1, at.topic)
            for at, each in log.ask(led, newest, level).items()
        ]
    except PenstockError as error:
        return unknown("clock", "records", error.message, "see the brokers' logs")
    return newest_record(times, clock.now_ms())


def _transactions(settings: KafkaSettings, clock: Clock) -> Iterator[CheckResult]:
    """Yield what holds up readers of committed records, and nobody ends soon."""
    subject = settings.brokers
    with closing(KafkaTransactions(settings)) as transactions:
        try:
            listed = transactions.listed(Scope.SPEC)
        except PenstockError as error:
            yield unknown("transactions", subject, error.message, error.hint)
            return
    stuck = [each for each in listed if each.is_stuck(clock.now_ms())]
    for each in stuck:
        yield warning(
            "transactions",
            each.name,
            f"{each.state}, it holds up {each.held}",
            f"see what it is, then end it:  penstock transactions --abort {each.name}",
        )
    if not stuck:
        count = f"{len(listed)} open" if listed else "none is open"
        yield passed("transactions", subject, f"{count}, none holds up a topic for long")
