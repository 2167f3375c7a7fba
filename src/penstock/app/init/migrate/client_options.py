"""Options of a Kafka client, of Java's or of librdkafka, become settings of `kafka`.

Kafka Connect has them as `consumer.override.…`, Flink as `properties.…`, kafka-delta-ingest after
`-K`.

Invariants: what says how a client is tuned or grouped is left with the reason; what is not known,
or how brokers are spoken to otherwise, is undecided; no password is copied.

Source: Kafka, "Consumer Configs"; librdkafka, CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.app.init.migrate.account import NOT_NEEDED, Migrated, Rule, Rules, asked, to

RESET = "auto.offset.reset"
_SECURITY = "kafka.security"
_JAAS = re.compile(r"(?P<module>Plain|Scram|OAuthBearer|IAM)LoginModule\b(?P<rest>.*)", re.DOTALL)
_JAAS_OPTION = re.compile(r"\b(\w+)\s*=\s*[\"']?([^\"';\s]+)")
_JAAS_CLIENT = {"clientId": "client_id", "scope": "scope"}
_EXTENSION = "extension_"
_TOKENS_FETCHED = "not needed: Penstock fetches tokens itself"
_BROKERS_ASKED = asked("how brokers are spoken to: kafka.security and its settings")


def _plain(value: str) -> str:
    return value.strip().lower()


def _user(found: Migrated, option: str, value: str) -> None:
    (_BROKERS_ASKED if "${" in value else to(f"{_SECURITY}.username"))(found, option, value)


def _jaas(found: Migrated, option: str, value: str) -> None:
    """Take the user of a login; what is a reference of the other system is one here, too."""
    login = _JAAS.search(value)
    if login is None:
        _BROKERS_ASKED(found, option, value)
        return
    given = dict(_JAAS_OPTION.findall(login["rest"]))
    match login["module"]:
        case "OAuthBearer":
            _client(found, option, given)
        case "IAM" if not given:
            found.leave(option, "not needed: credentials of AWS are found as its tools find them")
        case "IAM":
            found.ask(option, "", "which credentials of AWS: AWS_PROFILE says it here")
        case _:
            name = given.get("username", "$")
            name = found.secret(option, "kafka_sasl_username") if "$" in name else name
            found.put(option, f"{_SECURITY}.username", name)
            found.put(option, f"{_SECURITY}.password", found.secret(option, "kafka_sasl_password"))


def _client(found: Migrated, option: str, given: Mapping[str, str]) -> None:
    """Take the client of an issuer, as a login has it before Kafka 4.1."""
    for name, value in given.items():
        if name in _JAAS_CLIENT and "$" not in value:
            found.put(option, f"{_SECURITY}.{_JAAS_CLIENT[name]}", value)
        elif name == "clientSecret":
            _secret("client_secret", "kafka_client_secret")(found, option, value)
        elif name.startswith(_EXTENSION) and "$" not in value:
            found.put(option, f"{_SECURITY}.extensions.{name.removeprefix(_EXTENSION)}", value)
        else:
            _BROKERS_ASKED(found, option, "")


def _extensions(value: str) -> dict[str, str]:
    """Read `name=value,name=value`. Raises ValueError."""
    return dict(each.strip().split("=", 1) for each in value.split(","))


def _secret(setting: str, name: str) -> Rule:
    def rule(found: Migrated, option: str, _: str) -> None:
        found.put(option, f"{_SECURITY}.{setting}", found.secret(option, name))

    return rule


CLIENT: Rules = {
    "bootstrap.servers": to("kafka.brokers"),
    "security.protocol=plaintext security.protocol=ssl security.protocol=sasl_plaintext"
    " security.protocol=sasl_ssl": to(f"{_SECURITY}.protocol", _plain),
    "sasl.mechanism=plain sasl.mechanism=scram-sha-256 sasl.mechanism=scram-sha-512"
    " sasl.mechanisms=plain sasl.mechanisms=scram-sha-256 sasl.mechanisms=scram-sha-512": to(
        f"{_SECURITY}.mechanism", _plain
    ),
    "sasl.mechanism=oauthbearer sasl.mechanisms=oauthbearer sasl.mechanism=aws_msk_iam": to(
        f"{_SECURITY}.mechanism", _plain
    ),
    "sasl.oauthbearer.token.endpoint.url": to(f"{_SECURITY}.token_endpoint"),
    "sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id": to(
        f"{_SECURITY}.client_id"
    ),
    "sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret": _secret(
        "client_secret", "kafka_client_secret"
    ),
    "sasl.oauthbearer.scope": to(f"{_SECURITY}.scope"),
    "sasl.oauthbearer.extensions": to(f"{_SECURITY}.extensions", _extensions),
    "sasl.oauthbearer.method=oidc"
    " sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.*"
    " sasl.client.callback.handler.class=software.amazon.msk.auth.iam.*": _TOKENS_FETCHED,
    "ssl.ca.location": to(f"{_SECURITY}.ca"),
    "ssl.certificate.location": to(f"{_SECURITY}.certificate"),
    "ssl.key.location": to(f"{_SECURITY}.key"),
    "sasl.username sasl.user.name": _user,
    "sasl.password": _secret("password", "kafka_sasl.password"),
    "ssl.key.password": _secret("key_password", "kafka_ssl.key.password"),
    "sasl.jaas.config": _jaas,
    "group.id group.instance.id group.protocol group.remote.assignor enable.auto.commit"
    " enable.auto.offset.store auto.commit.enable auto.commit.interval.ms"
    " partition.assignment.strategy session.timeout.ms heartbeat.interval.ms"
    " max.poll.interval.ms isolation.level=read_committed": NOT_NEEDED,
    "fetch.* max.partition.fetch.bytes max.poll.records receive.buffer.bytes send.buffer.bytes"
    " client.id client.rack client.dns.lookup metadata.* connect.* reconnect.* connections.*"
    " retry.backoff.ms retry.backoff.max.ms request.timeout.ms default.api.timeout.ms socket.*"
    " queued.* statistics.interval.ms log_level debug allow.auto.create.topics key.deserializer"
    " value.deserializer metric.* metrics.* check.crcs enable.metrics.push"
    " partition.discovery.interval.ms topic.metadata.* broker.address.*": (
        "tuning of another client, which changes no record"
    ),
    "isolation.level": asked("here only records of committed transactions are read"),
    "*": _BROKERS_ASKED,
}
"""By the names of a consumer's options, without any prefix."""
