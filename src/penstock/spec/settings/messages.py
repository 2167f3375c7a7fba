"""How rows become messages, and the topic that they go into: blocks of a publication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.language import notation
from penstock.spec.settings.fields import (
    AtLeastOne,
    Count,
    Fraction,
    FreeText,
    Setting,
    Several,
    Text,
    reading,
)
from penstock.spec.settings.records import RegistryAt

REGISTERED = frozenset({"avro", "json-schema", "protobuf"})
"""Formats whose schema is in a registry."""
WITH_FILES = frozenset({"avro", "protobuf"})
"""Formats whose schema a person may write."""
OF_SCHEMAS = frozenset({"registry", "register_schema", "subject", "schema_file"})
"""Settings of keys and values that are about their schema in a registry."""


class SchemaSettings(Setting):
    """Where the schema of keys or values is registered, and when."""

    registry: RegistryAt | None = Field(
        None,
        description="With a schema: its registry, or only its address; by default that of"
        " the value, or of  publishing.",
        examples=["https://registry:8081"],
    )
    register_schema: Literal["compatible", "missing", "never"] = Field(
        "compatible",
        alias="register",
        description="With a schema: whether one that is not registered yet is registered:"
        " where the registry finds it compatible, only if the subject has none, or never.",
    )
    subject: Text | None = Field(
        None,
        description="With a schema: its subject; {topic} is the topic's name. By"
        " default {topic}-value, or {topic}-key.",
        examples=['"{topic}-value"'],
    )
    schema_file: Text | None = Field(
        None,
        alias="schema",
        description="With format avro or protobuf: the file of a schema; by default it is made of"
        " the table's columns. Of Protobuf, the first message in it.",
        examples=["./segments.avsc"],
    )

    def subject_of(self, topic: str, part: str) -> str:
        """Return the subject of the keys or values of a topic."""
        return (self.subject or f"{{topic}}-{part}").replace("{topic}", topic)


class KeySettings(SchemaSettings):
    """What the key of a message is."""

    columns: AtLeastOne[Text] = Field(
        description="The columns of the key.", examples=["[country, customer_id]"]
    )
    format: Literal["json", "avro", "json-schema", "protobuf"] = Field(
        "json",
        description="json: an object of these columns. avro: a record of them. json-schema: an"
        " object of them. protobuf: a message of them. The last three by a schema in a registry.",
    )


class ValueSettings(SchemaSettings):
    """What the value of a message is."""

    format: Literal["json", "bytes", "avro", "json-schema", "protobuf"] = Field(
        "json",
        description="json: an object of all columns. bytes: one column of binary or strings, as it"
        " is. avro: a record of all columns. json-schema: an object of them. protobuf: a message"
        " of them. The last three by a schema in a registry.",
    )
    column: Text | None = Field(
        None, description="With format bytes: the column.", examples=["payload"]
    )
    columns: Several[Text] = Field(
        (),
        description="With any other format: the columns of the value, in this order; by default"
        " all, those of  transform  last. Those that begin with _kafka_ are in it if they are named"
        " here.",
        examples=["[id, status, total]"],
    )
    decimals: Literal["string", "number"] = Field(
        "string",
        description="Whether JSON has decimals as text or as numbers, which many readers take for"
        " doubles.",
    )
    times: Literal["iso", "millis"] = Field(
        "iso",
        description="Whether JSON has timestamps as ISO 8601, to the microsecond, or as"
        " milliseconds since 1970, rounded down; dates and times of day are ISO 8601.",
    )


class TopicSettings(Setting):
    """How the topic that is published into is created."""

    create: bool = Field(False, description="Create the topic if it is missing.")
    partitions: Count | None = Field(
        None,
        description="Partitions of a new topic; by default as many as the topic that is read has,"
        " or as the brokers say.",
    )
    config: Mapping[str, FreeText] = Field(
        default_factory=dict,
        description="Settings of a new topic, by Kafka's names.",
        examples=["{ cleanup.policy: compact }"],
    )


class RejectsSettings(Setting):
    """Where rows go that are no messages."""

    into: Annotated[str, reading(notation.one_topic)] = Field(
        description="The topic for rejects. topic.create creates it as well, with the brokers'"
        " settings.",
        examples=["crm.segments.rejects"],
    )
    stop_above_share: Fraction = Field(
        0.01,
        alias="stop_above",
        description="Share of the rows of a transaction above which it is not sent (P860), from"
        " 100 rejects on.",
    )
