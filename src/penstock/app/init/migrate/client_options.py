"""Options of a Kafka client, of Java's or of librdkafka, become settings of `kafka`.

Kafka Connect has them as `consumer.override.…`, Flink as `properties.…`, kafka-delta-ingest behind
`-K`.

Invariants: what says how a client is tuned or grouped is left with the reason; what is not known,
or how brokers are spoken to otherwise, is undecided; no password is copied.

Source: Kafka, "Consumer Configs"; librdkafka, CONFIGURATION.md.
"""

from __future__ import annotations

import re

from penstock.app.init.migrate.account import NOT_NEEDED, Migrated

RESET = "auto.offset.reset"
_TUNING = "tuning of another client, which changes no record"
_FILES = {
    "ssl.ca.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
}
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512")
_USERS = {"sasl.username", "sasl.user.name"}
_PASSWORDS = {"sasl.password": "password", "ssl.key.password": "key_password"}
_JAAS = re.compile(r"(?:PlainLoginModule|ScramLoginModule)\b(?P<rest>.*)", re.DOTALL)
_JAAS_USER = re.compile(r"\busername\s*=\s*[\"']?(?P<name>[^\"';\s]+)")
_GROUPED = re.compile(
    r"group\.(id|instance\.id|protocol|remote\.assignor)|enable\.auto\.(commit|offset\.store)"
    r"|auto\.commit\.(enable|interval\.ms)|partition\.assignment\.strategy"
    r"|(session\.timeout|heartbeat\.interval|max\.poll\.interval)\.ms|isolation\.level=read_committed"
)
_TUNED = re.compile(
    r"fetch\.[a-z.]+|max\.(partition\.fetch\.bytes|poll\.records)|(receive|send)\.buffer\.bytes"
    r"|client\.(id|rack|dns\.lookup)|metadata\.[a-z.]+|(re)?connect(ions)?\.[a-z.]+"
    r"|retry\.backoff(\.max)?\.ms|(request|default\.api)\.timeout\.ms|socket\.[a-z.]+"
    r"|queued\.[a-z.]+|statistics\.interval\.ms|log_level|debug|allow\.auto\.create\.topics"
    r"|(key|value)\.deserializer|metrics?\.[a-z.]+|check\.crcs|enable\.metrics\.push"
    r"|partition\.discovery\.interval\.ms|topic\.metadata\.[a-z.]+|broker\.address\.[a-z.]+"
)


def client_option(found: Migrated, option: str, key: str, value: str) -> None:
    """Account for one option of a consumer, by its `key` without any prefix."""
    security, plain = "kafka.security", value.strip().lower()
    if key == "bootstrap.servers":
        found.put(option, "kafka.brokers", value)
    elif key == "security.protocol" and plain in _PROTOCOLS:
        found.put(option, f"{security}.protocol", plain)
    elif key in ("sasl.mechanism", "sasl.mechanisms") and plain in _MECHANISMS:
        found.put(option, f"{security}.mechanism", plain)
    elif key in _FILES:
        found.put(option, f"{security}.{_FILES[key]}", value)
    elif key in _USERS and "${" not in value:
        found.put(option, f"{security}.username", value)
    elif key in _PASSWORDS:
        found.put(option, f"{security}.{_PASSWORDS[key]}", found.secret(option, f"kafka_{key}"))
    elif key == "sasl.jaas.config" and (jaas := _JAAS.search(value)):
        _jaas(found, option, jaas["rest"])
    elif _GROUPED.fullmatch(key) or _GROUPED.fullmatch(f"{key}={plain}"):
        found.leave(option, NOT_NEEDED)
    elif _TUNED.fullmatch(key):
        found.leave(option, _TUNING)
    elif key == "isolation.level":
        found.ask(option, value, "here only records of committed transactions are read")
    else:
        found.ask(option, value, "how brokers are spoken to: kafka.security and its settings")


def _jaas(found: Migrated, option: str, told: str) -> None:
    """Take the user of a login; what is a reference of the other system is one here, too."""
    user = _JAAS_USER.search(told)
    name = user["name"] if user and "$" not in user["name"] else ""
    found.put(
        option, "kafka.security.username", name or found.secret(option, "kafka_sasl_username")
    )
    found.put(option, "kafka.security.password", found.secret(option, "kafka_sasl_password"))
