"""The spec as data: `Pipeline` and `Table`, the same for YAML and for Python.

`Pipeline(name=…, tables=[Table(…)])` is checked as strictly as a file; YAML is only its
serialisation. Paths may be relative until `located` has fixed them (penstock.spec.paths).

Invariants: a `Pipeline` that exists has no contradictions between its blocks; models are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from penstock.core.schema import Type
from penstock.core.type_text import TYPE_WORDS, parse_type
from penstock.spec import notation
from penstock.spec.catalogs import Catalog
from penstock.spec.checks import Draft, check
from penstock.spec.expressions import expression_text
from penstock.spec.fields import (
    NOT_YET,
    AtLeastOne,
    Bytes,
    CatalogName,
    FreeText,
    PipelineName,
    Setting,
    Several,
    later,
    never,
    reading,
)
from penstock.spec.notation import PartitionField
from penstock.spec.problems import SpecError
from penstock.spec.records import Records
from penstock.spec.sections import (
    CommitSettings,
    Kafka,
    LimitSettings,
    PendingSettings,
    QuarantineSettings,
    SparkSettings,
)
from penstock.spec.transforming import Transform
from penstock.spec.undecided import Undecided

ChangeColumn = Literal["operation", "timestamp", "source"]
SourceColumn = Literal["topic", "partition", "offset", "timestamp", "key", "headers"]
ColumnName = Annotated[str, reading(notation.column_path)]
RouteName = Annotated[str, reading(notation.group_name)]
UNCHECKED: Mapping[str, str] = {"checks": "done elsewhere"}


class SchemaPolicy(Setting):
    """What happens when records and the table's schema differ."""

    create: bool = Field(
        default=False,
        description="Create the table from the first epoch's records when it does not exist.",
    )
    columns: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a field the table has no column for: add the column, park the table,"
            " leave the value out, keep it in the column _rescued, or quarantine the record."
        ),
    )
    types: Literal["evolve", "freeze", "drop_value", "rescue", "quarantine"] = Field(
        "quarantine",
        description=(
            "What to do with a value its column does not accept: widen the column where nothing is"
            " lost (else quarantine), park the table, land null, keep the value in the column"
            " _rescued and land null, or quarantine the record."
        ),
    )
    hints: Mapping[str, Annotated[str, reading(notation.column_type)]] = Field(
        default_factory=dict,
        description=(
            "Types by (dotted) name: of columns when the table is created, and of the fields that"
            " where and route look at. items[].price is a member within a list, prices{} the values"
            f" of a map. Types are {', '.join(TYPE_WORDS)}; such as map<string, long> and"
            " struct<sku: string, n: int>."
        ),
        examples=["{ created_at: timestamptz }"],
    )
    case_sensitive: bool = Field(
        default=True,
        description=(
            "Match fields and columns by their exact names. Without, case does not count, and a"
            " record with two fields for one column is quarantined."
        ),
    )
    assume_zone: Annotated[str, reading(notation.time_zone)] | None = Field(
        None, description="Time zone of timestamps that name none, for timestamptz columns."
    )
    drop_offset: bool = Field(
        default=False,
        description="Accept a timestamp with offset in a timestamp column, without its offset.",
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
        description="An exact topic name, or a Python pattern that matches a whole name.",
        examples=["shop.orders"],
    )
    into: Annotated[str, reading(lambda text: notation.table_name(text, placeholders=True))] = (
        Field(
            description=(
                "<catalog>.<namespace>.<table>; `{group}` is filled from the pattern's named group,"
                " or by route."
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
        description="Columns that tell a row's origin: _kafka_topic, …; [] for none.",
    )
    tombstones: Annotated[
        Literal["skip", "quarantine"],
        later("delete", hint="this release has skip and quarantine"),
    ] = Field("quarantine", description="What to do with a record that has no value.")
    properties: Mapping[str, FreeText] = Field(
        default_factory=dict, description="Properties of the table when it is created, as text."
    )
    freshness: Annotated[
        None, never("'penstock status' and metrics tell how far each table is valid")
    ] = Field(None, description=f"This setting {NOT_YET}: a promise to be watched.")
    where: Annotated[str, reading(expression_text)] | None = Field(
        None,
        description=(
            "Land only records for which this holds: a DuckDB SQL condition over fields typed by"
            " schema.hints, and over `_kafka_topic`, `_kafka_key`, `_kafka_headers`, …"
        ),
        examples=["\"amount > 0 and status = 'open'\""],
    )
    route: Mapping[RouteName, Annotated[str, reading(expression_text)]] = Field(
        default_factory=dict,
        max_length=8,
        description="Fill `{name}` in the last part of `into` with an SQL expression, by record.",
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
            "The branch of an Iceberg table to land on; begun at the head of main when it is not"
            " there."
        ),
    )
    identifier_fields: Several[ColumnName] = Field(
        (),
        description=(
            "Columns that tell rows apart, noted in an Iceberg table when it is created, and"
            " required from then on."
        ),
    )
    sort_by: Several[Annotated[str, reading(notation.sort_field)]] = Field(
        (),
        description=(
            "Sort order of an Iceberg table when it is created, for those who rewrite its files:"
            " column, day(column) desc."
        ),
    )
    records: Records | None = Field(
        None, description="What this rule's records are, where they differ from the spec's."
    )
    change_columns: Several[ChangeColumn] = Field(
        ("operation", "timestamp", "source"),
        description="Columns for what an envelope tells: _change_operation, …; [] for none.",
    )

    header_columns: Mapping[FreeText, FreeText] = Field(
        default_factory=dict,
        max_length=100,
        description="Columns that hold the text of a header, by the header's name.",
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


class Pipeline(Setting):
    """A whole spec. Raises SpecError, with all problems, when its blocks contradict each other."""

    name: PipelineName = Field(
        description="Name of the pipeline, part of every ledger it writes; not changed later.",
        examples=["shop"],
    )
    undecided: Several[Undecided] = Field(
        (),
        description=(
            "What a person has to decide before anything runs, written by `penstock init"
            " --from-config`: with an entry the spec is refused (P175). Decide, then remove it."
        ),
        examples=["[{ option: auto.offset.reset, value: latest, decide: 'write kafka.start' }]"],
    )
    kafka: Kafka = Field(
        description="The cluster and the topics to read.",
        examples=["{ brokers: localhost:9092, topics: [shop.orders] }"],
    )
    records: Records = Field(default_factory=Records, description="What the records' values are.")
    catalogs: Mapping[CatalogName, Catalog] = Field(
        max_length=100,
        min_length=1,
        description="Where tables are, by the name that begins their full name.",
        examples=["{ delta: { type: delta, root: ./delta } }"],
    )
    tables: AtLeastOne[Table] = Field(
        description="Rules from topics to tables; the first that matches wins.",
        examples=["[{ from: shop.orders, into: delta.bronze.orders }]"],
    )
    commit: CommitSettings = Field(
        default_factory=CommitSettings, description="How often and how much at a time."
    )
    quarantine: QuarantineSettings = Field(
        description="Where records go that do not fit.",
        examples=["{ into: lake.ops.quarantine }"],
    )
    pending: PendingSettings = Field(
        default_factory=PendingSettings, description="Where prepared commits are kept."
    )
    spark: SparkSettings = Field(
        default_factory=SparkSettings, description="The engine that runs the workers."
    )
    limits: LimitSettings = Field(
        default_factory=LimitSettings, description="Bounds on what others can make us do."
    )
    target_file_bytes: Bytes = Field(
        256_000_000, description="Size at which a data file is finished and the next one begun."
    )
    row_group_bytes: Bytes = Field(
        64_000_000, description="Size of a row group, buffered for each open file."
    )
    slice_bytes: Bytes = Field(64_000_000, description="Bytes read that are the work of one task.")

    @model_validator(mode="after")
    def _agree(self, info: ValidationInfo) -> Self:
        if info.context is not UNCHECKED:
            found = check(draft_of(self))
            if any(problem.severity == "error" for problem in found):
                raise SpecError(found, name=f"pipeline '{self.name}'")
        return self

    def redacted(self) -> dict[str, Any]:
        """Return the spec as plain data for people to see, with secrets hidden."""
        return self.model_dump(mode="json")


def draft_of(pipeline: Pipeline) -> Draft:
    """Return what the checks look at."""
    return Draft(
        kafka=pipeline.kafka,
        records=pipeline.records,
        catalogs=dict(pipeline.catalogs),
        tables=pipeline.tables,
        quarantine=pipeline.quarantine,
        row_group_bytes=pipeline.row_group_bytes,
        target_file_bytes=pipeline.target_file_bytes,
        spark=pipeline.spark,
        pending=pipeline.pending,
        undecided=pipeline.undecided,
    )
