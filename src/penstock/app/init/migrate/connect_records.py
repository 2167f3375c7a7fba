"""What a sink's converter of values, its schema registry and its transforms say of records.

Invariants:
- no password and no token is copied; a user does not stay in the address of a registry;
- each transform is accounted for once, with its own options; one that is applied only where a
  predicate holds is not taken for the same without it.

Source: Confluent, "Schema Registry security overview": `basic.auth.*`, `bearer.auth.*` (the first
of several addresses is taken); Kafka, "Transformations"; Iceberg, "Kafka Connect", SMTs; Debezium,
"New Record State Extraction".
"""

from __future__ import annotations

from urllib.parse import unquote

from penstock.app.init.migrate.account import Migrated, Options, names_in
from penstock.spec.secrets import is_secret_name

_FORMATS = {
    "AvroConverter": "avro",
    "ProtobufConverter": "protobuf",
    "JsonSchemaConverter": "json-schema",
    "StringConverter": "text",
    "ByteArrayConverter": "bytes",
}
_ENVELOPES = {
    "DebeziumTransform": "debezium",
    "ExtractNewRecordState": "debezium",
    "DmsTransform": "dms",
}
_PREDICATES = "predicates"
_DECIDE = "what it does to each record: transform.columns, where, or records.envelope"
_URL = "value.converter.schema.registry.url"
_USERS = (
    "value.converter.basic.auth.user.info",
    "value.converter.schema.registry.basic.auth.user.info",
)
_TOKEN = "value.converter.bearer.auth.token"  # noqa: S105  the option's name
_SOURCES = (
    "value.converter.basic.auth.credentials.source",
    "value.converter.bearer.auth.credentials.source",
)


def records(found: Migrated, options: Options) -> None:
    """Translate the converter of values; JsonConverter expects schemas unless it is set not to."""
    converter = options.get("value.converter", "").rpartition(".")[2]
    with_schemas = options.get("value.converter.schemas.enable", "true") != "false"
    if converter == "JsonConverter" and with_schemas:
        found.put("value.converter", "records.format", "json-schema-envelope")
    elif converter == "JsonConverter":
        found.mapped.append(("value.converter", "records.format: json, the default"))
    elif converter in _FORMATS:
        found.put("value.converter", "records.format", _FORMATS[converter])
    else:
        why = "how values are encoded: records.format; without this option the worker's holds"
        found.ask("value.converter", options.get("value.converter", "(not set)"), why)
    if _URL in options:
        _registry(found, options)


def transforms(found: Migrated, options: Options) -> None:
    """Account for `transforms`, `predicates` and the options below them."""
    names = names_in(options.get("transforms", ""))
    if "transforms" in options:
        found.leave("transforms", "each one is listed by itself" if names else "there is none")
    for name in names:
        _transform(found, f"transforms.{name}", options)
    for key, value in options.items():
        listed = key.startswith(tuple(f"transforms.{name}." for name in names))
        if key.startswith("transforms.") and not listed:
            found.leave(key, "it is not among  transforms")
        elif key == _PREDICATES and value.strip():
            found.ask(key, value, "which records transforms are applied to: tables[].where")
        elif key.startswith(_PREDICATES):
            found.leave(key, "with  predicates")


def _registry(found: Migrated, options: Options) -> None:
    scheme, sign, rest = options[_URL].partition(",")[0].strip().partition("://")
    in_address, _, host = rest.rpartition("@")
    found.put(_URL, "records.registry.url", f"{scheme}{sign}{host}")
    option = next((each for each in _USERS if options.get(each)), "")
    if option:
        _user(found, option, options[option])
    elif in_address:
        _user(found, _URL, unquote(in_address))
    elif _TOKEN in options:
        found.put(_TOKEN, "records.registry.token", found.secret(_TOKEN, "registry_token"))
    put = found.spec["records"]["registry"]
    asked = next((name for name in ("username", "token") if name in put), "url")
    found.mapped += [(each, f"records.registry.{asked}") for each in _SOURCES if each in options]


def _user(found: Migrated, option: str, credentials: str) -> None:
    """Put a `user:password`. A reference of Connect's own cannot be recognised here."""
    user, sign, _ = credentials.partition(":")
    if user.startswith("${") or not sign:
        user = found.secret(option, "registry_username")
    found.put(option, "records.registry.username", user)
    found.spec["records"]["registry"]["password"] = found.secret(option, "registry_password")


def _transform(found: Migrated, name: str, options: Options) -> None:
    kind, below = options.get(f"{name}.type", ""), f"{name}."
    own = {key.removeprefix(below): key for key in options if key.startswith(below)}
    more = [each for each in own if each != "type"]
    envelope = _ENVELOPES.get(kind.rpartition(".")[2])
    if envelope and not more:
        found.put(f"{name}.type", "records.envelope", envelope)
        return
    if envelope:
        found.spec.setdefault("records", {})["envelope"] = envelope
    given = [f"{each}={options[own[each]]}" for each in more if not is_secret_name(each)]
    found.ask(f"{name}.type", " ".join([kind or "(not set)", *given]), _DECIDE)
    for each in more:
        found.leave(own[each], f"with  {name}.type, which is undecided")
