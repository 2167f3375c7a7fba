"""Tells what manifests say of live data files, for comparing it with what the files hold.

Invariants:
- columns are those of the table's schema, known in files by id; within lists and maps nothing is
  told, for no reader filters by what is said of them;
- what the manifest list sums up of a manifest's partition values is told with each of its files;
  how many entries it counts in a manifest is compared here, for no file can tell that;
- bounds are decoded by the type of now, or by the narrower one that a column was widened from.

Source: Apache Iceberg table specification, "Data File Fields", "Appendix D: Single-value
serialization", "Schema Evolution".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg import manifest as manifests
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform

from penstock.connectors.iceberg.files.file_metadata import internal
from penstock.connectors.iceberg.files.manifest_entries import is_live, written_in
from penstock.connectors.iceberg.schema.partition_values import KNOWN_TRANSFORMS, transform_of
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.schema import Kind
from penstock.core.statistics import (
    ColumnStatistics,
    Fault,
    FileStatistics,
    Leaf,
    Mismatch,
    PartitionSummary,
    PartitionValue,
    Value,
)
from penstock.ports.tables import StatedFile

_KINDS: Mapping[type[iceberg.PrimitiveType], Kind] = {
    iceberg.BooleanType: Kind.BOOLEAN,
    iceberg.DateType: Kind.DATE,
    iceberg.StringType: Kind.STRING,
    iceberg.TimestampType: Kind.TIMESTAMP,
    iceberg.TimestamptzType: Kind.TIMESTAMPTZ,
}
_BYTES = (iceberg.StringType, iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType)
_BOUNDED = (
    *_BYTES,
    iceberg.BooleanType,
    iceberg.IntegerType,
    iceberg.LongType,
    iceberg.FloatType,
    iceberg.DoubleType,
    iceberg.DateType,
    iceberg.TimeType,
    iceberg.TimestampType,
    iceberg.TimestamptzType,
    iceberg.DecimalType,
)
_WIDENED: Mapping[type[iceberg.PrimitiveType], iceberg.PrimitiveType] = {
    iceberg.LongType: iceberg.IntegerType(),
    iceberg.DoubleType: iceberg.FloatType(),
}
_HALF_BYTES = 4


def stated_files(table: Table, branch: str) -> Iterator[StatedFile | Mismatch]:
    """Yield what is said of each live data file at the head of a branch. Raises OSError.

    Where the manifest list counts other entries than a manifest has, a mismatch is yielded first.
    """
    reader = _Reader(table)
    head = table.metadata.snapshot_by_name(branch)
    for manifest in [] if head is None else head.manifests(table.io):
        entries = written_in(manifest, table.io)
        yield from _miscounted(manifest, entries)
        if manifest.content != manifests.ManifestContent.DATA:
            continue
        for entry in filter(is_live, entries):
            stated = reader.statistics(entry.data_file, manifest.partitions or ())
            yield StatedFile(stated, partial(_opened, table.io, entry.data_file.file_path))


def _miscounted(
    manifest: manifests.ManifestFile, entries: Sequence[manifests.ManifestEntry]
) -> Iterator[Mismatch]:
    """Compare the counts of the manifest list, which tables of the first format may leave out."""
    status = manifests.ManifestEntryStatus
    for kind, name, files, rows in (
        (status.ADDED, "added", manifest.added_files_count, manifest.added_rows_count),
        (status.EXISTING, "existing", manifest.existing_files_count, manifest.existing_rows_count),
        (status.DELETED, "deleted", manifest.deleted_files_count, manifest.deleted_rows_count),
    ):
        there = [each.data_file.record_count for each in entries if each.status == kind]
        for what, told, held in (("files", files, len(there)), ("rows", rows, sum(there))):
            if told not in (None, held):
                texts = (f"{told:,} {name} {what}", f"{held:,} {name} {what}")
                yield Mismatch(manifest.manifest_path, "", Fault.COUNTS, *texts)


def _opened(io: FileIO, path: str) -> Any:
    return io.new_input(path).open()


class _Reader:
    """Reads the data files of one table's manifests."""

    def __init__(self, table: Table) -> None:
        self._metadata = table.metadata
        schema = table.schema()
        self._leaves = {number: (leaf, kind) for number, leaf, kind in _leaves(schema)}
        self._specs = {
            spec_id: [_Field(at, each, self._leaves, schema) for at, each in enumerate(spec.fields)]
            for spec_id, spec in self._metadata.specs().items()
        }

    def statistics(
        self, file: manifests.DataFile, summaries: Sequence[manifests.PartitionFieldSummary]
    ) -> FileStatistics:
        """Translate what a manifest says of a file, and the manifest list of the manifest."""
        columns, unreadable = [], []
        for number, (leaf, kind) in self._leaves.items():
            bounds: list[Value | None] = []
            for told in (file.lower_bounds, file.upper_bounds):
                raw = (told or {}).get(number)
                try:
                    bounds.append(_decoded(kind, raw))
                except (ValueError, struct.error):
                    unreadable.append(f"{leaf.name}: the bound {raw!r} is no {kind}")
                    bounds.append(None)
            counts = (file.value_counts, file.null_value_counts, file.nan_value_counts)
            stated = [(each or {}).get(number) for each in counts]
            if any(each is not None for each in (*stated, *bounds)):
                columns.append(ColumnStatistics(leaf, *stated, *bounds))
        parquet = file.file_format is manifests.FileFormat.PARQUET
        untold = () if parquet else (f"{file.file_path}: its format is {file.file_format}",)
        parts = (each.value(file, summaries) for each in self._specs[file.spec_id])
        return FileStatistics(
            file.file_path,
            file.record_count,
            file.file_size_in_bytes,
            tuple(columns),
            tuple(each for each in parts if each is not None),
            tuple(unreadable),
            untold,
        )


