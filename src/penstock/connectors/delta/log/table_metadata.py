"""The form of a table: what stays as it is until an entry of the log changes metadata or protocol.

Invariant: a table that asks its writers for what we do not honour has no form, but an error with
the feature's name.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading, unreadable_log
from penstock.connectors.delta.files.statistics import INDEXED_COLUMNS, Indexed
from penstock.connectors.delta.files.target import Target, target_to_json
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.schema.column_mapping import Stored, stored_as
from penstock.connectors.delta.schema.demands import demands_of
from penstock.connectors.delta.schema.features import (
    demanded_by,
    require_exact_partitions,
    require_honourable,
    row_ids_of,
)
from penstock.connectors.delta.schema.types import schema_of
from penstock.core.demands import NO_DEMANDS, Demands
from penstock.core.schema import Kind, Schema
from penstock.files import FileOptions

_CLUSTERING = "delta.clustering"


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metadata of a table, and the target that its workers get, as JSON too."""

    uuid: str
    schema_id: int
    partition_by: tuple[str, ...]
    configuration: Mapping[str, str] = field(repr=False)
    writer_version: int
    features: Sequence[str] = field(repr=False)
    target: Target = field(repr=False)
    target_text: str = field(repr=False)
    demands: Demands = NO_DEMANDS
    row_ids: tuple[str, ...] = ()


def texts_among(columns: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return those of a table's columns that hold texts."""
    texts = {field.name for field in schema.fields if field.type is Kind.STRING}
    return tuple(name for name in columns if name in texts)


def form_of(
    name: str,
    root: StorageRoot,
    options: FileOptions,
    handle: Handle,
    domains: Mapping[str, str],
) -> TableMetadata:
    """Read a table's form, which its metadata domains are part of.

    Raises UnavailableError, InvalidError (P435, P436, P438).
    """
    with reading(name):
        metadata = handle.metadata()
        version, features = demanded_by(handle)
        text = handle.schema().to_json()
    configuration = metadata.configuration
    require_honourable(name, configuration, version, features)
    schema = schema_of(text, name)
    demands = demands_of(name, text, schema, configuration)
    partition_by = tuple(metadata.partition_columns)
    require_exact_partitions(name, schema, partition_by)
    stored = stored_as(text, schema, configuration)
    target = Target(
        table=name,
        location=root.location(name),
        schema=schema,
        stored=stored,
        partition_by=tuple(stored.name_of(schema, each) for each in partition_by),
        indexed=_indexed(configuration, stored, schema, _clustering(name, domains)),
        options=options,
        storage=root.public,
    )
    return TableMetadata(
        uuid=str(metadata.id),
        schema_id=_number_of(schema, partition_by, demands),
        partition_by=partition_by,
        configuration=configuration,
        writer_version=version,
        features=features,
        target=target,
        target_text=target_to_json(target),
        demands=demands,
        row_ids=row_ids_of(name, configuration, features, {*schema.names, *stored.schema.names}),
    )


def _number_of(schema: Schema, partition_by: Sequence[str], demands: Demands) -> int:
    """Return a number for what rows were written by: Delta has none for its schemas.

    Rows that were written before a constraint was added are not known to satisfy it.
    """
    text = f"{schema} by {partition_by}" + (f" as {demands}" if demands else "")
    return zlib.crc32(text.encode()) >> 1


def _clustering(name: str, domains: Mapping[str, str]) -> tuple[str, ...]:
    """Return the dotted paths, as files have them, of the columns that a table is clustered by.

    Raises InvalidError (P438). Source: Delta transaction log protocol, "Clustered Table", which
    shows texts where Spark writes lists of them.
    """
    try:
        columns = json.loads(domains.get(_CLUSTERING, "{}")).get("clusteringColumns", [])
        return tuple(each if isinstance(each, str) else ".".join(each) for each in columns)
    except (ValueError, TypeError, AttributeError) as error:
        raise unreadable_log(name, error) from error


def _indexed(
    configuration: Mapping[str, str],
    stored: Stored,
    schema: Schema,
    clustering: tuple[str, ...],
) -> Indexed:
    count = configuration.get("delta.dataSkippingNumIndexedCols", "")
    texts = configuration.get("delta.dataSkippingStatsColumns", "").split(",")
    names = (name for text in texts if (name := text.strip(" `")))
    return Indexed(
        count=int(count) if count.removeprefix("-").isdecimal() else INDEXED_COLUMNS,
        names=tuple(stored.name_of(schema, name) for name in names),
        clustering=clustering,
    )
