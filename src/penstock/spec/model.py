"""The spec as data: `Pipeline` and `Table`, the same for YAML and for Python.

`Pipeline(name=…, tables=[Table(…)])` is checked as strictly as a file; YAML is only its
serialisation. Paths may be relative until `located` has fixed them (penstock.spec.paths).

Invariants: a `Pipeline` that exists has no contradictions between its blocks; models are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Self

from pydantic import Field, ValidationInfo, model_validator

from penstock.spec.checks.agreement import Draft, check
from penstock.spec.problems import SpecError
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.commit import CommitSettings
from penstock.spec.settings.fields import (
    AtLeastOne,
    Bytes,
    CatalogName,
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

    @model_validator(mode="after")
    def _agree(self, info: ValidationInfo) -> Self:
        if info.context is not UNCHECKED:
            blocks = {each.name: getattr(self, each.name) for each in fields(Draft)}
            found = check(Draft(**blocks))
            if any(problem.severity == "error" for problem in found):
                raise SpecError(found, name=f"pipeline '{self.name}'")
        return self
