"""The blocks of a spec around its tables: Kafka, records, catalogs, quarantine, limits.

Invariants: every setting has a description, from which the reference is generated; every setting
has a default or is required; what crosses several settings is checked in `checks`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
)

from penstock.spec.language import notation
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import KeyPath, nearest, shown
from penstock.spec.secrets import without_password
from penstock.spec.settings.fields import (
    THREE_SLASHES,
    TWO_SLASHES,
    AtLeastOne,
    Bytes,
    Count,
    Fraction,
    FreeText,
    Seconds,
    Setting,
    Several,
    Text,
    reading,
)
from penstock.spec.settings.security import Cluster

OFFSET_MAX = 2**63 - 2
STORE_ADDRESS = re.compile(r"postgresql://(?:.*@)?[^@/]*/[^@/?]+(?:\?.*)?", re.DOTALL)
PARTITION_MAX = 2**31 - 1

Start = Literal["earliest", "latest"] | datetime | Mapping[str, Mapping[int, int]]


class TopicPattern(Setting):
    """All topics with a whole name that matches a Python regular expression, also new ones."""

    pattern: Annotated[str, reading(notation.pattern)] = Field(
        description="A Python regular expression for the whole name of a topic.",
        examples=["'shop\\..+'"],
    )


def _topic(value: Any) -> Any:
    if isinstance(value, str | dict | TopicPattern):
        return value
    raise MalformedError("P106", "expected a topic's name or { pattern: '…' }")


Topic = Annotated[
    Annotated[str, reading(notation.topic_name), Tag("<name>")]
    | Annotated[TopicPattern, Tag("<pattern>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<pattern>"),
    BeforeValidator(_topic),
]


def _start(value: Any) -> Start:
    if isinstance(value, dict):
        return {_start_topic(topic): _offsets(topic, at) for topic, at in value.items()}
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if text in ("earliest", "latest"):
        return cast("Literal['earliest', 'latest']", text)
    near = nearest(text, ["earliest", "latest"])
    if near:
        raise MalformedError(
            "P107", f"expected earliest or latest, read {shown(text)}. Did you mean '{near}'?"
        )
    return notation.point_in_time(text)


def _start_text(start: Start) -> Any:
    return start.isoformat().replace("+00:00", "Z") if isinstance(start, datetime) else start


def _start_topic(topic: Any) -> str:
    if isinstance(topic, str):
        return notation.topic_name(topic)
    raise MalformedError("P110", f"{shown(topic)} is not a topic's name", "put quotes around it")


def _offsets(topic: str, offsets: Any) -> dict[int, int]:
    if not isinstance(offsets, dict) or not offsets:
        fact = "expected offsets by partition"
        raise MalformedError("P106", fact, "such as { 0: 1200 }", below=(topic,))
    return {
        _whole(partition, "a partition", PARTITION_MAX, (topic, partition)): _whole(
            offset, "an offset", OFFSET_MAX, (topic, partition)
        )
        for partition, offset in offsets.items()
    }


def _whole(value: Any, what: str, largest: int, below: KeyPath) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:  # noqa: PLR2004
        value = int(value)
    if type(value) is int and 0 <= value <= largest:
        return value
    fact = f"expected {what} from 0 to {largest}, read {shown(value)}"
    raise MalformedError("P108", fact, below=below)


class Kafka(Cluster):
    """The cluster and the topics to read."""

    topics: AtLeastOne[Topic] = Field(
        description="Exact names, or Python regular expressions for whole names.",
        examples=["[shop.orders]"],
    )
    start: Annotated[
        Start,
        PlainValidator(_start),
        PlainSerializer(_start_text, when_used="json"),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "additionalProperties": {"type": "integer", "minimum": 0},
                        },
                    },
                ]
            }
        ),
    ] = Field(
        "earliest",
        description=(
            "Where a partition begins if nothing has landed: earliest, latest, a time with offset, "
            "or offsets by topic and partition. Partitions without one begin at earliest."
        ),
    )
    identity: Literal["topic_id", "name"] = Field(
        "topic_id",
        description=(
            "What identifies a topic. `name` is for brokers without topic ids, and cannot "
            "distinguish a re-created topic from the old one."
        ),
    )
    reader: Literal["columnar", "librdkafka"] = Field(
        "columnar",
        description=(
            "How records are fetched: `columnar` splits the brokers' answers into columns, and "
            "uses librdkafka for what it does not support; `librdkafka` reads one record at a time."
        ),
    )
    mirror_group: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description=(
            "A consumer group whose offsets follow what has landed in all tables, for lag tools. "
            "Nothing reads it, and nobody may consume by it."
        ),
        examples=["shop-landed"],
    )

    @property
    def names(self) -> tuple[str, ...]:
        """List the exact topic names."""
        return tuple(topic for topic in self.topics if isinstance(topic, str))

    @property
    def patterns(self) -> tuple[str, ...]:
        """List the topic patterns."""
        return tuple(each.pattern for each in self.topics if isinstance(each, TopicPattern))


class QuarantineSettings(Setting):
    """Where rejected records go."""

    into: Annotated[str, reading(lambda text: notation.table_name(text, placeholders=False))] = (
        Field(
            description="The table of the quarantine: <catalog>.<namespace>.<table>.",
            examples=["lake.ops.quarantine"],
        )
    )
    stop_above_share: Fraction = Field(
        0.01,
        alias="stop_above",
        description="Share of rejected records of a table in an epoch above which the table is "
        "parked (P345), from 100 rejects on; exit 4 if every table waits.",
    )
    headers: Literal["keep", "leave"] | None = Field(
        None,
        description="Whether a rejected record keeps its headers: of each record they are read"
        " then. By default only where its table or its rule reads them.",
    )


def _store(text: str) -> str:
    scheme = text.partition(":")[0]
    write = "write sqlite:///./state/name.db, or postgresql://user:${file:/run/secrets/pw}@host/db"
    if scheme == "postgresql" and STORE_ADDRESS.fullmatch(text):
        return text
    if not text.startswith("sqlite:///") or not text.removeprefix("sqlite:///"):
        fact = f"{shown(without_password(text))} is not a store's address"
        raise MalformedError("P125", fact, THREE_SLASHES if TWO_SLASHES.match(text) else write)
    return text


class PendingSettings(Setting):
    """Where prepared commits are kept until they have landed; never the truth."""

    store: Annotated[str, reading(_store)] = Field(
        "sqlite:///./state/{name}.db",
        description=(
            "SQLite file or PostgreSQL database; `{name}` is the name of the pipeline, a relative "
            "path starts at the spec file."
        ),
    )
    max_epochs: Annotated[Count, Field(le=64)] = Field(
        4,
        description="Prepared epochs that may wait for a table before reading stops.",
    )


class HoldSettings(Setting):
    """What a run does while a table has too many small files."""

    excess_files: int = Field(
        20_000,
        ge=1,
        description="A table is sick with more files than this above what would do, or of rows "
        "that landed late, until it has fewer than half of it.",
    )
    then: Literal["widen", "stop", "nothing"] = Field(
        "widen",
        description="While a table is sick: epochs begin further apart, twice as far each minute, "
        "and full ones at once (widen); it is parked (stop); it is only said (nothing).",
    )
    every_most_seconds: Seconds = Field(
        600.0,
        alias="every_most",
        description="How far apart epochs become at most; `commit.every`, where that is longer.",
        examples=["10m"],
    )


class MaintainSettings(Setting):
    """How a run maintains the tables of its pipeline, in a process of its own."""

    every_seconds: Seconds | None = Field(
        None,
        alias="every",
        description="How often `penstock run` does what `penstock maintain` does, at the lowest "
        "priority and in one thread; without it never.",
        examples=["6h"],
    )
    only: Several[Literal["rearrange", "expire", "sweep"]] = Field(
        (), description="The acts to do; all of them where none are named."
    )
    hold: HoldSettings = Field(
        default_factory=HoldSettings,
        description="What is done while a table has too many small files.",
    )


class SparkSettings(Setting):
    """The session that Penstock starts if you pass none."""

    master: Text = Field(
        "local[*]",
        description=(
            "Where Spark runs: local[*], spark://host:7077, k8s://https://host:443, yarn; existing"
            " for the session of spark-submit, inline for no Spark."
        ),
    )
    conf: Mapping[str, FreeText] = Field(
        default_factory=dict, description="Further Spark settings, as text; no secrets."
    )
    shared_directories: bool = Field(
        default=False,
        description="Directories of catalogs are mounted on all hosts of workers.",
    )
    prepare: bool = Field(
        default=True,
        description=(
            "Archive Java's classes in the background of the first run, as `penstock prepare` does."
            " Later starts take half the time; it costs about 20 CPU seconds and 150 MB, once."
        ),
    )


DEPTH_MAX = 128


class LimitSettings(Setting):
    """Limits that protect the pipeline."""

    record_bytes: Bytes = Field(
        8_000_000, description="Largest value of a record; larger ones are quarantined."
    )
    columns: Count = Field(2000, description="Columns of a table, including nested ones.")
    new_columns_per_hour: Count = Field(100, description="Columns added to a table in an hour.")
    tables: Count = Field(1000, description="Tables of a pipeline.")
    open_writers: Count = Field(64, description="Files that a task writes at once.")
    depth: Annotated[Count, Field(le=DEPTH_MAX)] = Field(
        64,
        description=(
            "Levels of nesting in a record; deeper ones are quarantined. Values below level 32 get"
            " no column of their own."
        ),
    )


class Undecided(Setting):
    """One thing to decide: write what you decide into the spec, then remove the entry."""

    option: Text = Field(
        description="The option or statement of the other system.",
        examples=["consumer.override.auto.offset.reset"],
    )
    value: FreeText = Field(
        "", description="What the other system had there; never a secret.", examples=["latest"]
    )
    decide: Text = Field(
        description="What to decide, and where to write it.",
        examples=["where to begin: kafka.start"],
    )
