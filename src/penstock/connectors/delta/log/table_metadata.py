"""The form of a table: what stays as it is until an entry of the log changes metadata or protocol.

Invariant: a table that asks its writers for what we do not honour has no form, but an error with
the feature's name.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.files.statistics import Indexed
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.schema.column_mapping import Stored, stored_as
from penstock.connectors.delta.schema.features import (
    Demands,
    demanded_by,
    require_exact_partitions,
    require_honourable,
)
from penstock.connectors.delta.schema.types import schema_of
from penstock.connectors.delta.write.target import Target, indexed_by, target_to_json
from penstock.core.schema import Kind, Schema
from penstock.files import ParquetOptions


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What a table is, and the target that its workers get."""

    uuid: str
    schema: Schema
    schema_id: int
    partition_by: tuple[str, ...]
    stored: Stored
    configuration: Mapping[str, str] = field(repr=False)
    target: str = field(repr=False)

    @property
    def stored_partitions(self) -> tuple[str, ...]:
        """Name the columns that the table is partitioned by as the log holds them."""
        return tuple(self.stored.name_of(self.schema, each) for each in self.partition_by)

    @property
    def not_empty(self) -> tuple[str, ...]:
        """Name the columns whose empty value reads back as null."""
        return texts_among(self.partition_by, self.schema)


def texts_among(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return those of a table's columns that hold texts."""
    texts = {field.name for field in schema.fields if field.type is Kind.STRING}
    return tuple(name for name in columns if name in texts)


def form_of(name: str, root: StorageRoot, options: ParquetOptions, handle: Handle) -> TableMetadata:
    """Read a table's form. Raises UnavailableError, InvalidError (P435, P436, P438)."""
    with reading(name):
        metadata = handle.metadata()
        demands = Demands(*demanded_by(handle), metadata.configuration)
        text = handle.schema().to_json()
    require_honourable(name, demands)
    schema = schema_of(text, name)
    partition_by = tuple(metadata.partition_columns)
    require_exact_partitions(name, schema, partition_by)
    stored = stored_as(text, schema, metadata.configuration)
    indexed = indexed_by(metadata.configuration)
    target = Target(
        table=name,
        location=root.location(name),
        schema=schema,
        stored=stored,
        partition_by=tuple(stored.name_of(schema, each) for each in partition_by),
        indexed=Indexed(
            indexed.count, tuple(stored.name_of(schema, each) for each in indexed.names)
        ),
        options=options,
        storage=root.public,
    )
    return TableMetadata(
        uuid=str(metadata.id),
        schema=schema,
        schema_id=_schema_id(schema, partition_by),
        partition_by=partition_by,
        stored=stored,
        configuration=metadata.configuration,
        target=target_to_json(target),
    )


def _schema_id(schema: Schema, partition_by: tuple[str, ...]) -> int:
    """Return a number for the columns, since Delta numbers no schemas."""
    return zlib.crc32(f"{schema} by {partition_by}".encode()) >> 1
