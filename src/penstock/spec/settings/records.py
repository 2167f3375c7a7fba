"""What records are: their format, where schemas are kept, compression and envelope."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from penstock.spec.language.notation import MalformedError, form
from penstock.spec.problems import shown
from penstock.spec.secrets import without_password
from penstock.spec.settings.fields import (
    OwnCertificate,
    OwnKey,
    OwnKeyPassword,
    Seconds,
    Setting,
    Text,
    TrustedCertificates,
    later,
    reading,
)

REGISTERED = frozenset({"avro", "json-schema", "protobuf"})
"""The formats with records that name a schema."""

_HTTP = ("http://", "https://")
_SCHEMES = (*_HTTP, "mock:///", "mock://.", "${")
_placeholder = form(
    "[A-Za-z0-9_.:-]{8,200}",
    "P110",
    "… is not a distinct placeholder",
    "write 8 to 200 letters, digits, _ . : and -",
)


def registry_address(text: str) -> str:
    """Check an address, before or after its references are resolved. Raises MalformedError."""
    if text.startswith(_HTTP) and "@" in text:
        fact = "the schema registry's address contains a user, which logs and jobs show"
        hint = "write username and password, or token, next to the url under  registry"
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
            "Address of a registry that speaks Confluent's protocol; to read records, not to "
            "publish, also mock:///path, a directory of schemas (7.avsc has the id 7)."
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
    ca: TrustedCertificates = None
    certificate: OwnCertificate = None
    key: OwnKey = None
    key_password: OwnKeyPassword = None
    timeout_seconds: Seconds = Field(
        10.0, alias="timeout", description="How long one answer may take."
    )

    def settings(self) -> dict[str, Any]:
        """Return the block as plain data for a connector, with references unresolved."""
        return {**self.revealed(), "timeout": self.timeout_seconds}


RegistryAt = Annotated[
    RegistrySettings,
    BeforeValidator(lambda value: {"url": value} if isinstance(value, str) else value),
]
"""A schema registry, or only its address."""


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
            " source_columns, and says what tombstones: delete finds in a key."
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
    registry: RegistryAt | None = Field(
        None,
        description="The schema registry, or only its address.",
        examples=["https://registry:8081"],
    )
