"""Refuses what cannot be honoured in an Iceberg table, by name, before anything is written to it.

Invariants:
- a table passes only if files and commits of ours keep every promise its metadata makes;
- the message names the feature as the table's metadata spells it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.transforms import IdentityTransform, VoidTransform

from penstock.connectors.iceberg.io.locations import require_allowed
from penstock.connectors.iceberg.schema.partition_values import KNOWN_TRANSFORMS
from penstock.connectors.iceberg.schema.row_ids import ROW_ID_FIELDS, has_row_ids
from penstock.connectors.iceberg.schema.types import NANOS, is_unknown
from penstock.core.table_errors import unsupported

_CODECS = {
    "write.parquet.compression-codec": frozenset(
        {"zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli", "uncompressed"}
    ),
    "write.orc.compression-codec": frozenset({"zlib", "zstd", "snappy", "lz4", "none"}),
}
_FORMATS = ("parquet", "orc")
_LEVEL = "write.parquet.compression-level"
_NUMBERS = {
    _LEVEL: (-(1 << 31), (1 << 31) - 1),  # zstd and brotli take the nearest that they know
    "write.parquet.row-group-size-bytes": (0, (1 << 63) - 1),
    "write.orc.stripe-size-bytes": (1, (1 << 63) - 1),
    "write.target-file-size-bytes": (0, (1 << 63) - 1),
}
_GZIP_LEVELS = (-1, 9)
_VERSIONS = ("1", "2", "3")
_WHY_VERSION = "versions 1 to 3 are known"


def require_honourable(
    metadata: TableMetadata, name: str, branch: str, providers: Collection[str] = ()
) -> None:
    """Raise InvalidError (P436, P289) that names the first feature we cannot honour.

    `providers` are the classes that may place its files.
    """
    if str(metadata.format_version) not in _VERSIONS:
        raise unsupported(name, f"format-version {metadata.format_version}", _WHY_VERSION)
    require_properties(metadata.properties, name, providers)
    _require_partitioning(metadata, name)
    if all(map(is_unknown, metadata.schema().fields)):
        raise unsupported(name, "columns of the type unknown alone", "a file would have none")
    if has_row_ids(metadata) and (own := sorted(ROW_ID_FIELDS.keys() & _names(metadata))):
        why = "readers take it for the one that they follow rows by"
        raise unsupported(name, f"a column named {own[0]} in format-version 3", why)
    reference = metadata.refs.get(branch)
    if reference is not None and reference.snapshot_ref_type is not SnapshotRefType.BRANCH:
        raise unsupported(name, f"a tag named {branch}", "rows land on branches")


def _require_partitioning(metadata: TableMetadata, name: str) -> None:
    for field in metadata.spec().fields:
        if not isinstance(field.transform, KNOWN_TRANSFORMS):
            raise unsupported(name, f"the partition transform {field.transform}", "it is not known")
        if isinstance(field.transform, VoidTransform):
            continue
        source = metadata.schema().find_field(field.source_id)
        if is_unknown(source):
            raise unsupported(name, f"a partition of {source.name}", "its type is not known yet")
        nanos = isinstance(source.field_type, NANOS)
        if nanos and isinstance(field.transform, IdentityTransform):
            why = f"PyIceberg reads no partition values of the type {source.field_type}"
            raise unsupported(name, f"a partition of {source.name} by its values", why)


def _names(metadata: TableMetadata) -> set[str]:
    return {field.name for field in metadata.schema().fields}


def require_properties(
    properties: Mapping[str, str], name: str, providers: Collection[str] = ()
) -> None:
    """Raise InvalidError (P436) for a property that we cannot honour, a class that places files
    among them that is none of `providers`; P289 where that cannot be made.
    """
    require_allowed(properties, name, providers)
    version = properties.get("format-version", "2")
    if version not in _VERSIONS:
        raise unsupported(name, f"format-version {version[:20]}", _WHY_VERSION)
    for key, value in properties.items():
        if key.startswith("encryption."):
            raise unsupported(name, f"table encryption ({key})", "its files would be plain")
        if key == "write.location-provider.impl":
            raise unsupported(name, key, "it is a class of Java: its files would lie elsewhere")
        if key == "write.format.default" and value.lower() not in _FORMATS:
            raise unsupported(name, f"{key}={value[:20]}", "Parquet and ORC are written")
        if key in _CODECS and value.lower() not in _CODECS[key]:
            known = ", ".join(sorted(_CODECS[key]))
            raise unsupported(name, f"{key}={value[:20]}", f"known are {known}")
        if _asks_for_bloom_filters(key, value):
            raise unsupported(name, key, "no bloom filters are written")
    _require_numbers(properties, name)


def _asks_for_bloom_filters(key: str, value: str) -> bool:
    if key == "write.orc.bloom.filter.columns":
        return bool(value.strip())
    return key.startswith("write.parquet.bloom-filter-enabled.") and value.lower() == "true"


def _require_numbers(properties: Mapping[str, str], name: str) -> None:
    gzip = properties.get("write.parquet.compression-codec", "").lower() == "gzip"
    for key in sorted(_NUMBERS.keys() & properties.keys()):
        least, most = _GZIP_LEVELS if gzip and key == _LEVEL else _NUMBERS[key]
        text = properties[key]
        try:
            number = int(text)
        except ValueError as error:
            raise unsupported(name, f"{key}={text[:20]}", "it is not a whole number") from error
        if not least <= number <= most:
            raise unsupported(name, f"{key}={text[:20]}", f"it must lie between {least} and {most}")
