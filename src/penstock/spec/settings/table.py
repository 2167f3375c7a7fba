"""The rules of a spec: which topics land in which table, what its schema takes, what is computed.

Invariant: one record gives one row. What leaves records out is `where`, which counts them; so a
transform changes no book (docs/design/0101).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.core.schema import Schema, Type
from penstock.core.type_text import parse_type
from penstock.spec.language import notation
from penstock.spec.language.expressions import expression, expression_text, looked_at, type_given
from penstock.spec.language.notation import MalformedError, form
from penstock.spec.settings.fields import (
    Bytes,
    FreeText,
    Seconds,
    Setting,
    Several,
    reading,
)
from penstock.spec.settings.keyed import Deletes, Mode, Operation, RowDeletes, Soft, Tombstones
from penstock.spec.settings.records import Records
from penstock.spec.settings.schema_policy import SchemaPolicy
from penstock.spec.settings.writes import Write

ChangeColumn = Literal["operation", "timestamp", "source"]
SourceColumn = Literal["topic", "partition", "offset", "timestamp", "key", "headers"]
ColumnName = Annotated[str, reading(notation.column_path)]
RouteName = Annotated[str, reading(notation.group_name)]

COLUMNS_MAX = 100


def _source(text: str) -> str:
    return text if notation.is_topic_name(text) else notation.pattern(text)


_OURS = ("_kafka_", "_change_")
_word = form(
    "[A-Za-z_][A-Za-z0-9_]{0,127}",
    "P148",
    "… is not a name for a computed column",
    "use letters, digits and underscores, as in order_day",
)
_function_path = form(
    r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*",
    "P149",
    "… is not the path of a function",
    "write  package.module:function",
)


def _column_name(text: str) -> str:
    if _word(text).lower().startswith(_OURS):
        fact = f"names that begin with {' or '.join(_OURS)} are Penstock's own"
        raise MalformedError("P148", fact, "give the column another name")
    return text


ComputedName = Annotated[str, reading(_column_name)]


class Function(Setting):
    """A Python function over Arrow batches that fills columns."""

    call: Annotated[str, reading(_function_path)] = Field(
        description=(
            "Import path of a function that takes a pyarrow.RecordBatch of the table's rows and"
            " returns a batch of as many rows, with the columns that it fills."
        ),
        examples=["shop.rules:classify"],
    )
    columns: Mapping[ComputedName, Annotated[str, reading(notation.column_type)]] = Field(
        min_length=1,
        max_length=COLUMNS_MAX,
        description="The columns that it fills, with their types.",
        examples=["{ segment: string, score: double }"],
    )

    def types(self) -> dict[str, Type]:
        """Return the columns' types."""
        return {name: parse_type(text) for name, text in self.columns.items()}


class Transform(Setting):
    """What is computed for each record: one record gives one row."""

    columns: Mapping[ComputedName, Annotated[str, reading(expression_text)]] = Field(
        default_factory=dict,
        max_length=COLUMNS_MAX,
        description=(
            "Columns by name, each a DuckDB SQL expression over fields typed by schema.hints, and"
            " over `_kafka_timestamp`, `_kafka_key`, …"
        ),
        examples=["{ day: cast(created_at as date) }"],
    )
    function: Function | None = Field(
        None, description="A Python function that fills further columns, after `columns`."
    )

    def types(self, fields: Schema) -> dict[str, Type]:
        """Return the types of all computed columns; `fields` are those that hints declare.

        Raises MalformedError.
        """
        found = {name: type_of(text, fields) for name, text in self.columns.items()}
        return found | (self.function.types() if self.function else {})


def type_of(text: str, fields: Schema) -> Type:
    """Return the type that an expression computes. Raises MalformedError."""
    found = expression(text)
    return type_given(found, looked_at(found, fields))


