"""The blocks of a spec that publish: rules from sources into topics, and what they share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.spec.language import notation
from penstock.spec.settings.fields import Bytes, Count, Seconds, Setting, Text, reading

OffsetsTopic = Annotated[str, reading(notation.topic_name)]


class TopicToPublish(Setting):
    """A topic as the source of a publication."""

    topic: Annotated[str, reading(notation.topic_name)] = Field(
        description="Name of the topic to read.", examples=["raw.orders"]
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where partitions begin when nothing was published yet; partitions that are"
        " added later begin at their first record.",
    )


class TransactionSettings(Setting):
    """How much one transaction holds; the first limit that is reached counts."""

    interval_seconds: Seconds = Field(
        5.0, alias="interval", description="Longest time between two transactions."
    )
    or_records: Count = Field(1_000_000, description="Records in a transaction.")
    or_bytes: Bytes = Field(256_000_000, description="Bytes in a transaction, as estimated.")
    timeout_seconds: Seconds = Field(
        60.0,
        alias="timeout",
        description="How long a transaction may be open before the brokers abort it; they allow"
        " 15 minutes at most by default.",
    )


class PublicationRule(Setting):
    """One source that is published into a topic."""

    name: Annotated[str, reading(notation.publication_name)] = Field(
        description="Name of the publication, part of its transactional id; do not change it.",
        examples=["orders"],
    )
    from_: TopicToPublish = Field(
        alias="from", description="What to publish.", examples=["{ topic: raw.orders }"]
    )
    into: Annotated[str, reading(notation.topic_name)] = Field(
        description="The topic to publish into, with at least as many partitions as the source;"
        " a record keeps its partition, key, headers and time.",
        examples=["orders"],
    )
    offsets: OffsetsTopic | None = Field(
        None,
        description="The topic that holds positions, by default <group>-<name>-offsets; it is"
        " created where it is missing, and has to be compacted.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "lz4", description="How batches are compressed."
    )
    transaction: TransactionSettings = Field(
        default_factory=TransactionSettings, description="How much one transaction holds."
    )


class PublishingSettings(Setting):
    """What all publications of a spec share."""

    group: Text = Field(
        "penstock",
        description="First part of transactional ids: <group>-<name>-0. Programs with the same"
        " group and name fence each other.",
    )
