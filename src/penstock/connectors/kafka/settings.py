"""From the spec's `kafka` block to what librdkafka understands.

Invariants:
- secrets are resolved here, in the process that uses them, and appear in no representation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kafka.security import TOKENS, known, security_properties
from penstock.connectors.kafka.tokens.source import TokenSource
from penstock.core.errors import InvalidError
from penstock.ports.connectors import Settings
from penstock.ports.runtime import Secrets

BY_ID = "topic_id"
BY_NAME = "name"
COLUMNAR, LIBRDKAFKA = "columnar", "librdkafka"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the brokers are, which topics are meant, and how to log in.

    `named_by` says which setting of a spec names a topic, where that is known.
    """

    brokers: str
    topics: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    identity: str
    client: Mapping[str, Any] = field(repr=False)  # librdkafka's properties, secrets in the clear
    reader: str = COLUMNAR
    named_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokens(self) -> TokenSource | None:
        """Return where tokens come from, if the mechanism has them."""
        return self.client.get(TOKENS)

    @property
    def user(self) -> str:
        """Name the user the brokers see, as far as it is known."""
        if self.tokens is not None:
            return self.tokens.user
        return str(self.client.get("sasl.username", "ANONYMOUS"))

    def properties(self) -> Mapping[str, Any]:
        """Return what a client of librdkafka is made with, now that there is a token for it.

        Without one it would wait for ten seconds, and not say why. Raises InvalidError (P179),
        UnavailableError (P178).
        """
        if self.tokens is not None:
            self.tokens.token()
        return self.client


def read_settings(settings: Settings, secrets: Secrets) -> KafkaSettings:
    """Read the block. Raises InvalidError (P206, P207, P208, or as `secrets` does)."""
    brokers = secrets.resolve(str(settings.get("brokers", ""))).strip()
    if not brokers:
        raise InvalidError(
            "kafka.brokers is empty", code="P207", hint="write  brokers: host:9092  under kafka:"
        )
    topics, given = settings.get("topics", ()), settings.get("security") or {}
    security = {
        name: _resolved(value, secrets) for name, value in given.items() if value is not None
    }
    return KafkaSettings(
        brokers=brokers,
        topics=tuple(secrets.resolve(each) for each in topics if isinstance(each, str)),
        patterns=tuple(_compiled(each["pattern"]) for each in topics if not isinstance(each, str)),
        identity=known("kafka.identity", settings.get("identity", BY_ID), (BY_ID, BY_NAME)),
        named_by={secrets.resolve(name): by for name, by in settings.get("named_by", {}).items()},
        reader=known("kafka.reader", settings.get("reader", COLUMNAR), (COLUMNAR, LIBRDKAFKA)),
        client={
            "bootstrap.servers": brokers,
            "client.id": "penstock",
            "log_level": "0",  # what clients have to say comes through their error callback
            **security_properties(security, brokers),
        },
    )


def _resolved(value: Any, secrets: Secrets) -> Any:
    """Resolve references; words of a command have none, so that no secret is among them."""
    match value:
        case Mapping():
            return {str(name): secrets.resolve(str(each)) for name, each in value.items()}
        case list() | tuple():
            return tuple(str(each) for each in value)
        case _:
            return secrets.resolve(str(value))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidError(
            f"kafka.topics: {pattern!r} is not a Python pattern: {error}",
            code="P208",
            hint="see https://docs.python.org/3/library/re.html",
        ) from error
