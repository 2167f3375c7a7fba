"""Checks for `penstock doctor` what a publication needs of the cluster that it writes.

Invariants:
- nothing is written, and no id is taken: that would fence a run that lives. Whether an id may be
  written is not known before the first start; the permission is named;
- what may not be read is unknown, and said with the permission that tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType

from penstock.connectors.kafka.errors import NO_TOPIC, no_topic, not_allowed
from penstock.connectors.kafka.log import ANSWER_SECONDS_MAX, KafkaLog
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    TIMEOUT_REFUSED,
    TOPIC_REFUSED,
    refused,
    write_refused,
)
from penstock.connectors.kafka.transactions.offsets_topic import policy_refused
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.connectors.kafka.transactions.topics import COMPACT, POLICY
from penstock.core.errors import PenstockError, UnavailableError
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.ports.producers import ProducerNeeds

READING = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
NEEDED = READING | {AclOperation.WRITE}
TIMEOUT = "transaction.max.timeout.ms"
IN_SYNC = "min.insync.replicas"
SURVIVORS_MIN = 2


def examine_writing(settings: KafkaSettings, needs: ProducerNeeds) -> Iterator[CheckResult]:
    """Check protocol, permissions, settings of topics, and the time that transactions may take.

    Of brokers that do not answer nothing more is asked: each question would wait for them again.
    """
    protocol = _protocol(settings)
    yield protocol
    if protocol.exit_code == UnavailableError.exit_code:
        return
    with closing(KafkaLog(settings)) as log:
        yield from _ids(settings, needs)
        yield _timeout(log, settings, needs)
        for topic in needs.mirrored:
            yield _source(log, settings, topic)
        for topic in (*settings.topics, needs.offsets_topic):
            yield from _topic(log, settings, needs, topic)


def _protocol(settings: KafkaSettings) -> CheckResult:
    """Say which of the two clients the cluster allows."""
    subject = "transactions"
    with closing(KafkaTerms(settings, timeout_ms=1)) as terms:
        try:
            terms.check()
        except PenstockError as error:
            if error.code != "P282":
                return failed("protocol", subject, error)
            text = f"{error.message}; librdkafka writes, by transaction protocol 1"
            return warning("protocol", subject, text, error.hint)
    return passed("protocol", subject, "transaction.version 2: the own sender may write")


def _ids(settings: KafkaSettings, needs: ProducerNeeds) -> Iterator[CheckResult]:
    """Ask for what is known of ids, which takes Describe."""
    with closing(KafkaTerms(settings, timeout_ms=1)) as terms:
        for id_ in needs.ids:
            subject = f"transactional id {id_}"
            try:
                terms.remembered(id_)
            except PenstockError as error:
                yield failed("permissions", subject, error)
                continue
            text = "may be described; Write is not tried, it would fence a run that lives"
            yield passed("permissions", subject, text)


def _timeout(log: KafkaLog, settings: KafkaSettings, needs: ProducerNeeds) -> CheckResult:
    """Compare the timeout of transactions with the longest that brokers allow."""
    subject = "transaction timeout"
    try:
        node = next(iter(log.cluster().nodes))
        found = _config(log, ConfigResource(ResourceType.BROKER, str(node.id)), "the cluster")
    except PenstockError as error:
        hint = f"{_acl(settings, 'DescribeConfigs')} --cluster"
        return unknown("timeout", subject, f"{TIMEOUT}: {error.message}", hint)
    limit = int(found[TIMEOUT].value)
    if needs.timeout_ms > limit:
        return failed("timeout", subject, refused(TIMEOUT_REFUSED, "the cluster", settings))
    text = f"{needs.timeout_ms / 1000:,.0f} s; the brokers allow {limit / 1000:,.0f} s"
    return passed("timeout", subject, text)


def _source(log: KafkaLog, settings: KafkaSettings, topic: str) -> CheckResult:
    """Say whether a topic that is mirrored may be read."""
    subject = f"topic {topic}"
    try:
        found = log.answer(log.describe([topic])[topic], subject)
    except PenstockError as error:
        return failed("permissions", subject, error)
    allowed = found.authorized_operations
    if allowed is not None and not set(allowed) >= READING:
        return failed("permissions", subject, not_allowed(subject, settings))
    return passed("permissions", subject, "may be read and described")


def _topic(
    log: KafkaLog, settings: KafkaSettings, needs: ProducerNeeds, topic: str
) -> Iterator[CheckResult]:
    subject = f"topic {topic}"
    try:
        found = log.answer(log.describe([topic])[topic], subject, accepted=NO_TOPIC)
    except PenstockError as error:
        if error.code == not_allowed(subject, settings).code:  # all at once, where none is known
            error.hint = _all_of(settings, needs, topic)
        yield failed("permissions", subject, error)
        return
    if found is None:
        if topic not in needs.created:
            yield failed("topics", subject, no_topic(topic, settings))
            return
        hint = f"where it may not:  {_acl(settings, 'Create')} --topic '{topic}'"
        yield unknown("topics", subject, "is not there yet; the first run creates it", hint)
        return
    allowed = found.authorized_operations
    if allowed is not None and not set(allowed) >= NEEDED:
        yield failed("permissions", subject, write_refused(TOPIC_REFUSED, "", topic, settings))
        return
    yield passed("permissions", subject, "may be read, written and described")
    try:
        config = _config(log, ConfigResource(ResourceType.TOPIC, topic), subject)
    except PenstockError as error:
        hint = f"{_acl(settings, 'DescribeConfigs')} --topic '{topic}'"
        text = f"its settings may not be read: {error.message}; an audit needs them"
        yield unknown("topics", subject, text, hint)
        return
    yield from _settings_of(needs, topic, found, config)


def _all_of(settings: KafkaSettings, needs: ProducerNeeds, topic: str) -> str:
    operations = ["Read", "Write", "Describe", "DescribeConfigs"]
    operations += ["Create"] if topic in needs.created else []
    return f"{_acl(settings, ' --operation '.join(operations))} --topic '{topic}'"


def _settings_of(
    needs: ProducerNeeds, topic: str, found: Any, config: Mapping[str, Any]
) -> Iterator[CheckResult]:
    """Check what a topic loses with a broker, and whether an offsets topic keeps positions."""
    subject, partitions = f"topic {topic}", len(found.partitions)
    replicas = min((len(each.replicas) for each in found.partitions), default=0)
    in_sync = int(config[IN_SYNC].value)
    policy = str(config[POLICY].value)
    if topic == needs.offsets_topic and policy != COMPACT:
        yield failed("topics", subject, policy_refused(topic, policy))
        return
    count = f"{partitions} partition{'' if partitions == 1 else 's'}, {policy}"
    if min(replicas, in_sync) < SURVIVORS_MIN:
        yield warning(
            "topics",
            subject,
            f"{count}; {replicas} replicas, {IN_SYNC} {in_sync}: what is acknowledged is lost with"
            " one broker",
            f"have three replicas, and  kafka-configs --alter --entity-type topics --entity-name"
            f" '{topic}' --add-config {IN_SYNC}={SURVIVORS_MIN}",
        )
        return
    yield passed("topics", subject, f"{count}; {replicas} replicas, {IN_SYNC} {in_sync}")


def _config(log: KafkaLog, resource: ConfigResource, what: str) -> Mapping[str, Any]:
    asked = log.admin().describe_configs([resource], request_timeout=ANSWER_SECONDS_MAX)
    found: Mapping[str, Any] = log.answer(asked[resource], what)
    return found


def _acl(settings: KafkaSettings, operation: str) -> str:
    return f"kafka-acls --add --allow-principal 'User:{settings.user}' --operation {operation}"
