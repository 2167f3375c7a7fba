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
    """Where the brokers are, which topics are meant, and how to log in.

    `named_by` says which setting of a spec names a topic, where that is known.
    """

    brokers: str
    topics: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    identity: str
    client: Mapping[str, str] = field(repr=False)  # librdkafka's properties, secrets in the clear
    reader: str = COLUMNAR
    named_by: Mapping[str, str] = field(default_factory=dict)

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
    topics, given = settings.get("topics", ()), settings.get("security") or {}
    security = {
        name: secrets.resolve(str(value)) for name, value in given.items() if value is not None
    }
    return KafkaSettings(
        brokers=brokers,
        topics=tuple(secrets.resolve(each) for each in topics if isinstance(each, str)),
        patterns=tuple(_compiled(each["pattern"]) for each in topics if not isinstance(each, str)),
        identity=_known("kafka.identity", settings.get("identity", BY_ID), (BY_ID, BY_NAME)),
        named_by={secrets.resolve(name): by for name, by in settings.get("named_by", {}).items()},
        reader=_known("kafka.reader", settings.get("reader", COLUMNAR), (COLUMNAR, LIBRDKAFKA)),
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
        _known("kafka.security", name, SECURITY_KEYS)
    protocol = security.get("protocol", _implied_protocol(security)).strip().lower()
    _known("kafka.security.protocol", protocol, PROTOCOLS)
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
    mechanism = security.get("mechanism", "").strip().lower().replace("_", "-")
    _known("kafka.security.mechanism", mechanism, MECHANISMS)
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
    if any(security.get(name) for name in ("mechanism", "username", "password")):
        return "sasl_ssl"
    return (
        "ssl" if any(security.get(name) for name in ("ca", "certificate", "key")) else "plaintext"
    )


def _refuse(security: Mapping[str, str], names: Sequence[str], protocol: str) -> None:
    """Refuse settings that a protocol would not use: they would have no effect."""
    for name in names:
        if security.get(name):
            raise InvalidError(
                f"kafka.security.{name} has no meaning with protocol {protocol}",
                code="P207",
                hint=f"choose another of {', '.join(PROTOCOLS)}, or leave {name} out",
            )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidError(
            f"kafka.topics: {pattern!r} is not a Python pattern: {error}",
            code="P208",
            hint="see https://docs.python.org/3/library/re.html",
        ) from error


def _known(where: str, given: Any, known: Sequence[str]) -> str:
    """Return what is given if it is known. Raises InvalidError (P207)."""
    found = str(given)
    if found in known:
        return found
    near = difflib.get_close_matches(found, known, 1)
    asked = f"did you mean {near[0]}?  " if near else ""
    raise InvalidError(
        f"{where}: {found!r} is not known", code="P207", hint=f"{asked}known: {', '.join(known)}"
    )
