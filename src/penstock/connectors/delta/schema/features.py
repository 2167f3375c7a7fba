"""Refuses tables that ask their writers for more than we do, naming the feature.

The library checks neither constraints nor generated columns for files that one registers oneself
(protocol.md 5), so what is in force must be found here.

Invariant: a feature we do not know is refused; one that is known is accepted only where our files
and entries honour it, or where it is supported by the table but not in use.

Source: Delta transaction log protocol, "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from deltalake import DeltaTable

from penstock.connectors.delta.schema.column_mapping import MODE
from penstock.connectors.delta.schema.demands import CONSTRAINTS
from penstock.connectors.delta.schema.reserved_names import OF_ROW_IDS, row_id_columns
from penstock.connectors.delta.schema.types import has_required
from penstock.core.errors import InvalidError
from penstock.core.schema import Kind, Schema
from penstock.core.schema_walk import leaves
from penstock.core.table_errors import unsupported
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.tables import TableDefinition

DELETION_VECTORS = "deletionVectors"
ROW_IDS = "delta.enableRowTracking"
"""The table property by which each row has an id that writers keep."""
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
TYPE_WIDENING = "delta.enableTypeWidening"
WIDENING = "typeWidening"
"""The feature with which deltalake 1.6 reads no rows."""
ENABLED = "delta.enableDeletionVectors"
"""The table property by which writers may make deletion vectors."""
_RETENTION = "delta.deletedFileRetentionDuration"

# Appending files honours these, with what each entry says (log/demands.py), or columns and
# properties show whether they are in use.
_HONOURED = {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
    "timestampNtz",
    WIDENING,
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
}
_SWITCHES = {
    "delta.enableIcebergCompatV1": "Iceberg compatibility (version 1)",
    "delta.enableIcebergCompatV2": "Iceberg compatibility (version 2)",
}
_OF_SPARK = {
    "clustering": "",
    "domainMetadata": "",
    "inCommitTimestamp": IN_COMMIT_TIMESTAMPS,
    "rowTracking": ROW_IDS,
    WIDENING: TYPE_WIDENING,
}
"""Features that we honour, and that deltalake gives no new table, with the properties of each."""
_MAPPINGS = ("none", "name", "id")
_WRITER_VERSION_MAX = 7
_LISTING = ("delta.enable", "delta.feature.", "delta.checkpointPolicy")


def demanded_by(handle: DeltaTable) -> tuple[int, list[str]]:
    """Return the writer version and the features of a table's protocol."""
    protocol = handle.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    return protocol.min_writer_version, sorted(features)


def require_honourable(
    table: str,
    configuration: Mapping[str, str],
    writer_version: int = 0,
    features: Sequence[str] = (),
) -> None:
    """Raise InvalidError (P436) that names the first feature we cannot honour.

    `features` are those of writers and of readers, which versions below 7 do not list.
    """
    if writer_version > _WRITER_VERSION_MAX:
        raise unsupported(table, f"writer version {writer_version}")
    for key, value in sorted(configuration.items()):
        if key == MODE and value not in _MAPPINGS:
            raise unsupported(table, f"column mapping by {value[:20]}")
        lists = writer_version == _WRITER_VERSION_MAX
        if key == MODE and value != "none" and lists and "columnMapping" not in features:
            raise unsupported(table, "column mapping without the table feature columnMapping")
        if key in _SWITCHES and value.lower() == "true":
            raise unsupported(table, _SWITCHES[key])
    for feature in sorted(features):
        if feature not in _HONOURED:
            raise unsupported(table, f"the table feature {feature}")


