"""The rules of a spec: which topics land in which table, and what its schema takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.core.schema import Type
from penstock.core.type_text import TYPE_WORDS, parse_type
from penstock.spec.language import notation
from penstock.spec.language.expressions import expression_text
from penstock.spec.language.notation import PartitionField
from penstock.spec.settings.fields import NOT_YET, FreeText, Setting, Several, later, never, reading
from penstock.spec.settings.records import Records
from penstock.spec.settings.transform import Transform

ChangeColumn = Literal["operation", "timestamp", "source"]
SourceColumn = Literal["topic", "partition", "offset", "timestamp", "key", "headers"]
ColumnName = Annotated[str, reading(notation.column_path)]
RouteName = Annotated[str, reading(notation.group_name)]


class SchemaPolicy(Setting):
    """What happens when records and the table's schema differ."""

    create: bool = Field(
        default=False,
        description="Create the table from the first epoch's records when it does not exist.",
    )
    columns: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a field without a column: add the column, park the table, drop the"
            " value, keep it in the column _rescued, or quarantine the record."
        ),
    )
    types: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a value that its column does not accept: widen the column if nothing"
            " is lost (else quarantine), park the table, land null, keep the value in the column"
            " _rescued and land null, or quarantine the record."
        ),
    )
    hints: Mapping[str, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        description=(
            "Types by (dotted) name: of columns when the table is created, and of the fields that"
            " where and route use. items[].price is a member within a list, prices{} the values"
            f" of a map. Types are {', '.join(TYPE_WORDS)}; such as map<string, long> and"
            " struct<sku: string, n: int>."
        ),
        examples=["{ created_at: timestamptz }"],
    )
    case_sensitive: bool = Field(
        default=True,
        description=(
            "Match fields and columns by their exact names. If false, case is ignored, and a"
            " record with two fields for one column is quarantined."
        ),
    )
    assume_zone: Annotated[str, reading(notation.time_zone)] | None = Field(
        None, description="Time zone of timestamps without one, for timestamptz columns."
    )
    drop_offset: bool = Field(
        default=False,
        description="Land a timestamp with offset in a timestamp column, and drop the offset.",
    )
    coerce: Annotated[None, never("values are taken as they are, or quarantined")] = Field(
        None, description=f"This setting {NOT_YET}: take other scalars as text."
    )

    def hint_types(self) -> dict[str, Type]:
        """Return the hints as types."""
        return {column: parse_type(text) for column, text in self.hints.items()}


class Table(Setting):
    """One rule: which topics land in which table or tables, and how."""

    from_: Annotated[str, reading(notation.topic_source)] = Field(
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
    mode: Annotated[Literal["append"], later("upsert", "scd2", hint="this release has append")] = (
        Field("append", description="How rows are put into the table.")
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
    tombstones: Annotated[
        Literal["skip", "quarantine"],
        later("delete", hint="this release has skip and quarantine"),
    ] = Field("quarantine", description="What to do with a record without a value.")
    properties: Mapping[str, FreeText] = Field(
        default_factory=dict, description="Properties of the table when it is created, as text."
    )
    freshness: Annotated[
        None, never("'penstock status' and metrics show how far each table is valid")
    ] = Field(None, description=f"This setting {NOT_YET}: a promise to be watched.")
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
        description="With route: what to do with a record whose table does not exist.",
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
        description=(
            "Columns that identify a row: set when an Iceberg table is created, and required from"
            " then on."
        ),
    )
    sort_by: Several[Annotated[str, reading(notation.sort_field)]] = Field(
        (),
        description=(
            "Sort order of an Iceberg table when it is created, for rewrites of its files: column,"
            " day(column) desc."
        ),
    )
    records: Records | None = Field(
        None, description="The format of this rule's records, if it differs from the spec's."
    )
    change_columns: Several[ChangeColumn] = Field(
        ("operation", "timestamp", "source"),
        description="Columns filled from the envelope: _change_operation, …; [] for none.",
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
    def takes_some(self) -> bool:
        """Return whether a condition of this rule decides if the rules below get a record."""
        return self.where is not None and not self.continue_

    def partition_fields(self) -> tuple[PartitionField, ...]:
        """Return `partition_by` as data."""
        return tuple(map(notation.partition_field, self.partition_by))
