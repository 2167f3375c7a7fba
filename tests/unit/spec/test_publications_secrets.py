"""Passwords that stand in a spec that publishes, and settings of connections that do not agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spec.load import load_publications_with_warnings, load_with_warnings
from penstock.spec.problems import SpecError, render
from penstock.spec.settings.sources import TopicToPublish

LITERAL = "hunter2-geheim"
REFERENCE = '"${file:/run/secrets/kafka}"'
SASL = "{ protocol: sasl_ssl, mechanism: plain, username: shop, password: %s }"
SPEC = """
name: shop
kafka: { brokers: localhost:9092, security: %s, topics: [orders] }
catalogs: { lake: { type: rest, uri: http://localhost:8181, token: %s } }
publish:
  - { name: orders, from: { topic: raw, kafka: { brokers: far:9092, security: %s } }, into: copy }
  - name: rows
    from: { table: lake.gold.rows }
    into: rows
    key: { columns: [id], format: avro }
    value: { format: avro, registry: { url: http://localhost:8081, token: %s } }
publishing: { registry: { url: http://localhost:8082, username: shop, password: %s } }
"""
LANDS = """
tables: [{ from: orders, into: lake.raw.orders }]
quarantine: { into: lake.ops.quarantine }
"""
OF_BOTH = ["kafka.security.password", "catalogs.lake.token"]
OF_PUBLISHING = [
    "publish.0.from.kafka.security.password",
    "publish.1.value.registry.token",
    "publishing.registry.password",
]


def text(secret: str) -> str:
    return SPEC % (SASL % secret, secret, SASL % secret, secret, secret)


def alone(secret: str) -> str:
    return text(secret).replace(", topics: [orders]", "")


def told(found: list) -> list[str]:
    assert {("P124", "warning")} >= {(each.code, each.severity) for each in found}
    return [".".join(map(str, each.path)) for each in found]


def test_passwords_in_a_spec_that_only_publishes_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(alone(LITERAL))
    warnings = load_publications_with_warnings(path).warnings

    assert [*OF_BOTH, *OF_PUBLISHING] == told(warnings)
    assert LITERAL not in render(warnings)
    path.write_text(alone(REFERENCE))
    assert () == load_publications_with_warnings(path).warnings


def test_what_landing_warns_of_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(text(LITERAL) + LANDS)

    assert OF_BOTH == told(load_with_warnings(path).warnings)
    assert OF_PUBLISHING == told(load_publications_with_warnings(path).warnings)


def test_certificates_of_both_clusters_start_at_the_spec_file(tmp_path: Path) -> None:
    tls = "{ protocol: ssl, ca: own/ca.pem, certificate: /c.pem, key: '${env:KEY}' }"
    path = tmp_path / "penstock.yaml"
    whole = SPEC % (tls, REFERENCE, tls, REFERENCE, REFERENCE)
    path.write_text(whole.replace(", topics: [orders]", ""))
    found = load_publications_with_warnings(path).publications
    source = found.publish[0].from_
    assert isinstance(source, TopicToPublish)
    assert source.kafka is not None
    for security in (found.kafka.security, source.kafka.security):
        assert (f"{tmp_path}/own/ca.pem", "/c.pem", "${env:KEY}") == (
            security.ca,
            security.certificate,
            security.key,
        )


OAUTH = "protocol: sasl_ssl, mechanism: oauthbearer"
CLIENT = f"token_endpoint: https://x/token, client_id: shop, client_secret: {REFERENCE}"


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (f"{OAUTH}, {CLIENT}, scope: kafka, extensions: {{ pool: one }}", []),
        (f"{OAUTH}, token_command: [print, token]", []),
        ("protocol: sasl_ssl, mechanism: aws_msk_iam", []),
        ("protocol: sasl_ssl, mechanism: gssapi, kerberos_service: k", []),
        (OAUTH, [("P120", "token_endpoint"), ("P120", "client_id"), ("P120", "client_secret")]),
        (f"{OAUTH}, {CLIENT}, password: {REFERENCE}", [("P120", "password")]),
        (f"{OAUTH}, token_command: [t], scope: s", [("P120", "scope")]),
        (f"protocol: ssl, {CLIENT.split(',', maxsplit=1)[0]}", [("P120", "token_endpoint")]),
        ("protocol: sasl_ssl, mechanism: gssapi, region: eu", [("P120", "region")]),
        (f"{OAUTH}, token_command: [t, '${{env:S}}']", [("P122", "token_command.1")]),
        (f"{OAUTH}, {CLIENT.replace('https', 'file')}", [("P125", "token_endpoint")]),
        (f"{OAUTH}, {CLIENT.replace('x/', 'u:p@x/')}", [("P125", "token_endpoint")]),
        (f"{OAUTH}, {CLIENT.replace(REFERENCE, LITERAL)}", [("P124", "client_secret")]),
    ],
)
def test_each_mechanism_has_its_own_settings(
    tmp_path: Path, security: str, expected: list[tuple[str, str]]
) -> None:
    path = tmp_path / "penstock.yaml"
    whole = SPEC % (f"{{ {security} }}", *[REFERENCE] * 4)
    path.write_text(whole.replace(", topics: [orders]", "").replace(f"security: {REFERENCE}", ""))
    try:
        found = list(load_publications_with_warnings(path).warnings)
    except SpecError as error:
        found = list(error.problems)

    prefix = "kafka.security."
    places = [(each.code, ".".join(map(str, each.path))) for each in found]
    assert [(code, prefix + name) for code, name in expected] == places
    assert LITERAL not in render(found)
    assert "u:p@" not in render(found)


@pytest.mark.parametrize("place", ["kafka", "publish.0.from.kafka"])
def test_security_that_contradicts_itself_is_told(tmp_path: Path, place: str) -> None:
    path, (ours, others) = tmp_path / "penstock.yaml", (SASL % REFERENCE, SASL % REFERENCE)
    wrong = "{ protocol: sasl_ssl }"
    ours, others = (wrong, others) if place == "kafka" else (ours, wrong)
    whole = SPEC % (ours, REFERENCE, others, REFERENCE, REFERENCE)
    path.write_text(whole.replace(", topics: [orders]", ""))

    with pytest.raises(SpecError) as found:
        load_publications_with_warnings(path)
    names = ("mechanism", "username", "password")
    expected = [("P120", f"{place}.security.{name}") for name in names]
    assert expected == [(e.code, ".".join(map(str, e.path))) for e in found.value.problems]
