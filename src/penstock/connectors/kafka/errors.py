"""From librdkafka's errors to ours: the one place that distinguishes them.

Invariants:
- a message names the topic, partition or brokers concerned, and no secret;
- trouble that passes by itself is UnavailableError; what a person must change is InvalidError;
  records that were deleted or replaced are DecisionNeededError.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.offsets import OffsetRange, TopicPartition

HEARD_MAX = 50

# Names as `KafkaError.name()` returns them.
AUTHENTICATION = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
}
TLS = {"_SSL"}
AUTHORIZATION = {
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
}
NO_TOPIC = {
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "TOPIC_EXCEPTION",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
}
NO_LEADER = {
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "REPLICA_NOT_AVAILABLE",
    "BROKER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "OFFSET_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "_LEADER_NOT_AVAILABLE",
}
UNREACHABLE = {
    "_TRANSPORT",
    "_TIMED_OUT",
    "_TIMED_OUT_QUEUE",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
}
CORRUPT = {"_BAD_MSG", "_BAD_COMPRESSION", "_UNDERFLOW", "INVALID_MSG"}
OUT_OF_RANGE = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}
REFUSAL_SECONDS_MAX = 2
DOWN_SECONDS_MAX = 8


@dataclass(slots=True)
class BrokerLog:
    """Listen to a client's error callback; keeps the newest errors of each name.

    That all brokers are down is said once, and twenty refused connections a second follow it.
    """

    errors: dict[str, deque[Any]] = field(default_factory=dict)

    def __call__(self, error: Any) -> None:
        """Take note; called by the client while it is polled."""
        self.errors.setdefault(error.name(), deque(maxlen=HEARD_MAX)).append(error)

    def first(self, names: set[str], *, about: str = "") -> Any | None:
        """Return the oldest error that begins with `about`, of the name of these heard first."""
        named = (errors for name, errors in self.errors.items() if name in names)
        matching = (error for errors in named for error in errors)
        return next((error for error in matching if error.str().startswith(about)), None)

    def reason(self, silent_seconds: float) -> Any | None:
        """Return what explains a silence and makes it useless to wait longer.

        One broker may refuse us or be down while another answers: hence some patience.
        """
        reason = None
        if silent_seconds > REFUSAL_SECONDS_MAX:
            reason = self.first(AUTHENTICATION | TLS)
        if reason is None and silent_seconds > DOWN_SECONDS_MAX:
            reason = self.first({"_ALL_BROKERS_DOWN"})
        return reason


def translated(error: Any, what: str, settings: KafkaSettings, heard: BrokerLog) -> PenstockError:
    """Translate a KafkaError about `what` (`topic shop.orders`, `the cluster`).

    A time-out is blamed on what the client's threads heard meanwhile: a refused password shows in
    the answer only as silence.
    """
    name = error.name()
    if name in UNREACHABLE:
        refusal = heard.first(AUTHENTICATION | TLS)
        if refusal is not None:
            return translated(refusal, what, settings, heard)
        cause = heard.first({"_RESOLVE", "_TRANSPORT"}) or error
        return UnavailableError(
            f"no broker answers at {settings.brokers}: {cause.str()}",
            code="P201",
            hint="check kafka.brokers and the network; on this machine: penstock dev status",
        )
    if name in AUTHENTICATION:
        return _unauthenticated(error, settings)
    if name in TLS:
        return InvalidError(
            f"no TLS connection with {settings.brokers} came about: {error.str()}",
            code="P203",
            hint="check protocol, ca, certificate and key under kafka.security",
        )
    if name in AUTHORIZATION:
        return not_allowed(what, settings)
    if name in NO_TOPIC:
        return no_topic(what.removeprefix("topic "), settings)
    if name in CORRUPT:
        return DecisionNeededError(
            f"{what} holds a damaged batch: {error.str()}",
            code="P212",
            hint="restore the partition from a replica or backup",
        )
    return UnavailableError(
        f"Kafka did not answer for {what}: {error.str()} ({name})",
        code="P220",
        hint="wait and run again; if it persists, see the brokers' logs",
    )


def _unauthenticated(error: Any, settings: KafkaSettings) -> PenstockError:
    """Build the error for a user whom the brokers refuse, or who has no token to show."""
    hint = "check protocol, mechanism, username and password under kafka.security"
    if settings.tokens is not None:
        try:
            settings.tokens.token()
        except PenstockError as missing:
            return missing
        hint = "compare the token's issuer, audience and scope with what the brokers expect"
    return InvalidError(
        f"the brokers at {settings.brokers} refused user {settings.user}: {error.str()}",
        code="P202",
        hint=hint,
    )


def not_allowed(what: str, settings: KafkaSettings) -> InvalidError:
    """Build the error for a missing permission."""
    kind, _, name = what.partition(" ")
    named = f" --{kind} '{name}'" if kind in ("topic", "group") else " --cluster"
    return InvalidError(
        f"user {settings.user} may not read {what}",
        code="P204",
        hint=f"kafka-acls --add --allow-principal 'User:{settings.user}'"
        f" --operation Read --operation Describe{named}",
    )


def no_topic(name: str, settings: KafkaSettings, *, like: str = "") -> InvalidError:
    """Build the error for a topic that does not exist; `like` is one that was perhaps meant."""
    meant = f"; did you mean {like}?" if like else ""
    return InvalidError(
        f"topic {name} does not exist on {settings.brokers}",
        code="P205",
        hint=f"create it, or correct {settings.named_by.get(name, 'its name in the spec')}{meant}",
    )


def no_topic_ids(fact: str) -> InvalidError:
    """Build the error for brokers that assign topics no ids."""
    return InvalidError(
        f"{fact}, so a re-created topic goes unnoticed",
        code="P206",
        hint="upgrade the brokers to Kafka 3.1 or later, or write  identity: name  under"
        " kafka: and never re-create a topic",
    )


def used_after_fork() -> BugError:
    """Build the error for a reader that is used in another process than it was opened in."""
    return BugError("a Kafka reader was used after a fork", code="P720", hint="please report this")


def overtaken(at: TopicPartition, missing: OffsetRange) -> DecisionNeededError:
    """Build the error for records that retention deleted before they were read."""
    return DecisionNeededError(
        f"{at}: offsets {missing} are no longer in Kafka: {missing.count} positions were deleted"
        " by retention before they were read",
        code="P210",
        hint="to continue after them and record the gap:  penstock run --accept gap",
    )


def replaced(at: TopicPartition, settings: KafkaSettings) -> InvalidError:
    """Build the error for a topic that was deleted and created again since it was planned."""
    return InvalidError(
        f"topic {at.topic} does not exist under the id {at.topic_id} on {settings.brokers}: it was"
        " deleted and created again",
        code="P205",
        hint="run again: the new topic is another one",
    )


def truncated(at: TopicPartition, position: int) -> DecisionNeededError:
    """Build the error for a log that lost records that had been read (unclean election)."""
    return DecisionNeededError(
        f"{at}: was read up to {position}, and its leader's log no longer holds what was read:"
        " records were lost or replaced, as by an unclean leader election",
        code="P211",
        hint="an unclean leader election lost records the table holds: compare both",
    )


def refused(error: Any, settings: KafkaSettings) -> InvalidError:
    """Build the error for a property that librdkafka refuses, without secret values."""
    text = error.str()
    if "No provider for SASL mechanism GSSAPI" in text:
        return InvalidError(
            "mechanism gssapi: librdkafka was built without it here, as in all wheels",
            code="P207",
            hint="build confluent-kafka against a librdkafka with libsasl2:"
            "  pip install --no-binary confluent-kafka confluent-kafka",
        )
    for name, value in settings.client.items():
        if name.startswith(("sasl.", "ssl.")):
            text = text.replace(value, "…")
    return InvalidError(
        f"the Kafka client rejects its settings: {text}",
        code="P207",
        hint="correct kafka.security in the spec",
    )
