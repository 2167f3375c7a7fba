"""What must agree within the blocks that say what records are, and how to connect.

Invariant: no message quotes what may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.spec.problems import KeyPath, Problem
from penstock.spec.settings.records import REGISTERED, Records, RegistrySettings
from penstock.spec.settings.security import CLIENT, OF_CLIENT, OF_SASL, USED_BY, USER, Security

_OF_JSON = frozenset({"dms", "maxwell", "canal"})
_WITH_JSON_EVENTS = frozenset({"json", "json-schema"})
_EXAMPLES = {
    "mechanism": "scram-sha-512",
    "username": "shop",
    "password": '"${file:/run/secrets/password}"',
    "token_endpoint": "https://login.example.com/oauth2/token",
    "client_id": "penstock",
    "client_secret": '"${file:/run/secrets/client}"',
    "certificate": "./client.pem",
    "key": "./client.key",
}
_PAIRS = (
    ("username", "password"),
    ("password", "username"),
    ("certificate", "key"),
    ("key", "certificate"),
    ("key_password", "key"),
)


OF_KAFKA: KeyPath = ("kafka", "security")


def check_security(security: Security, at: KeyPath = OF_KAFKA) -> Iterator[Problem]:
    """Find settings that the protocol lacks, and those that it does not use."""
    protocol = security.protocol
    if protocol.startswith("sasl"):
        yield from _check_mechanism(security, at)
    for name in ("mechanism", *OF_SASL):
        if not protocol.startswith("sasl") and getattr(security, name):
            fact = f"'{name}' is not used with protocol {protocol}"
            yield Problem((*at, name), "P120", fact, "write protocol: sasl_ssl, or remove it")
    for name in ("ca", "certificate", "key", "key_password"):
        if not protocol.endswith("ssl") and getattr(security, name) is not None:
            fact = f"'{name}' is not used with protocol {protocol}"
            yield Problem((*at, name), "P120", fact, "write protocol: ssl or sasl_ssl")
    yield from _alone(security, _PAIRS[2:], at)


def _check_mechanism(security: Security, at: KeyPath) -> Iterator[Problem]:
    """Find what a mechanism lacks, and what it, or a command that prints tokens, does not use."""
    mechanism, command = security.mechanism, security.token_command
    for name in _needed(security):
        if not getattr(security, name):
            of = f"mechanism {mechanism}" if name in CLIENT else f"protocol {security.protocol}"
            hint = f"add  {name}: {_EXAMPLES[name]}"
            yield Problem((*at, name), "P120", f"{of} needs '{name}'", hint, on_key=True)
    if mechanism is None:
        return
    beside = dict.fromkeys(OF_SASL, f"mechanism {mechanism}")
    beside = {name: by for name, by in beside.items() if name not in USED_BY[mechanism]}
    if command:
        beside |= dict.fromkeys(OF_CLIENT, "'token_command'")
    for name, by in beside.items():
        if getattr(security, name):
            yield Problem((*at, name), "P120", f"'{name}' is not used with {by}", "remove it")


def _needed(security: Security) -> tuple[str, ...]:
    match security.mechanism:
        case None:
            return ("mechanism", *USER)
        case "oauthbearer":
            return () if security.token_command else CLIENT
        case mechanism:
            return USER if USED_BY[mechanism] == USER else ()


def check_records(
    records: Records, registry: RegistrySettings | None, at: KeyPath
) -> Iterator[Problem]:
    """Find what does not agree; `registry` may be the one of the whole spec."""
    for format_ in dict.fromkeys((records.format, records.key_format)):
        if format_ in REGISTERED and registry is None:
            fact = f"format {format_} needs 'registry'"
            hint = "add  registry: https://registry:8081"
            yield Problem((*at, "registry"), "P151", fact, hint, on_key=True)
    if records.format not in REGISTERED:
        for name in ("framing", "schema_id"):
            if getattr(records, name) != Records.model_fields[name].default:
                fact = f"'{name}' is not used with format {records.format}"
                yield Problem((*at, name), "P151", fact, "remove it")
    if records.envelope in _OF_JSON and records.format not in _WITH_JSON_EVENTS:
        fact = f"events of {records.envelope} are JSON, not {records.format}"
        yield Problem((*at, "envelope"), "P151", fact, "write  format: json")
    if records.framing == "single-object":
        if records.format != "avro":
            fact = "only avro has single objects"
            yield Problem((*at, "framing"), "P151", fact, "write  format: avro")
        if registry is not None and not registry.url.startswith(("mock:", "${")):
            fact = "single objects name schemas by fingerprint, which no registry can look up"
            yield Problem(
                (*at, "framing"), "P151", fact, "write  registry: mock:///path/of/schemas"
            )
    if records.registry is not None:
        yield from check_registry(records.registry, (*at, "registry"))


def check_registry(registry: RegistrySettings, at: KeyPath) -> Iterator[Problem]:
    """Find settings of a registry that contradict each other."""
    yield from _alone(registry, _PAIRS, at)
    if registry.token is not None and registry.username is not None:
        fact = "a registry takes a token or a user, not both"
        yield Problem((*at, "token"), "P120", fact, "remove one of them")


def _alone(
    block: Security | RegistrySettings, pairs: tuple[tuple[str, str], ...], at: KeyPath
) -> Iterator[Problem]:
    for name, needed in pairs:
        if getattr(block, name) is not None and getattr(block, needed) is None:
            hint = f"add  {needed}: {_EXAMPLES[needed]}"
            yield Problem((*at, name), "P120", f"'{name}' needs '{needed}' as well", hint)
