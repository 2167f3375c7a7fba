"""The blocks of a spec that say what is published: topics, tables, files, queries, others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from penstock.spec.language import notation
from penstock.spec.settings.fields import (
    AtLeastOne,
    FreeText,
    Seconds,
    Setting,
    Text,
    reading,
)
from penstock.spec.settings.keyed import Tombstones
from penstock.spec.settings.records import Records
from penstock.spec.settings.security import Cluster

NEWS = "penstock.app.assembly.news:opened"
"""What opens news; engines know it by name only."""
QUARANTINE = "(quarantine)"
"""What rejected records of a spec are called as a source."""


class TopicToPublish(Setting):
    """A topic as the source of a publication."""

    topic: Annotated[str, reading(notation.one_topic)] = Field(
        description="Name of the topic to read.", examples=["raw.orders"]
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where partitions begin when nothing was published yet; partitions that are"
        " added later begin at their first record.",
    )
    kafka: Cluster | None = Field(
        None,
        description="The cluster to read it from, where that is another one than is written to.",
        examples=["{ brokers: eu.example.com:9092 }"],
    )
    records: Records | None = Field(
        None,
        description="Read records as rows, as landing does; without it they are published as they"
        " are. Keys stay bytes, and no envelope is opened. The registry is by default that of"
        "  publishing.",
        examples=["{ format: json }", "{ format: avro, registry: https://registry:8081 }"],
    )
    columns: Mapping[Text, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        max_length=1000,
        description="With records: the fields that are read, with their types. text and bytes have"
        " the column  value.",
        examples=["{ id: long, status: string, amount: decimal(10,2) }"],
    )
    tombstones: Tombstones | None = Field(
        None,
        description="With records: what to do with one without a value: delete its key in the"
        " target as well, skip it, or quarantine it as what is no message. By default delete where"
        " messages have the records' own keys, else quarantine.",
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
        return _options(self)


class QueryToPublish(Setting):
    """The rows of a query as the source of a publication."""

    query: Text = Field(
        description="A SELECT whose rows are published, in SQL of the database.",
        examples=["SELECT id, status, updated_at FROM orders"],
    )
    database: Text = Field(
        description="postgresql://user@host/database, or sqlite:///./file.db; no password in it.",
        examples=["postgresql://shop@db/shop"],
    )
    password: Text | None = Field(
        None,
        description="Password of the database, as a reference.",
        examples=["${file:/run/secrets/db}"],
    )
    cursor: Annotated[AtLeastOne[Text], Field(max_length=2)] = Field(
        description="One or two columns of the query, by which rows come: they only rise, and are"
        " never null.",
        examples=["[updated_at, id]"],
    )
    columns: Mapping[Text, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        max_length=1000,
        description="The columns that are published, with their types; by default all, as the"
        " database has them.",
        examples=["{ id: long, amount: decimal(10,2) }"],
    )
    settle_seconds: Seconds | None = Field(
        None,
        alias="settle",
        description="How long rows are waited for that come late, beyond the end of transactions"
        " that were open: where the clocks of programs write the cursor.",
        examples=["10s"],
    )
    append_only: bool = Field(
        False,
        description="Whether rows are never changed or removed: then audit --count compares them.",
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Whether the rows are published that are there when nothing was published yet,"
        " or only those that come later.",
    )

    @property
    def name(self) -> str:
        """Return what it is called."""
        return " ".join(self.query.split())[:80]

    @property
    def source(self) -> str:
        """Return the class that reads it."""
        return "penstock.sources.sql:QuerySource"

    @property
    def options(self) -> dict[str, Any]:
        """Return what that is given."""
        return _options(self)


class NewsToPublish(Setting):
    """What happens to the tables of a spec as the source of a publication."""

    news: Annotated[AtLeastOne[Literal["commits", "tables", "through"]], Field(max_length=3)] = (
        Field(
            description="What is told. commits: each commit that landed. tables: those that were"
            " created, changed or rolled back. through: up to which time everything is in all"
            " tables.",
            examples=["[commits, tables, through]"],
        )
    )
    of: Text | None = Field(
        None,
        description="The spec whose tables they are about; by default this one.",
        examples=["./shop.yaml"],
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Whether the commits are told that are there when nothing was told yet, or only"
        " those that come later.",
    )

    @property
    def name(self) -> str:
        """Return what it is called: as no topic is."""
        return "(news)"

    @property
    def source(self) -> str:
        """Return what opens it."""
        return NEWS

    @property
    def options(self) -> dict[str, Any]:
        """Return what that is given."""
        return {"spec": self.of, "kinds": [*self.news]}


def _names_or_all(value: Any) -> str:
    return "<word>" if isinstance(value, str) else "<tables>"


class QuarantineToPublish(Setting):
    """Rejected records as the source of a publication: dead letters."""

    quarantine: Annotated[
        Annotated[Literal["all"], Tag("<word>")]
        | Annotated[AtLeastOne[Text], Field(max_length=1000), Tag("<tables>")],
        Discriminator(_names_or_all),
    ] = Field(
        description="Whose rejected records: of all tables of this spec, or of those that are named"
        " as  penstock quarantine list  names them.",
        examples=["all", "[lake.bronze.orders]"],
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Whether the records are published that are in the quarantine when nothing was"
        " published yet, or only those that are rejected later.",
    )
    changes: Literal["stop", "skip"] = Field(
        "skip",
        description="What to do when rows of the quarantine were deleted or rewritten: leave that"
        " snapshot out, for a dead letter stays one; or stop.",
    )

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that are named; () for all."""
        return () if isinstance(self.quarantine, str) else tuple(self.quarantine)

    @property
    def name(self) -> str:
        """Return what it is called: as no topic is, and no table."""
        return QUARANTINE


def _options(shipped: FilesToPublish | QueryToPublish) -> dict[str, Any]:
    """Return the options of a source that comes with Penstock; where it starts is none of them."""
    given = shipped.revealed()
    del given["start"], given["settle"]
    return {**given, "settle_seconds": shipped.settle_seconds or 0.0}


def _kind_of_source(value: Any) -> str:
    names = value if isinstance(value, dict) else type(value).model_fields
    kinds = ("table", "dataframe", "source", "files", "query", "news", "quarantine")
    return next((f"<{each}>" for each in kinds if each in names), "<topic>")


SourceToPublish = Annotated[
    Annotated[TopicToPublish, Tag("<topic>")]
    | Annotated[TableToPublish, Tag("<table>")]
    | Annotated[FramesToPublish, Tag("<dataframe>")]
    | Annotated[OwnToPublish, Tag("<source>")]
    | Annotated[FilesToPublish, Tag("<files>")]
    | Annotated[QueryToPublish, Tag("<query>")]
    | Annotated[NewsToPublish, Tag("<news>")]
    | Annotated[QuarantineToPublish, Tag("<quarantine>")],
    Discriminator(_kind_of_source),
]
