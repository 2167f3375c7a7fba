from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.security import TOKENS, security_properties
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.tokens.command import TokenCommand
from penstock.connectors.kafka.tokens.endpoint import ClientCredentials
from penstock.connectors.kafka.tokens.msk import MskSigner
from penstock.connectors.kafka.tokens.source import source_of
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition, span

CLIENT = {
    "mechanism": "oauthbearer",
    "token_endpoint": "https://login.example.com/token",
    "client_id": "shop",
    "client_secret": "hush",
}
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
    ("security", "issuer", "extensions"),
    [
        (
            {**CLIENT, "scope": "kafka", "token_ca": "/ca.pem", "extensions": {"b": "2", "a": "1"}},
            ClientCredentials(
                "https://login.example.com/token", "shop", "hush", "kafka", "/ca.pem"
            ),
            (("a", "1"), ("b", "2")),
        ),
        (
            {"mechanism": "oauthbearer", "token_command": ["print", "token"]},
            TokenCommand(("print", "token")),
            (),
        ),
        ({"mechanism": "aws_msk_iam", "region": "eu-west-1"}, MskSigner("eu-west-1"), ()),
        ({"mechanism": "aws_msk_iam"}, MskSigner("eu-central-1"), ()),
    ],
    ids=["a client", "a command", "of a region", "of the brokers' region"],
)
def test_tokens_have_one_source_for_all_clients_of_a_process(
    security: dict, issuer: Any, extensions: Any
) -> None:
    brokers = "b-1.shop.x1y2.c3.kafka.eu-central-1.amazonaws.com:9098"
    read = read_settings({"brokers": brokers, "topics": [], "security": security}, Store())

    assert ("sasl_ssl", "OAUTHBEARER") == (
        read.client["security.protocol"],
        read.client["sasl.mechanism"],
    )
    assert source_of(issuer, extensions) is read.client[TOKENS] is read.tokens
    assert "hush" not in repr(read)


def test_words_of_a_command_are_taken_as_they_are() -> None:
    given = {"mechanism": "oauthbearer", "token_command": ["print", "${env:SECRET}"]}
    read = read_settings({"brokers": "a:1", "topics": [], "security": given}, Store(SECRET="x"))

    assert source_of(TokenCommand(("print", "${env:SECRET}")), ()) is read.tokens


def test_kerberos_is_mapped_for_a_librdkafka_that_has_it() -> None:
    given = {"mechanism": "gssapi", "kerberos_principal": "shop@EXAMPLE.COM"}

    assert {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": "shop@EXAMPLE.COM",
    } == security_properties(given)


def test_a_librdkafka_without_kerberos_is_named_with_the_way() -> None:
    settings = {"brokers": "127.0.0.1:1", "topics": ["t"], "security": {"mechanism": "gssapi"}}
    for opened in (connector.open_log(settings, Store()).partitions, reading(settings)):
        with pytest.raises(InvalidError, match="built without it") as caught:
            opened()
        assert "P207" == caught.value.code
        assert "--no-binary confluent-kafka" in caught.value.hint


def reading(settings: dict[str, Any]) -> Callable[[], object]:
    """Read natively; that is left to librdkafka."""
    reader = connector.open_reader(settings, Store())
    at = TopicPartition("name:t", 0, "t")
    return lambda: list(reader.read(at, span(0, 1), deadline=time.monotonic() + 9))


@pytest.mark.parametrize(
    ("security", "reported", "hinted"),
    [
        ({"protocl": "ssl"}, "protocl", "did you mean protocol"),
        ({"protocol": "tls"}, "tls", "known: plaintext, ssl"),
        ({"protocol": "sasl_ssl", "mechanism": "digest"}, "digest", "scram-sha-512"),
        ({"mechanism": "oauthbearer"}, "token_endpoint is empty", "KAFKA_TOKEN_ENDPOINT"),
        ({**CLIENT, "token_endpoint": "file:///etc/passwd"}, "no address of http", "https://"),
        (
            {**CLIENT, "token_command": ["t"]},
            "token_endpoint has no meaning with token_comm",
            "two",
        ),
        ({**CLIENT, "password": "p"}, "password has no meaning with mechanism oauthb", "plain"),
        ({"mechanism": "aws_msk_iam"}, "region is empty", "KAFKA_REGION"),
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