class _Field:
    """One field of a partition spec: its values are derived again where its column is there."""

    def __init__(
        self,
        at: int,
        field: PartitionField,
        leaves: Mapping[int, tuple[Leaf, iceberg.PrimitiveType]],
        schema: Schema,
    ) -> None:
        self._at, self._name = at, field.name
        self._leaf: Leaf | None = None
        known = isinstance(field.transform, KNOWN_TRANSFORMS)
        if known and not isinstance(field.transform, VoidTransform) and field.source_id in leaves:
            self._leaf, kind = leaves[field.source_id]
            self._type: Any = field.transform.result_type(kind)
            as_written = file_schema(Schema(iceberg.NestedField(1, "it", kind))).field("it").type
            self._derived = _deriving(transform_of(field, schema), as_written)

    def value(
        self, file: manifests.DataFile, summaries: Sequence[manifests.PartitionFieldSummary]
    ) -> PartitionValue | None:
        """Return what is said of the field; None where it cannot be derived again."""
        if self._leaf is None:
            return None
        value = internal(file.partition[self._at])
        summary = _summary(self._type, summaries[self._at]) if summaries else None
        return PartitionValue(self._name, self._leaf, value, self._derived, summary)


def _summary(
    kind: iceberg.PrimitiveType, told: manifests.PartitionFieldSummary
) -> PartitionSummary:
    bounds: list[Value | None] = []
    for raw in (told.lower_bound, told.upper_bound):
        try:
            bounds.append(_decoded(kind, raw))
        except (ValueError, struct.error):
            bounds.append(None)
    is_bounded = None not in (told.lower_bound, told.upper_bound)
    return PartitionSummary(told.contains_null, told.contains_nan, is_bounded, *bounds)


def _deriving(
    transform: Callable[[pa.Array], pa.Array], as_written: pa.DataType
) -> Callable[[pa.Array], pa.Array]:
    """Apply a transform to columns of other writers, whose types may be narrower or larger."""
    kind = as_written.storage_type if isinstance(as_written, pa.ExtensionType) else as_written
    return lambda column: transform(column.cast(kind, safe=False))


def _leaves(
    struct_: Schema | iceberg.StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[int, Leaf, iceberg.PrimitiveType]]:
    """List the columns of a schema that are no structs, lists or maps, nor within the latter.

    Those with a default for files that lack them are left out: they are not null there.
    """
    for each in struct_.fields:
        path = (*above, each.name)
        kind = each.field_type
        if each.initial_default is not None:
            continue
        if isinstance(kind, iceberg.StructType):
            yield from _leaves(kind, path)
        elif isinstance(kind, iceberg.PrimitiveType):
            shown = _KINDS.get(type(kind))
            yield each.field_id, Leaf(".".join(path), path, each.field_id, shown), kind


def _decoded(kind: iceberg.PrimitiveType, raw: bytes | None) -> Value | None:
    """Decode a bound. Raises ValueError, struct.error."""
    if raw is None or not isinstance(kind, _BOUNDED):
        return None
    if isinstance(kind, _BYTES):
        return raw
    if type(kind) in _WIDENED and len(raw) == _HALF_BYTES:
        kind = _WIDENED[type(kind)]
    found: Any = from_bytes(kind, raw)
    if isinstance(found, float) and math.isnan(found):
        return None  # of a writer before NaN were counted; it tells nothing
    value: Value = int(found) if isinstance(found, bool) else found
    return value
