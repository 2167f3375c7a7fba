"""The spec as data: `Pipeline` and `Table`, the same for YAML and for Python.

`Pipeline(name=…, tables=[Table(…)])` is checked as strictly as a file; YAML is only its
serialisation. Paths may be relative until `located` has fixed them (penstock.spec.paths).

Invariants: a `Pipeline` that exists has no contradictions between its blocks; models are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, model_validator

from penstock.core.errors import InvalidError
from penstock.core.shards import PLUS, shard_name
from penstock.spec.checks.agreement import Draft, check
from penstock.spec.problems import SpecError
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.commit import CommitSettings
from penstock.spec.settings.fields import (
    AtLeastOne,
    Bytes,
    CatalogName,
    Count,
    PipelineName,
    Setting,
    Several,
)
from penstock.spec.settings.records import Records
from penstock.spec.settings.sections import (
    Kafka,
    LimitSettings,
    MaintainSettings,
    PendingSettings,
    QuarantineSettings,
    SparkSettings,
    Undecided,
)
from penstock.spec.settings.table import Table

UNCHECKED: Mapping[str, str] = {"checks": "done elsewhere"}


class Pipeline(Setting):
    """A whole spec. Raises SpecError, with all problems, when its blocks contradict each other."""

    name: PipelineName = Field(
        description="Name of the pipeline, part of every ledger it writes; do not change it later.",
        examples=["shop"],
    )
    undecided: Several[Undecided] = Field(
        (),
        description=(
            "What you must decide before anything runs, written by `penstock init --from-config`:"
            " while there is an entry, the spec is refused (P175). Decide, then remove it."
        ),
        examples=["[{ option: auto.offset.reset, value: latest, decide: 'write kafka.start' }]"],
    )
    kafka: Kafka = Field(
        description="The cluster and the topics to read.",
        examples=["{ brokers: localhost:9092, topics: [shop.orders] }"],
    )
    records: Records = Field(default_factory=Records, description="The format of the records.")
    catalogs: Mapping[CatalogName, Catalog] = Field(
        max_length=100,
        min_length=1,
        description="Where tables are, by the first part of their full names.",
        examples=["{ delta: { type: delta, root: ./delta } }"],
    )
    tables: AtLeastOne[Table] = Field(
        description="Rules from topics to tables; the first that matches wins.",
        examples=["[{ from: shop.orders, into: delta.bronze.orders }]"],
    )
    commit: CommitSettings = Field(
        default_factory=CommitSettings, description="How often to commit, and how much at a time."
    )
    quarantine: QuarantineSettings = Field(
        description="Where rejected records go.",
        examples=["{ into: lake.ops.quarantine }"],
    )
    pending: PendingSettings = Field(
        default_factory=PendingSettings, description="Where prepared commits are kept."
    )
    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings,
        description="How tables are kept healthy beside a run.",
        examples=["{ every: 6h }"],
    )
    spark: SparkSettings = Field(
        default_factory=SparkSettings, description="The engine that runs the workers."
    )
    limits: LimitSettings = Field(
        default_factory=LimitSettings, description="Limits that protect the pipeline."
    )
    target_file_bytes: Bytes = Field(
        256_000_000, description="Size at which a data file is closed and the next one begun."
    )
    row_group_bytes: Bytes = Field(
        64_000_000, description="Size of a row group, buffered for each open file."
    )
    slice_bytes: Bytes = Field(64_000_000, description="Bytes that one task reads.")
    shards: Annotated[Count, Field(le=64)] = Field(
        1,
        description="How many processes land the pipeline, each the partitions of one shard, and"
        " none knows of the others (`penstock run --shard N`); it can never be changed.",
    )

    def of_shard(self, number: int) -> Self:
        """Return one shard as a pipeline of its own name. Raises InvalidError (P528): there is no
        shard of that number.
        """
        if self.shards > 1 and PLUS not in self.name and 0 <= number < self.shards:
            return self.model_copy(update={"name": shard_name(self.name, number)})
        raise no_shard(self, str(number))

    def each_shard(self) -> list[Self]:
        """Return all shards as pipelines of their own names; the whole one without shards."""
        return [self] if self.shards == 1 else [*map(self.of_shard, range(self.shards))]

    @model_validator(mode="after")
    def _agree(self, info: ValidationInfo) -> Self:
        if info.context is not UNCHECKED:
            blocks = {each.name: getattr(self, each.name) for each in fields(Draft)}
            found = check(Draft(**blocks))
            if any(problem.severity == "error" for problem in found):
                raise SpecError(found, name=f"pipeline '{self.name}'")
        return self


def no_shard(pipeline: Pipeline, given: str) -> InvalidError:
    """Return the error of a pipeline without a shard that was named, or that none was named of."""
    name, count = pipeline.name, pipeline.shards
    if count == 1:
        fact, hint = f"pipeline {name} has no shards", "leave  --shard  out"
    elif not given:
        fact = f"pipeline {name} has {count} shards, and none is named"
        hint = f"name one:  --shard 0  to  --shard {count - 1} ; all but run take  --shard all"
    else:
        fact = f"pipeline {name} has no shard {given}"
        hint = f"its {count} shards are  --shard 0  to  --shard {count - 1}"
    return InvalidError(fact, code="P528", hint=hint)


def require_shard(pipeline: Pipeline) -> None:
    """Refuse a pipeline in several shards that is not one of them. Raises InvalidError (P528)."""
    if pipeline.shards > 1 and PLUS not in pipeline.name:
        raise no_shard(pipeline, "")
