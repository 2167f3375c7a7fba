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
    FreeText,
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

Condition = Annotated[str, reading(expression_text)]


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
OF_ROWS = frozenset({"key", "value", "where", "delete_when", "timestamp", "rejects"})
"""Settings of a publication whose source has rows; messages are published as they are."""
REQUIRED, OFF = "required", "off"
ExactlyOnce = Literal["required", "requested", "off"]
ProducerName = Literal["auto", "own", "librdkafka"]
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


class TableToPublish(Setting):
    """An Iceberg or Delta table as the source of a publication."""

    table: Annotated[str, reading(lambda text: notation.table_name(text, placeholders=False))] = (
        Field(description="<catalog>.<namespace>.<table>.", examples=["lake.gold.segments"])
    )
    ref: Annotated[str, reading(notation.branch_name)] = Field(
        notation.MAIN,
        description="Iceberg: the branch to read, or a tag, whose rows are published and no more.",
        examples=["audited"],
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Whether the rows are published that are there when nothing was published yet,"
        " or only those that are added later.",
    )
    changes: Literal["stop", "skip", "whole"] = Field(
        "stop",
        description="What to do when rows were removed or rewritten (DELETE, MERGE, overwrite):"
        " stop, leave that snapshot out, or publish all rows of the newest one again.",
    )


class FramesToPublish(Setting):
    """DataFrames as the source of a publication: a program gives them."""

    dataframe: Literal["runs", "batches"] = Field(
        description="runs: those of penstock.publish_once, each with an id. batches: those of a"
        " streaming query, by penstock.publisher.",
        examples=["batches"],
    )
    start: Literal["earliest"] = Field("earliest", description="All batches are published.")


class OwnToPublish(Setting):
    """A class or function of one's own as the source of a publication."""

    source: Text = Field(
        description="The source: module:Class or module:function, importable where workers run, or"
        " the name of an entry point of the group penstock.sources.",
        examples=["feeds:weather"],
    )
    options: Mapping[str, Any] = Field(
        default_factory=dict,
        max_length=100,
        description="What its constructor is given, by the names of its arguments. References are"
        " replaced where it is opened.",
        examples=['{ station: ROM, token: "${env:WEATHER_TOKEN}" }'],
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where its parts begin when nothing was published yet; latest needs a source"
        " that says where it ends.",
    )

    @property
    def name(self) -> str:
        """Return what it is called."""
        return self.source


class FilesToPublish(Setting):
    """Files as the source of a publication."""

    files: Text = Field(
        description="Path or s3:// address of files: * and ? within a folder, ** below it; one that"
        " ends with a slash stands for all files of the folder.",
        examples=["./drop/*.jsonl", "s3://bucket/drop/**/*.parquet"],
    )
    format: Literal["json", "csv", "lines", "parquet"] = Field(
        description="json: an object a line. csv: a header, and a record a line. lines: each line"
        " as it is, in the column  line.  parquet.",
        examples=["json"],
    )
    columns: Mapping[Text, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        max_length=1000,
        description="The columns of json and csv that are read, with their types.",
        examples=["{ id: long, amount: decimal(10,2), at: timestamptz }"],
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = Field(
        ",", description="What is between the fields of csv."
    )
    grows: bool = Field(
        False,
        description="Whether lines are added to files that are there; a line is read when its end"
        " is there.",
    )
    settle_seconds: Seconds | None = Field(
        None,
        alias="settle",
        description="How long a file was not modified before it is read, where files are written in"
        " place; by default it is complete when it is there.",
        examples=["10s"],
    )
    order: Literal["modified", "name"] = Field(
        "modified", description="The order in which files are read."
    )
    storage_options: Mapping[str, FreeText] = Field(
        default_factory=dict,
        description="Options of the storage, by deltalake's names, as text.",
        examples=['{ region: eu-west-1, secret_access_key: "${env:DROP_SECRET}" }'],
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Whether the files are published that are there when nothing was published yet,"
        " or only what comes later.",
    )

    @property
    def name(self) -> str:
        """Return what it is called."""
        return self.files

    @property
    def source(self) -> str:
        """Return the class that reads it."""
        return "penstock.sources.files:FilesSource"

    @property
    def options(self) -> dict[str, Any]:
        """Return what that is given."""
        given = self.revealed()
        del given["start"], given["settle"]
        return {**given, "settle_seconds": self.settle_seconds or 0.0}


def _kind_of_source(value: Any) -> str:
    names = value if isinstance(value, dict) else type(value).model_fields
    kinds = ("table", "dataframe", "source", "files")
    return next((f"<{each}>" for each in kinds if each in names), "<topic>")


SourceToPublish = Annotated[
    Annotated[TopicToPublish, Tag("<topic>")]
    | Annotated[TableToPublish, Tag("<table>")]
    | Annotated[FramesToPublish, Tag("<dataframe>")]
    | Annotated[OwnToPublish, Tag("<source>")]
    | Annotated[FilesToPublish, Tag("<files>")],
    Discriminator(_kind_of_source),
]


class TransactionSettings(Setting):
    """How much one transaction holds; the first limit that is reached counts."""

    boundary: Literal["poll", "interval"] = Field(
        "interval",
        description="poll: a transaction begins as soon as there is something to publish. interval:"
        " when the interval is over, or enough is there.",
    )
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
    from_: SourceToPublish = Field(
        alias="from",
        description="What to publish: a topic, a table, files, a source of your own, or DataFrames"
        " of a program.",
        examples=["{ topic: raw.orders }", "{ table: lake.gold.segments }"],
    )
    into: Annotated[str, reading(notation.topic_name)] = Field(
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
        " in their order; those without a key are spread.",
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
        " table's columns.",
        examples=['"score > 0.5"'],
    )
    delete_when: Condition | None = Field(
        None,
        description="Rows for which this is true delete their key: a message without a value, a"
        " tombstone. A DuckDB SQL condition over the table's columns.",
        examples=["closed"],
    )
    timestamp: Text | None = Field(
        None,
        description="The column that has the time of a row's message; by default it is the time of"
        " publishing.",
        examples=["scored_at"],
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
    def is_of_frames(self) -> bool:
        """Return whether a program gives what is published."""
        return isinstance(self.from_, FramesToPublish)

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
        return isinstance(self.from_, TopicToPublish)


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
