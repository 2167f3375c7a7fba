"""The part of a table that a worker needs, as versioned JSON: no catalog, no secret of ours.

Invariants:
- reading back what was written returns an equal value; a newer version is rejected;
- storage settings are those of `storage`: a credential is replaced by the reference that the spec
  has, or by what the catalog lent for this table, which ends soon (protocol.md 8).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pydantic
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortOrder

from penstock.connectors.iceberg.io.credentials import Credential, shared
from penstock.connectors.iceberg.io.locations import PROVIDER, names_a_class
from penstock.connectors.iceberg.ledger.properties import CREATED
from penstock.connectors.iceberg.schema.types import stored
from penstock.core.table_errors import no_target, require_target_version
from penstock.files import FileOptions

TARGET_VERSION = 3

DISTRIBUTION_MODE = "write.distribution-mode"
_METRICS = "write.metadata.metrics."
_FORMAT = "write.format.default"
_PROPERTY_PREFIXES = (
    _FORMAT,
    "write.parquet.",
    "write.orc.",
    _METRICS,
    "write.data.path",
    "write.object-storage.",
    "write.target-file-size-bytes",
    "write.metadata.path",
    PROVIDER,
    DISTRIBUTION_MODE,
    CREATED,
)
_OWN = "penstock."
_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
_ORC_CODEC, _ORC_STRIPE = "write.orc.compression-codec", "write.orc.stripe-size-bytes"
_ORC_STRIPE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What makes the files of tables alike: equal texts have one shape, which may be a key.

    `schema` has the columns of files, `columns` the names of all columns, in order. `metrics` are
    the properties that say which statistics are kept.
    """

    columns: Sequence[str]
    schema: IcebergSchema
    spec: PartitionSpec
    order: SortOrder
    metrics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how files of a table are written."""

    table: str
    format_version: int
    location: str
    shape: Shape
    properties: Mapping[str, str]
    storage: Mapping[str, str]
    lent: Mapping[str, str] = field(repr=False)
    of_catalog: FileOptions

    @property
    def format(self) -> FileFormat:
        """The format of new files."""
        return format_of(self.properties)

    def orc_options(self) -> FileOptions:
        """Return how ORC files are written. Each that is open holds a stripe, so few are."""
        options = self._sized()
        codec = self.properties.get(_ORC_CODEC, "zlib").lower()
        stripe = self._number(_ORC_STRIPE) or _ORC_STRIPE_BYTES
        most = max(1, options.buffer_bytes // min(stripe, options.target_file_bytes))
        return replace(
            options,
            compression="uncompressed" if codec == "none" else codec,
            compression_level=None,
            row_group_bytes=stripe,
            open_writers=min(options.open_writers, most),
        )

    def options(self) -> FileOptions:
        """Return how Parquet files are written: the table's properties first, then the catalog's
        sizes.

        That its numbers are numbers was seen to where the table was opened (`features`).
        """
        options = self._sized()
        codec = self.properties.get(TableProperties.PARQUET_COMPRESSION, "zstd").lower()
        level = self._number(TableProperties.PARQUET_COMPRESSION_LEVEL)
        group = self._number(TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES)
        if level is None and codec == "zstd":
            level = 1
        return replace(
            options,
            compression=_CODECS.get(codec, codec),
            compression_level=level,
            row_group_bytes=group or options.row_group_bytes,
        )

    def _sized(self) -> FileOptions:
        size = self._number(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES)
        return replace(self.of_catalog, target_file_bytes=size or self.of_catalog.target_file_bytes)

    def _number(self, key: str) -> int | None:
        text = self.properties.get(key)
        return None if text is None else int(text)


def format_of(properties: Mapping[str, str]) -> FileFormat:
    """Return the format that a table's properties ask for. Raises ValueError: there is none."""
    return FileFormat(properties.get(_FORMAT, FileFormat.PARQUET.value).upper())


def target_of(
    name: str, table: IcebergTable, own: Mapping[str, Credential], options: FileOptions
) -> str:
    """Write the target of a table as it is now."""
    metadata = table.metadata
    storage, lent = shared(table.io.properties, own)
    asks_for_any = names_a_class(metadata.properties)
    data = {
        "v": TARGET_VERSION,
        "table": name,
        "format": metadata.format_version,
        "location": metadata.location,
        "schema": metadata.schema().model_dump(mode="json", by_alias=True),
        "spec": metadata.spec().model_dump(mode="json", by_alias=True),
        "order": table.sort_order().model_dump(mode="json", by_alias=True),
        "properties": {
            key: value
            for key, value in sorted(metadata.properties.items())
            if key.startswith(_PROPERTY_PREFIXES) or (asks_for_any and not key.startswith(_OWN))
        },
        "storage": storage,
        "lent": lent,
        "sizes": options.sizes,
    }
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def relent(target: str, table: IcebergTable, own: Mapping[str, Credential]) -> str:
    """Put what a catalog lends now into a target; all else stays."""
    _, lent = shared(table.io.properties, own)
    return json.dumps({**json.loads(target), "lent": lent}, separators=(",", ":"))


def lends(target: str) -> bool:
    """Return whether a target holds credentials that end."""
    return bool(json.loads(target)["lent"])


def target_from_json(text: str) -> Target:
    """Read a target. Raises InvalidError (P190) for a newer version, BugError (P702) for no target.

    Schema, spec and order are made once for all tables that are alike: that is nearly all of the
    work, and a route has thousands of them.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        require_target_version(data["v"], TARGET_VERSION)
        properties: dict[str, str] = data["properties"]
        metrics = {key: each for key, each in properties.items() if key.startswith(_METRICS)}
        return Target(
            table=data["table"],
            format_version=data["format"],
            location=data["location"],
            shape=_shape_from_json(
                json.dumps([data["schema"], data["spec"], data["order"], metrics])
            ),
            properties=properties,
            storage=data["storage"],
            lent=data["lent"],
            of_catalog=FileOptions.of_sizes(data["sizes"]),
        )
    except (ValueError, KeyError, TypeError, pydantic.ValidationError) as error:
        raise no_target("Iceberg", error) from error


@functools.lru_cache(maxsize=64)
def _shape_from_json(text: str) -> Shape:
    schema, spec, order, metrics = json.loads(text)
    whole = IcebergSchema.model_validate(schema)
    return Shape(
        [field.name for field in whole.fields],
        stored(whole),
        PartitionSpec.model_validate(spec),
        SortOrder.model_validate(order),
        metrics,
    )
