"""What records are: their format, where schemas are kept, compression and envelope."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import KeyPath, Problem, shown
from penstock.spec.secrets import without_password
from penstock.spec.settings.fields import REVEALED, Seconds, Setting, Text, later, reading

REGISTERED = frozenset({"avro", "json-schema", "protobuf"})
"""The formats whose records name a schema."""

_OF_JSON = frozenset({"dms", "maxwell", "canal"})
_WITH_JSON_EVENTS = frozenset({"json", "json-schema"})
_PLACEHOLDER = re.compile(r"[A-Za-z0-9_.:-]{8,200}")
_HTTP = ("http://", "https://")
_SCHEMES = (*_HTTP, "mock:///", "mock://.", "${")


def registry_address(text: str) -> str:
    """Check an address, before or after its references are resolved. Raises MalformedError."""
    if text.startswith(_HTTP) and "@" in text:
        fact = "the schema registry's address contains a user, which logs and jobs show"
        hint = "write username and password, or token, beside the url under  records.registry"
        raise MalformedError("P152", fact, hint)
    if not text.startswith(_SCHEMES):
        raise MalformedError(
            "P150",
            f"{shown(without_password(text))} is not a schema registry's address",
            "write https://host:8081, or mock:///path of a directory of schemas",
        )
    return text


class RegistrySettings(Setting):
    """The schema registry that records name schemas of; secrets are references."""

    url: Annotated[str, reading(registry_address)] = Field(
        description=(
            "Address of a registry that speaks Confluent's protocol, or mock:///path for a "
            "directory of schemas (7.avsc has the id 7)."
        ),
        examples=["https://registry:8081"],
    )
    username: Text | None = Field(None, description="Name of the user.")
    password: Text | None = Field(
        None,
        description="Password of the user, as a reference.",
        examples=["${file:/run/secrets/registry}"],
    )
    token: Text | None = Field(None, description="Bearer token in place of a user, as a reference.")
    ca: Text | None = Field(
        None, description="Path of the certificates to trust (PEM); by default the system's."
    )
    certificate: Text | None = Field(
        None, description="Path of the client's own certificate (PEM), for mutual TLS."
    )
    key: Text | None = Field(None, description="Path of the client's private key (PEM).")
    key_password: Text | None = Field(
        None, description="Password of the private key, as a reference."
    )
    timeout_seconds: Seconds = Field(
        10.0, alias="timeout", description="How long one answer may take."
    )

    def settings(self) -> dict[str, Any]:
        """Return the block as plain data for a connector, with references unresolved."""
        data = self.model_dump(mode="json", context=REVEALED)
        return {**data, "timeout": self.timeout_seconds}


def _registry(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _placeholder(text: str) -> str:
    if _PLACEHOLDER.fullmatch(text) is None:
        fact = f"{shown(text)} is not a distinct placeholder"
        hint = "write 8 to 200 letters, digits, _ . : and -"
        raise MalformedError("P110", fact, hint)
    return text


class Records(Setting):
    """The format of the records."""

    format: Literal[
        "json", "json-schema-envelope", "avro", "protobuf", "json-schema", "text", "bytes"
    ] = Field(
        "json",
        description=(
            "How values are encoded. avro, protobuf and json-schema name a schema of a registry; "
            "json-schema-envelope is Connect's JSON with 'schema' and 'payload'; "
            "text and bytes land in the column 'value'."
        ),
    )
    key_format: Literal[
        "bytes", "json", "json-schema-envelope", "avro", "protobuf", "json-schema", "text"
    ] = Field(
        "bytes",
        description=(
            "How keys are encoded; it sets the type of _kafka_key, if 'key' is among"
            " source_columns."
        ),
    )
    framing: Literal["registry", "single-object"] = Field(
        "registry",
        description=(
            "How a value names its schema: by the id or GUID in a registry, or as an Avro single "
            "object."
        ),
    )
    schema_id: Literal["value", "headers"] = Field(
        "value",
        description=(
            "Where the schema id or GUID is: before the value, or in the header __value_schema_id "
            "and, without it, before the value."
        ),
    )
    compression: Literal["none", "gzip"] = Field(
        "none", description="How the producer compressed each value, besides Kafka's compression."
    )
    envelope: Annotated[
        Literal["none", "debezium", "flattened", "dms", "maxwell", "canal"],
        later("connect", hint="write  format: json-schema-envelope  for Connect's"),
    ] = Field(
        "none",
        description=(
            "What wraps the row within the value; flattened is the output of Debezium's "
            "ExtractNewRecordState."
        ),
    )
    unavailable_value: Annotated[str, reading(_placeholder)] = Field(
        "__debezium_unavailable_value",
        description="Debezium's unavailable.value.placeholder, for values that were left out.",
    )
    registry: Annotated[RegistrySettings, BeforeValidator(_registry)] | None = Field(
        None,
        description="The schema registry, or only its address.",
        examples=["https://registry:8081"],
    )


def problems_of(
    records: Records, registry: RegistrySettings | None, at: KeyPath
) -> Iterator[Problem]:
    """Find what does not agree; `registry` may be the one of the whole spec."""
    for format_ in {records.format, records.key_format} & REGISTERED if registry is None else ():
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
        yield from _problems_of_registry(records.registry, (*at, "registry"))


def _problems_of_registry(registry: RegistrySettings, at: KeyPath) -> Iterator[Problem]:
    pairs = (
        ("username", "password"),
        ("password", "username"),
        ("certificate", "key"),
        ("key", "certificate"),
        ("key_password", "key"),
    )
    for name, needed in pairs:
        if getattr(registry, name) is not None and getattr(registry, needed) is None:
            yield Problem((*at, name), "P120", f"'{name}' needs '{needed}' beside it", "add it")
    if registry.token is not None and registry.username is not None:
        fact = "a registry takes a token or a user, not both"
        yield Problem((*at, "token"), "P120", fact, "remove one of them")
