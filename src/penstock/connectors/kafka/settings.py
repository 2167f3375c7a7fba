"""From the spec's `kafka` block to what librdkafka understands.

Invariants:
- secrets are resolved here, in the process that uses them, and appear in no representation;
- the neutral `security` block is mapped here and nowhere else; what is not known is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import InvalidError
from penstock.ports.connectors import Settings
from penstock.ports.runtime import Secrets

BY_ID = "topic_id"
BY_NAME = "name"
COLUMNAR, LIBRDKAFKA = "columnar", "librdkafka"
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512")
TLS_KEYS = ("ca", "certificate", "key", "key_password")
SECURITY_KEYS = ("protocol", "mechanism", "username", "password", *TLS_KEYS)
PEM_BEGIN = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the brokers are, which topics are meant, and how to prove who we are.

    `client` are librdkafka properties, with secrets in the clear.
    """

    brokers: str
    topics: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    identity: str
    client: Mapping[str, str] = field(repr=False)
    reader: str = COLUMNAR

    @property
    def user(self) -> str:
        """Name the user the brokers see."""
        return self.client.get("sasl.username", "ANONYMOUS")


def read_settings(settings: Settings, secrets: Secrets) -> KafkaSettings:
    """Read the block. Raises InvalidError (P206, P207, P208, or as `secrets` does)."""
    brokers = secrets.resolve(str(settings.get("brokers", ""))).strip()
    if not brokers:
        raise InvalidError(
            "kafka.brokers is empty", code="P207", hint="write  brokers: host:9092  under kafka:"
        )
    identity = str(settings.get("identity", BY_ID))
    if identity not in (BY_ID, BY_NAME):
        raise _unknown("kafka.identity", identity, (BY_ID, BY_NAME))
    reader = str(settings.get("reader", COLUMNAR))
    if reader not in (COLUMNAR, LIBRDKAFKA):
        raise _unknown("kafka.reader", reader, (COLUMNAR, LIBRDKAFKA))
    topics = settings.get("topics", ())
    security = _resolved(settings.get("security") or {}, secrets)
    return KafkaSettings(
        brokers=brokers,
        topics=tuple(secrets.resolve(each) for each in topics if isinstance(each, str)),
        patterns=tuple(_compiled(each["pattern"]) for each in topics if not isinstance(each, str)),
        identity=identity,
        reader=reader,
        client={
            "bootstrap.servers": brokers,
            "client.id": "penstock",
            "log_level": "0",  # what clients have to say comes through their error callback
            **security_properties(security),
        },
    )


def security_properties(security: Mapping[str, str]) -> dict[str, str]:
    """Map the neutral `security` block, secrets resolved, to librdkafka properties.

    Certificates and keys are file names, or PEM text. Raises InvalidError (P207).
    """
    for name in security:
        if name not in SECURITY_KEYS:
            raise _unknown("kafka.security", name, SECURITY_KEYS)
    protocol = _word(security.get("protocol", _implied_protocol(security)))
    if protocol not in PROTOCOLS:
        raise _unknown("kafka.security.protocol", protocol, PROTOCOLS)
    properties = {"security.protocol": protocol}
    if protocol.startswith("sasl"):
        properties |= _sasl(security)
    else:
        _refuse(security, ("mechanism", "username", "password"), protocol)
    if protocol.endswith("ssl"):
        properties |= _tls(security)
    else:
        _refuse(security, TLS_KEYS, protocol)
    return properties


def _sasl(security: Mapping[str, str]) -> dict[str, str]:
    mechanism = _word(security.get("mechanism", "")).replace("_", "-")
    if mechanism not in MECHANISMS:
        raise _unknown("kafka.security.mechanism", mechanism, MECHANISMS)
    for name in ("username", "password"):
        if not security.get(name):
            raise InvalidError(
                f"kafka.security.{name} is empty, and mechanism {mechanism} needs it",
                code="P207",
                hint=f"write  {name}: ${{env:KAFKA_{name.upper()}}}  under kafka.security:",
            )
    return {
        "sasl.mechanism": mechanism.upper(),
        "sasl.username": security["username"],
        "sasl.password": security["password"],
    }


def _tls(security: Mapping[str, str]) -> dict[str, str]:
    properties = {}
    for name, stem in (("ca", "ssl.ca"), ("certificate", "ssl.certificate"), ("key", "ssl.key")):
        value = security.get(name, "")
        if value:
            kind = "pem" if value.lstrip().startswith(PEM_BEGIN) else "location"
            properties[f"{stem}.{kind}"] = value
    if security.get("key_password"):
        properties["ssl.key.password"] = security["key_password"]
    if bool(security.get("certificate")) != bool(security.get("key")):
        raise InvalidError(
            "kafka.security has one of certificate and key; a client certificate needs both",
            code="P207",
            hint="write both, or neither",
        )
    return properties


def _implied_protocol(security: Mapping[str, str]) -> str:
    sasl = any(security.get(name) for name in ("mechanism", "username", "password"))
    tls = any(security.get(name) for name in ("ca", "certificate", "key"))
    return {(0, 0): "plaintext", (0, 1): "ssl", (1, 0): "sasl_ssl", (1, 1): "sasl_ssl"}[sasl, tls]


def _refuse(security: Mapping[str, str], names: Sequence[str], protocol: str) -> None:
    """Refuse settings that a protocol would not use: they tell of a wish that would go unheard."""
    for name in names:
        if security.get(name):
            raise InvalidError(
                f"kafka.security.{name} has no meaning with protocol {protocol}",
                code="P207",
                hint=f"choose another of {', '.join(PROTOCOLS)}, or leave {name} out",
            )


def _resolved(security: Mapping[str, Any], secrets: Secrets) -> dict[str, str]:
    given = {name: value for name, value in security.items() if value is not None}
    return {name: secrets.resolve(str(value)) for name, value in given.items()}


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidError(
            f"kafka.topics: {pattern!r} is not a Python pattern: {error}",
            code="P208",
            hint="see https://docs.python.org/3/library/re.html",
        ) from error


def _word(text: str) -> str:
    return text.strip().lower()


def _unknown(where: str, found: str, known: Sequence[str]) -> InvalidError:
    near = difflib.get_close_matches(found, known, 1)
    asked = f"did you mean {near[0]}?  " if near else ""
    return InvalidError(
        f"{where}: {found!r} is not known", code="P207", hint=f"{asked}known: {', '.join(known)}"
    )