def require_creatable(table: str, schema: Schema, properties: Mapping[str, str]) -> None:
    """Raise InvalidError (P436) for a property by which a new table would ask for too much.

    Where deltalake lists the features of a new table, it forgets some: then Spark opens no table
    with required columns, and readers disagree on one with mapped columns.
    """
    require_honourable(table, properties)
    for key in sorted(properties):
        if key.startswith(CONSTRAINTS):
            raise unsupported(table, key, "add the constraint to the table once it is there")
    for feature, enabling in _OF_SPARK.items():
        for key in sorted(properties.keys() & {enabling, f"delta.feature.{feature}"}):
            raise InvalidError(
                f"{table} cannot be created with {key}",
                code="P436",
                hint="create the table with Spark: Penstock lands in it then, and honours it",
            )
    listing = [key for key in sorted(properties) if key.startswith(_LISTING)]
    listing += ["a time stamp without zone"] if Kind.TIMESTAMP in leaves(schema) else []
    mapped = properties.get(MODE, "none") != "none"
    if listing and (mapped or has_required(schema)):
        forgotten = "column mapping" if mapped else "required columns"
        raise InvalidError(
            f"{table} cannot be created with {forgotten} and {listing[0]}",
            code="P436",
            hint="leave one of them out, or create the table with Spark",
        )
    for key in sorted(properties):
        if key.startswith("delta.feature.") and key.removeprefix("delta.feature.") not in _HONOURED:
            raise unsupported(table, key)


def configuration_of(definition: TableDefinition) -> dict[str, str]:
    """Return the properties of a new table: with keys its rows are deleted by vectors, unless files
    are written again, and the files that these replace are kept for a day after.
    """
    if not definition.keys:
        return {**definition.properties}
    vectors = {} if definition.row_deletes is RowDeleteMode.REWRITE else {ENABLED: "true"}
    return {**vectors, _RETENTION: "interval 1 days", **definition.properties}


def require_row_deletes(
    table: str,
    configuration: Mapping[str, str],
    features: Sequence[str],
    mode: RowDeleteMode,
) -> None:
    """Raise InvalidError (P436) for a table of which no row may be deleted, or not by a vector.

    Vectors are never enabled on an existing table: readers without them would be locked out.
    Source: Delta transaction log protocol, "Deletion Vectors", "Append-only Tables", "Change Data
    Files".
    """
    if _is_on(configuration, "delta.appendOnly"):
        raise unsupported(table, "delta.appendOnly", "rows of it are never replaced or deleted")
    if _is_on(configuration, "delta.enableChangeDataFeed"):
        raise unsupported(table, "a change data feed", "row deletes write no change files")
    has_vectors = DELETION_VECTORS in features and _is_on(configuration, ENABLED)
    if mode is RowDeleteMode.AUTO and not has_vectors:
        raise InvalidError(
            f"{table} has no deletion vectors, by which its rows are replaced and deleted",
            code="P436",
            hint=f"see that its readers know them, then set {ENABLED} = true on it with Spark; or "
            "write  row_deletes: rewrite, or let a new table be created",
        )


def assigns_row_ids(configuration: Mapping[str, str], features: Sequence[str]) -> bool:
    """Return whether each file that is added gives its rows ids."""
    return "rowTracking" in features and not _is_on(configuration, "delta.rowTrackingSuspended")


def keeps_row_ids(configuration: Mapping[str, str], features: Sequence[str]) -> bool:
    """Return whether a row has its id for good, in whatever file it is."""
    return "rowTracking" in features and _is_on(configuration, ROW_IDS)


def row_ids_of(
    table: str, configuration: Mapping[str, str], features: Sequence[str], taken: Collection[str]
) -> tuple[str, ...]:
    """Return the columns of row ids, the id first; none where a row has no id for good.

    `taken` are names of other columns. Raises InvalidError (P436) where two are not left.
    """
    if not keeps_row_ids(configuration, features):
        return ()
    names = row_id_columns(configuration)
    if len({*names}.difference(taken)) < len(OF_ROW_IDS):
        raise unsupported(table, "row tracking without columns of its own for ids of rows")
    return names


def keeps_time(configuration: Mapping[str, str], features: Sequence[str]) -> bool:
    """Return whether each entry says its time, later than the one before."""
    return "inCommitTimestamp" in features and _is_on(configuration, IN_COMMIT_TIMESTAMPS)


def widens_types(configuration: Mapping[str, str], features: Sequence[str]) -> bool:
    """Return whether columns may be given wider types."""
    return WIDENING in features and _is_on(configuration, TYPE_WIDENING)


def _is_on(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "").lower() == "true"


def require_exact_partitions(table: str, schema: Schema, partition_by: Sequence[str]) -> None:
    """Raise InvalidError (P436) for a partition column with values that have no exact text."""
    for name in partition_by:
        field = schema.field(name)
        if field is not None and field.type is Kind.BINARY:
            raise unsupported(table, f"the binary partition column {name}")
