from __future__ import annotations

import pytest

from penstock.connectors.kafka.settings import read_settings, security_properties
from penstock.core.errors import InvalidError

PEM = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"


class Store:
    """Secrets by name, for references of the form `${env:NAME}`."""

    def __init__(self, **known: str) -> None:
        self.known = {f"${{env:{name}}}": value for name, value in known.items()}

    def resolve(self, text: str) -> str:
        return self.known.get(text, text)


def test_plain_settings_need_brokers_only() -> None:
    settings = read_settings({"brokers": "a:1,b:2", "topics": ["t"]}, Store())

    assert ("a:1,b:2", ("t",), "topic_id") == (settings.brokers, settings.topics, settings.identity)
    assert "plaintext" == settings.client["security.protocol"]
    assert "a:1,b:2" == settings.client["bootstrap.servers"]


def test_references_are_resolved_and_secrets_not_shown() -> None:
    given = {
        "brokers": "${env:BROKERS}",
        "topics": [],
        "security": {"mechanism": "plain", "username": "u", "password": "${env:PASSWORD}"},
    }
    settings = read_settings(given, Store(BROKERS="k:9092", PASSWORD="hush"))

    assert ("k:9092", "hush") == (settings.brokers, settings.client["sasl.password"])
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("security", "properties"),
    [
        ({}, {"security.protocol": "plaintext"}),
        (
            {
                "protocol": "SASL_SSL",
                "mechanism": "scram-sha-512",
                "username": "u",
                "password": "p",
                "ca": "/ca.pem",
            },
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "u",
                "sasl.password": "p",
                "ssl.ca.location": "/ca.pem",
            },
        ),
        (
            {
                "protocol": "sasl_plaintext",
                "mechanism": "SCRAM_SHA_256",
                "username": "u",
                "password": "p",
            },
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "u",
                "sasl.password": "p",
            },
        ),
        (
            {"mechanism": "plain", "username": "u", "password": "p"},
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "p",
            },
        ),
        (
            {"ca": PEM, "certificate": PEM, "key": "/key.pem"},
            {
                "security.protocol": "ssl",
                "ssl.ca.pem": PEM,
                "ssl.certificate.pem": PEM,
                "ssl.key.location": "/key.pem",
            },
        ),
    ],
    ids=["none", "scram over tls", "scram 256", "tls is implied", "mutual tls from text"],
)
def test_security_is_mapped(security: dict[str, str], properties: dict[str, str]) -> None:
    assert properties == security_properties(security)


@pytest.mark.parametrize(
    ("security", "reported", "hinted"),
    [
        ({"protocl": "ssl"}, "protocl", "did you mean protocol"),
        ({"protocol": "tls"}, "tls", "known: plaintext, ssl"),
        ({"protocol": "sasl_ssl", "mechanism": "gssapi"}, "gssapi", "scram-sha-512"),
        ({"protocol": "sasl_ssl"}, "mechanism", "plain"),
        ({"mechanism": "plain", "username": "u"}, "password is empty", "env:KAFKA_PASSWORD"),
        ({"protocol": "ssl", "username": "u"}, "username has no meaning", "sasl_ssl"),
        ({"protocol": "plaintext", "ca": "/ca"}, "ca has no meaning", "ssl"),
        ({"protocol": "ssl", "key": "/key"}, "one of certificate and key", "both"),
    ],
)
def test_security_that_cannot_be_meant_is_refused(
    security: dict[str, str], reported: str, hinted: str
) -> None:
    with pytest.raises(InvalidError, match=reported) as caught:
        security_properties(security)

    assert "P207" == caught.value.code
    assert hinted in caught.value.hint


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"brokers": " ", "topics": []}, "P207"),
        ({"brokers": "a:1", "topics": [], "identity": "uuid"}, "P207"),
        ({"brokers": "a:1", "topics": [{"pattern": "("}]}, "P208"),
    ],
)
def test_other_settings_that_cannot_be_meant_are_refused(given: dict, code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_settings(given, Store())

    assert code == caught.value.code


def test_patterns_are_python_patterns_with_named_groups() -> None:
    settings = read_settings(
        {"brokers": "a:1", "topics": ["exact", {"pattern": r"shop\.(?P<name>.+)"}]}, Store()
    )
    (pattern,) = settings.patterns

    assert ("exact",) == settings.topics
    assert pattern.fullmatch("shop.orders")
