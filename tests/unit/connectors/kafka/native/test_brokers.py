from __future__ import annotations

import ssl

import pytest

from penstock.connectors.kafka.native.brokers import (
    addresses,
    sasl_settings,
    tls_context,
    topic_id_of,
)
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.security import security_properties
from penstock.core.offsets import TopicPartition


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b ", [("a", 1), ("b", 9092)]),
        ("SASL_SSL://a:1", [("a", 1)]),
        ("[::1]:7,[fe80::1]", [("::1", 7), ("fe80::1", 9092)]),
    ],
)
def test_addresses_are_read_as_librdkafka_reads_them(
    brokers: str, expected: list[tuple[str, int]]
) -> None:
    assert expected == list(addresses(brokers, "sasl_ssl"))


@pytest.mark.parametrize("brokers", ["a:x", ":1", "", "PLAINTEXT://a:1"])
def test_an_address_that_is_not_understood_is_left_to_librdkafka(brokers: str) -> None:
    with pytest.raises(FallbackError) as caught:
        list(addresses(brokers, "sasl_ssl"))
    assert caught.value.lasting


def test_names_are_checked_and_old_tls_is_refused() -> None:
    context = tls_context(security_properties({"protocol": "ssl"}))

    assert context.check_hostname
    assert ssl.CERT_REQUIRED == context.verify_mode
    assert ssl.TLSVersion.TLSv1_2 == context.minimum_version


def test_what_ssl_cannot_be_given_is_left_to_librdkafka() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nx"
    for security in (
        {"protocol": "ssl", "certificate": pem, "key": "/nowhere/key.pem"},
        {"protocol": "ssl", "ca": "/nowhere/ca.pem"},
        {"protocol": "ssl", "ca": pem},
    ):
        with pytest.raises(FallbackError) as caught:
            tls_context(security_properties(security))
        assert caught.value.lasting


def test_a_password_is_handed_to_the_mechanism_only_with_sasl() -> None:
    given = {"mechanism": "scram-sha-512", "username": "u", "password": "p"}

    assert {} == sasl_settings(security_properties({}))
    assert {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    } == sasl_settings(security_properties(given))


def test_an_id_is_known_where_the_plan_names_one() -> None:
    at = TopicPartition("x4WcHiB5TCOcTMDogP0Tuw", 0, "t")

    assert "c7859c1e-2079-4c23-9c4c-c0e880fd13bb" == str(topic_id_of(at))
    for name in ("name:t", "name:same-LogAppendTime", "id", "ä", "x" * 23):
        assert topic_id_of(TopicPartition(name, 0, "t")) is None