class Table(Setting):
    """One rule: which topics land in which table or tables, and how."""

    from_: Annotated[str, reading(_source)] = Field(
        alias="from",
        description="An exact topic name, or a Python regular expression for the whole name.",
        examples=["shop.orders"],
    )
    into: Annotated[str, reading(lambda text: notation.table_name(text, placeholders=True))] = (
        Field(
            description=(
                "<catalog>.<namespace>.<table>; `{group}` is filled by a named group of the"
                " pattern, or by route."
            ),
            examples=["lake.bronze.orders"],
        )
    )
    continue_: bool = Field(
        default=False,
        alias="continue",
        description="Also try the rules below for a topic that this one takes.",
    )
    mode: Mode = Field(
        "append",
        description=(
            "How records change the table: append keeps each as a row of its own. upsert puts it in"
            " the place of the row with the same `keys`. cdc does what its envelope or `operation`"
            " says: put a row there, or delete it."
        ),
    )
    keys: Several[ColumnName] = Field(
        (),
        description=(
            "With mode upsert or cdc: the columns that say which row a record changes. A table"
            " has one row for each key. A record without a value for one is quarantined."
        ),
        examples=["[id]"],
    )
    operation: Operation | None = Field(
        None,
        description="With mode cdc of records without an envelope: what each does to its row.",
        examples=["{ field: op, map: { I: insert, U: update, D: delete } }"],
    )
    deletes: Deletes = Field(
        "hard",
        description=(
            "With mode upsert or cdc: a delete takes the row out of the table, leaves its last"
            " image there with a flag (soft), or is left out and counted."
        ),
    )
    partition_by: Several[
        Annotated[str, reading(lambda text: str(notation.partition_field(text)))]
    ] = Field(
        (),
        description="Partitioning when the table is created: column, day(column), bucket(16, id).",
    )
    schema_: SchemaPolicy = Field(
        default_factory=SchemaPolicy,
        alias="schema",
        description="What happens when records and the table's schema differ.",
    )
    source_columns: Several[SourceColumn] = Field(
        ("topic", "partition", "offset", "timestamp"),
        description="Columns with the source of a row: _kafka_topic, …; [] for none.",
    )
    tombstones: Tombstones | None = Field(
        None,
        description=(
            "What to do with a record without a value; delete takes the row of its message key out"
            " of a keyed table, and needs records.key_format. By default quarantine. In keyed"
            " tables: delete with mode upsert and with envelope flattened, skip with another"
            " envelope, whose event of the delete comes first."
        ),
    )
    truncates: Literal["stop", "ignore"] = Field(
        "stop",
        description=(
            "With mode cdc: a truncate of the source parks the table, for somebody to decide, or is"
            " left out and counted."
        ),
    )
    across_partitions: Literal["warn", "stop"] = Field(
        "warn",
        description=(
            "With mode upsert or cdc: what to do about one key in two partitions, between which"
            " there is no order: report and count it, or park the table."
        ),
    )
    sequence_by: Several[ColumnName] = Field(
        (),
        description=(
            "With deletes soft or ignore: columns of the table. Of the changes of a key that with"
            " the highest values wins, in whatever order they come; else the last one in the log."
        ),
        examples=["[source_lsn]"],
    )
    row_deletes: RowDeletes = Field(
        "auto",
        description=(
            "With mode upsert or cdc: how rows leave the table. auto: by Iceberg's position deletes"
            " and Delta's deletion vectors. rewrite: each commit writes the files again that lose"
            " rows, for readers that know neither."
        ),
    )
    rewrite_bytes_max: Bytes = Field(
        1_000_000_000,
        description=(
            "With row_deletes rewrite: the most that one commit may write again, in bytes of the"
            " files that lose rows. A commit that needs more waits, and the table is parked."
        ),
        examples=["4GB"],
    )
    soft: Soft | None = Field(
        None,
        description=(
            "With deletes soft: the columns that say of a row that its key was deleted, and when."
            " By default _is_deleted and _deleted_at."
        ),
        examples=["{ flag: _is_deleted, at: _deleted_at }"],
    )
    properties: Mapping[str, FreeText] = Field(
        default_factory=dict, description="Properties of the table when it is created, as text."
    )
    where: Annotated[str, reading(expression_text)] | None = Field(
        None,
        description=(
            "Land only records for which this is true: a DuckDB SQL condition over fields typed by"
            " schema.hints, and over `_kafka_topic`, `_kafka_key`, `_kafka_headers`, …"
        ),
        examples=["\"amount > 0 and status = 'open'\""],
    )
    route: Mapping[RouteName, Annotated[str, reading(expression_text)]] = Field(
        default_factory=dict,
        max_length=8,
        description="An SQL expression that fills `{name}` in the last part of `into` per record.",
        examples=["{ kind: lower(event_type) }"],
    )
    unknown_tables: Literal["quarantine", "create", "fail"] = Field(
        "quarantine",
        description="With route: what to do with a record if its table does not exist.",
    )
    transform: Transform | None = Field(
        None,
        description="Compute further columns for each record: SQL expressions, a Python function.",
        examples=["{ columns: { day: cast(created_at as date) } }"],
    )
    branch: Annotated[str, reading(notation.branch_name)] = Field(
        notation.MAIN,
        description=(
            "The branch of an Iceberg table to land on; a new branch begins at the head of main."
        ),
    )
    identifier_fields: Several[ColumnName] = Field(
        (),
        description="Columns that identify a row: set when an Iceberg table is created, and"
        " required from then on. By default the `keys`.",
    )
    sort_by: Several[Annotated[str, reading(notation.sort_field)]] = Field(
        (),
        description="Sort order of an Iceberg table when it is created: column, day(column) desc;"
        " write.sort says when rows are sorted by it.",
    )
    write: Write = Field(default_factory=Write, description="How rows get into files.")
    records: Records | None = Field(
        None, description="The format of this rule's records, if it differs from the spec's."
    )
    change_columns: Several[ChangeColumn] = Field(
        ("operation", "timestamp", "source"),
        description="Columns filled from the envelope: _change_operation, …; [] for none.",
    )
    freshness_seconds: Seconds | None = Field(
        None,
        alias="freshness",
        description="How old what is in the table may be; status, metrics and alerts judge it.",
        examples=["5m"],
    )
    header_columns: Mapping[FreeText, FreeText] = Field(
        default_factory=dict,
        max_length=100,
        description="Columns filled with the text of a header, by the header's name.",
        examples=["{ trace_id: x-trace-id }"],
    )

    @property
    def table(self) -> str:
        """Return the full name, with the branch where it is not main."""
        at = "" if self.branch == notation.MAIN else f"{notation.BRANCH_SIGN}{self.branch}"
        return f"{self.into}{at}"

    @property
    def is_keyed(self) -> bool:
        """Return whether records change rows by key."""
        return self.mode != "append"

    @property
    def rewritten_bytes_max(self) -> int | None:
        """Return how much a commit may write again; None where it writes nothing again."""
        return self.rewrite_bytes_max if self.row_deletes == "rewrite" else None

    @property
    def soft_columns(self) -> tuple[str, str] | None:
        """Return the columns for a deleted row's flag and time, with deletes soft alone."""
        return (self.soft or Soft()).columns if self.deletes == "soft" else None

    def records_by(self, shared: Records) -> Records:
        """Return what the rule's records are; `shared` are those of the whole spec."""
        return self.records or shared

    def tombstones_by(self, shared: Records) -> Tombstones:
        """Return what is done with a record without a value, by what else says that a row goes.

        A flattened delete is a tombstone alone unless Debezium is set to rewrite it
        (`delete.tombstone.handling.mode`); the other envelopes have an event for it.
        """
        envelope = self.records_by(shared).envelope
        if self.tombstones is not None:
            return self.tombstones
        if self.mode == "upsert" or (self.is_keyed and envelope == "flattened"):
            return "delete"
        return "skip" if self.is_keyed and envelope != "none" else "quarantine"
