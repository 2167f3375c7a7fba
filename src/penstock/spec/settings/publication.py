"""The blocks of a spec that publish: rules from sources into topics, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from penstock.spec.language import notation
from penstock.spec.language.expressions import expression_text
from penstock.spec.settings.fields import (
    AtLeastOne,
    Bytes,
    Count,
    Rate,
    Seconds,
    Setting,
    Text,
    reading,
)
from penstock.spec.settings.messages import (
    KeySettings,
    RejectsSettings,
    TopicSettings,
    ValueSettings,
)
from penstock.spec.settings.records import RegistryAt
from penstock.spec.settings.sources import (
    FramesToPublish,
    NewsToPublish,
    QuarantineToPublish,
    SourceToPublish,
    TopicToPublish,
)
from penstock.spec.settings.table import ComputedName

Condition = Annotated[str, reading(expression_text)]


class RowTransform(Setting):
    """What is computed for each row: one row gives one message."""

    columns: Mapping[ComputedName, Condition] = Field(
        min_length=1,
        max_length=1000,
        description="Columns by name, each a DuckDB SQL expression over the columns of the source.",
        examples=["{ day: cast(created_at as date) }"],
    )


def _kind_of_key(value: Any) -> str:
    if isinstance(value, dict | KeySettings):
        return "<block>"
    return "<column>" if isinstance(value, str) else "<columns>"


Key = Annotated[
    Annotated[Text, Tag("<column>")]
    | Annotated[AtLeastOne[Text], Tag("<columns>")]
    | Annotated[KeySettings, Tag("<block>")],
    Discriminator(_kind_of_key),
]
KEEP: Literal["keep"] = "keep"
Headers = Annotated[
    Annotated[Literal["keep"], Tag("<word>")]
    | Annotated[Mapping[Text, Condition], Field(min_length=1, max_length=100), Tag("<headers>")],
    Discriminator(lambda value: "<word>" if isinstance(value, str) else "<headers>"),
]
OF_ROWS = frozenset(
    {"key", "value", "where", "transform", "delete_when", "timestamp", "headers", "rejects"}
)
"""Settings of a publication whose source has rows; messages are published as they are."""
REQUIRED, OFF = "required", "off"
ExactlyOnce = Literal["required", "requested", "off"]
ProducerName = Literal["auto", "own", "librdkafka"]
OffsetsTopic = Annotated[str, reading(notation.one_topic)]


class TransactionSettings(Setting):
    """How much one transaction holds; the first limit that is reached counts."""

    boundary: Literal["poll", "interval", "connector"] = Field(
        "interval",
        description="poll: a transaction begins as soon as there is something to publish. interval:"
        " when the interval is over, or enough is there. connector: a transaction is what a source"
        " of your own gives up to where it says that it ends, and no larger than the limits.",
    )
    interval_seconds: Seconds = Field(
        5.0, alias="interval", description="Longest time between two transactions."
    )
    or_records: Count = Field(1_000_000, description="Records in a transaction.")
    or_bytes: Bytes = Field(
        256_000_000,
        description="Bytes in a transaction, as estimated; of records that are read as rows, as"
        " they are.",
    )
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
    from_: SourceToPublish = Field(
        alias="from",
        description="What to publish: a topic, a table, files, a query, news of tables, a source of"
        " your own, rejected records, or DataFrames of a program.",
        examples=["{ topic: raw.orders }", "{ table: lake.gold.segments }"],
    )
    into: Annotated[str, reading(notation.one_topic)] = Field(
        description="The topic to publish into, with at least as many partitions as the source;"
        " a record keeps its partition, key, headers and time.",
        examples=["orders"],
    )
    topic: TopicSettings = Field(
        default_factory=TopicSettings,
        description="What becomes of the topic when it is missing.",
        examples=["{ create: true, partitions: 12 }"],
    )
    key: Key | None = Field(
        None,
        description="The key of a row's message: a column, as its text or its bytes, or a list of"
        " columns, as an object of JSON, or these settings. Rows of one key go into one partition,"
        " in their order; those without a key are spread. By default records of a topic that are"
        " read as rows keep key and partition.",
        examples=["customer_id", "[country, customer_id]", "{ columns: [id], format: avro }"],
    )
    value: ValueSettings = Field(
        default_factory=ValueSettings,
        description="The value of a row's message.",
        examples=["{ format: json, decimals: number }"],
    )
    where: Condition | None = Field(
        None,
        description="Publish only rows for which this is true: a DuckDB SQL condition over the"
        " columns of the source.",
        examples=['"score > 0.5"'],
    )
    transform: RowTransform | None = Field(
        None,
        description="Compute further columns for each row that  where  lets through. Key, value,"
        " time, headers and  delete_when  may name them.",
        examples=["{ columns: { total: price * quantity } }"],
    )
    delete_when: Condition | None = Field(
        None,
        description="Rows for which this is true delete their key: a message without a value, a"
        " tombstone. A DuckDB SQL condition over the columns of the source and of  transform.",
        examples=["closed"],
    )
    timestamp: Text | None = Field(
        None,
        description="The column that has the time of a row's message; by default it is that of its"
        " record in a topic, else the time of publishing.",
        examples=["scored_at"],
    )
    headers: Headers | None = Field(
        None,
        description="Headers of a row's message by name, each a column or a DuckDB SQL expression:"
        " bytes as they are, others as text; one that is null has no value. Or  keep:  those of its"
        " record in a topic.",
        examples=["{ source: \"'shop'\", schema: _kafka_topic }", "keep"],
    )
    rejects: RejectsSettings | None = Field(
        None,
        description="Where rows go that are no messages; without it such a row stops the"
        " publication.",
        examples=["{ into: crm.segments.rejects }"],
    )
    offsets: OffsetsTopic | None = Field(
        None,
        description="The topic that holds positions, by default <group>-<name>-offsets; it is"
        " created where it is missing, and has to be compacted.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "lz4", description="How batches are compressed."
    )
    rate: Rate | None = Field(
        None,
        description="The most that is sent in a second: records, or bytes as they are sent,"
        " compressed. A transaction holds no more than that of one interval.",
        examples=["20000/s", "50MB/s"],
    )
    exactly_once: ExactlyOnce | None = Field(
        None, description="As under publishing, for this publication."
    )
    producer: ProducerName | None = Field(
        None, description="As under publishing, for this publication."
    )
    tasks: Count | None = Field(None, description="As under publishing, for this publication.")
    transaction: TransactionSettings = Field(
        default_factory=TransactionSettings, description="How much one transaction holds."
    )

    @property
    def written(self) -> tuple[str, ...]:
        """Return the topics that are written, besides its positions."""
        return (self.into,) if self.rejects is None else (self.into, self.rejects.into)

    @property
    def ends_where_told(self) -> bool:
        """Return whether its source says where transactions end."""
        return self.transaction.boundary == "connector"

    @property
    def is_of_frames(self) -> bool:
        """Return whether a program gives what is published."""
        return isinstance(self.from_, FramesToPublish)

    @property
    def is_read_here(self) -> bool:
        """Return whether its rows are few, and read in the process that publishes them."""
        return isinstance(self.from_, NewsToPublish | QuarantineToPublish)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the key; () without one."""
        match self.key:
            case None:
                return ()
            case KeySettings(columns=columns):
                return tuple(columns)
            case str(column):
                return (column,)
            case columns:
                return tuple(columns)

    @property
    def is_mirror(self) -> bool:
        """Return whether records of a topic are published as they are."""
        return isinstance(self.from_, TopicToPublish) and self.from_.records is None

    @property
    def reads_records(self) -> bool:
        """Return whether records of a topic are read as rows."""
        return isinstance(self.from_, TopicToPublish) and self.from_.records is not None

    @property
    def keeps_key(self) -> bool:
        """Return whether messages have the keys and partitions that their records have."""
        return self.reads_records and self.key is None

    @property
    def sql(self) -> tuple[str, ...]:
        """Return all expressions over its rows."""
        computed = self.transform.columns.values() if self.transform else ()
        headers = self.headers.values() if isinstance(self.headers, Mapping) else ()
        conditions = (each for each in (self.where, self.delete_when) if each)
        return (*conditions, *computed, *headers)


class PublishingSettings(Setting):
    """What all publications of a spec share."""

    group: Text = Field(
        "penstock",
        description="First part of transactional ids: <group>-<name>-0. Programs with the same"
        " group and name fence each other.",
    )
    exactly_once: ExactlyOnce = Field(
        "required",
        description="required: in transactions, or not at all. requested: where the cluster can."
        " off: at least once, without transactions; before required, the former run must"
        " have ended.",
    )
    producer: ProducerName = Field(
        "auto",
        description="The client that writes. own: a term that all workers share, by transaction"
        " protocol 2 (Kafka 4). librdkafka: a producer for each transaction, by protocol 1 (Kafka"
        " 3.6). auto: own where there is one task and the cluster has protocol 2.",
    )
    tasks: Count = Field(
        1,
        description="How many tasks share a source, each with a transactional id and transactions"
        " of its own; more than one are librdkafka's. A table is one source partition.",
    )
    registry: RegistryAt | None = Field(
        None,
        description="The schema registry of keys and values that name none, or only its address.",
        examples=["https://registry:8081"],
    )
