"""What brokers answer to requests of our own, as errors with codes.

Invariants:
- a reason has Kafka's number and name of the error, and no secret;
- a connection that fails for good is explained by librdkafka, which distinguishes a refused user
  from TLS that does not match; only what it can do, and our own connection cannot, is P284.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from kafka.errors import for_code

from penstock.connectors.kafka.errors import no_topic, not_allowed
from penstock.connectors.kafka.log import KafkaLog
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import InvalidError, PenstockError, UnavailableError

UNKNOWN_TOPIC = 3
TOPIC_REFUSED, CLUSTER_REFUSED, ID_REFUSED = 29, 31, 53
WRITE_REFUSED = frozenset({TOPIC_REFUSED, CLUSTER_REFUSED, ID_REFUSED})
TIMEOUT_REFUSED = 50
NOT_FOUND = 105
COORDINATOR_MOVED = frozenset({14, 15, 16})
"""The coordinator loads its state, there is none, or it is another broker."""
CONCURRENT = 51
"""The end of the transaction before has not been written to all partitions."""
TRANSACTION_VERSION = "transaction.version"
TRANSACTION_LEVEL = 2


def named(error: int) -> str:
    """Return the number and the name of an error."""
    return f"{for_code(error).__name__.removesuffix('Error')}, error {error}"


def refused(error: int, what: str, settings: KafkaSettings) -> PenstockError:
    """Return what an error means that no further attempt cures at once.

    `what` is `topic NAME`, `transactional id ID` or `the cluster`.
    """
    if error == ID_REFUSED:
        return InvalidError(
            f"user {settings.user} may not use {what}",
            code="P281",
            hint=f"kafka-acls --add --allow-principal 'User:{settings.user}' --operation Write"
            f" --operation Describe --transactional-id '{what.removeprefix('transactional id ')}'",
        )
    if error == CLUSTER_REFUSED:
        return InvalidError(
            f"user {settings.user} may not write transaction markers",
            code="P281",
            hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
            " --operation Alter --cluster",
        )
    if error == TOPIC_REFUSED:
        return not_allowed(what, settings)
    if error == UNKNOWN_TOPIC:
        return no_topic(what.removeprefix("topic "), settings)
    if error == TIMEOUT_REFUSED:
        return InvalidError(
            "the brokers refuse the transaction's timeout: it is longer than they allow",
            code="P283",
            hint="shorten the timeout, or raise  transaction.max.timeout.ms  of the brokers",
        )
    return not_answered(what, named(error))


def write_refused(
    error: int, transactional_id: str, topic: str, settings: KafkaSettings
) -> PenstockError:
    """Return the error for a user who may not write a topic, or not under an id."""
    if error == ID_REFUSED:
        return refused(error, f"transactional id {transactional_id}", settings)
    if error == CLUSTER_REFUSED:
        return InvalidError(
            f"user {settings.user} may not write under a producer id",
            code="P281",
            hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
            " --operation IdempotentWrite --cluster",
        )
    return InvalidError(
        f"user {settings.user} may not write topic {topic}",
        code="P281",
        hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
        f" --operation Read --operation Write --operation Describe --topic '{topic}'",
    )


def not_answered(what: str, reason: str) -> UnavailableError:
    """Return the error for a broker that does not do what was asked, for now."""
    return UnavailableError(
        f"Kafka did not answer for {what}: {reason}",
        code="P280",
        hint="wait and run again; if it persists, see the brokers' logs",
    )


def unconnected(error: FallbackError, what: str, settings: KafkaSettings) -> PenstockError:
    """Return the error for a connection that failed."""
    if not error.lasting:
        return not_answered(what, str(error))
    try:
        with closing(KafkaLog(settings)) as log:
            log.cluster_id()
    except PenstockError as explained:
        return explained
    if error.is_of_network:  # a broker that came back, meanwhile
        return not_answered(what, str(error))
    return InvalidError(
        f"transactions need a connection of our own, and it was not established: {error}",
        code="P284",
        hint="a client certificate has to be a file, named by its path under kafka.security, and"
        " the mechanism another one than gssapi",
    )


def require_version(wire: Wire, request: Any, version: int, settings: KafkaSettings) -> int:
    """Return exactly this version of a request. Raises InvalidError (P282) for older brokers."""
    try:
        found = wire.version(request, version)
    except FallbackError:
        found = -1
    if found != version:
        name = request.name.removesuffix("Request")
        raise too_old(settings, f"they do not support version {version} of {name}")
    return version


def too_old(settings: KafkaSettings, reason: str) -> InvalidError:
    """Return the error for brokers that lack what transactions need."""
    return InvalidError(
        f"the brokers at {settings.brokers} are too old: {reason}",
        code="P282",
        hint="producer: librdkafka  under  publishing:  from Kafka 3.6 on; or upgrade the brokers,"
        " and then  kafka-features upgrade --feature transaction.version=2",
    )
