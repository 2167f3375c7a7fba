"""Reads what manifests say of live data files, to compare it with what the files hold.

Invariants:
- columns are those of the table's schema, known in files by id; within lists and maps nothing is
  read, since no reader filters by their statistics;
- the manifest list's summary of a manifest's partition values is returned with each of its files;
  its entry counts of a manifest are compared here, since no file holds them;
- bounds are decoded by the type of now, or by the narrower one that a column was widened from.

Source: Apache Iceberg table specification, "Data File Fields", "Appendix D: Single-value
serialization", "Schema Evolution".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
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

from penstock.connectors.iceberg.files.entry_counts import COUNTED, counts_of
from penstock.connectors.iceberg.files.file_metadata import internal
from penstock.connectors.iceberg.files.manifest_entries import is_live, written_in
from penstock.connectors.iceberg.files.manifest_lists import manifests_of
from penstock.connectors.iceberg.schema.partition_values import KNOWN_TRANSFORMS, transform_of
from penstock.connectors.iceberg.schema.types import KINDS, file_schema
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

_BYTES = (iceberg.StringType, iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType)
_BOUNDED: tuple[type[iceberg.IcebergType], ...] = (*KINDS, iceberg.FixedType, iceberg.DecimalType)
_WIDENED: Mapping[type[iceberg.PrimitiveType], iceberg.PrimitiveType] = {
    iceberg.LongType: iceberg.IntegerType(),
    iceberg.DoubleType: iceberg.FloatType(),
}
_HALF_BYTES = 4
_Leaves = Mapping[int, tuple[Leaf, iceberg.PrimitiveType]]


def stated_files(table: Table, branch: str) -> Iterator[StatedFile | Mismatch]:
    """Yield what is said of each live data file at the head of a branch. Raises OSError.

    Where the manifest list counts other entries than a manifest has, a mismatch is yielded first.
    """
    schema = table.schema()
    leaves = {number: (leaf, kind) for number, leaf, kind in _leaves(schema)}
    specs = {
        spec_id: [
            _Field(at, each, leaves[each.source_id], schema)
            for at, each in enumerate(spec.fields)
            if isinstance(each.transform, KNOWN_TRANSFORMS)
            and not isinstance(each.transform, VoidTransform)
            and each.source_id in leaves
        ]
        for spec_id, spec in table.metadata.specs().items()
    }
    head = table.metadata.snapshot_by_name(branch)
    for manifest in manifests_of(table, head):
        entries = written_in(manifest, table.io)
        # The list of a table of the first format may leave the counts out.
        for (status, what), held in counts_of(entries).items():
            if (listed := manifest[COUNTED[status, what]]) not in (None, held):
                kind = f"{status.name.lower()} {what}"
                texts = (f"{listed:,} {kind}", f"{held:,} {kind}")
                yield Mismatch(manifest.manifest_path, "", Fault.COUNTS, *texts)
        if manifest.content != manifests.ManifestContent.DATA:
            continue
        for entry in filter(is_live, entries):
            file, summaries = entry.data_file, manifest.partitions or ()
            parts = tuple(each.value(file, summaries) for each in specs[file.spec_id])
            yield StatedFile(
                _statistics(file, leaves, parts), partial(_opened, table.io, file.file_path)
            )


def _opened(io: FileIO, path: str) -> Any:
    return io.new_input(path).open()


def _statistics(
    file: manifests.DataFile, leaves: _Leaves, parts: tuple[PartitionValue, ...]
) -> FileStatistics:
    columns, unreadable = [], []
    for number, (leaf, kind) in leaves.items():
        raws = [(each or {}).get(number) for each in (file.lower_bounds, file.upper_bounds)]
        bounds, wrong = _bounds(kind, raws)
        unreadable += [f"{leaf.name}: the bound {raw!r} is no {kind}" for raw in wrong]
        counts = (file.value_counts, file.null_value_counts, file.nan_value_counts)
        stated = [(each or {}).get(number) for each in counts]
        if any(each is not None for each in (*stated, *bounds)):
            columns.append(ColumnStatistics(leaf, *stated, *bounds))
    parquet = file.file_format is manifests.FileFormat.PARQUET
    not_compared = () if parquet else (f"{file.file_path}: its format is {file.file_format}",)
    return FileStatistics(
        file.file_path,
        file.record_count,
        file.file_size_in_bytes,
        tuple(columns),
        parts,
        tuple(unreadable),
        not_compared,
    )


class _Field:
    """One field of a partition spec, with its values derived again from its column."""

    def __init__(
        self,
        at: int,
        field: PartitionField,
        column: tuple[Leaf, iceberg.PrimitiveType],
        schema: Schema,
    ) -> None:
        self._at, self._name = at, field.name
        self._leaf, kind = column
        self._type: Any = field.transform.result_type(kind)
        self._transform = transform_of(field, schema)
        found = file_schema(Schema(iceberg.NestedField(1, "it", kind))).field("it").type
        self._written = found.storage_type if isinstance(found, pa.ExtensionType) else found

    def value(
        self, file: manifests.DataFile, summaries: Sequence[manifests.PartitionFieldSummary]
    ) -> PartitionValue:
        value = internal(file.partition[self._at])
        summary = None
        if summaries:
            listed = summaries[self._at]
            raws = [listed.lower_bound, listed.upper_bound]
            bounds, _ = _bounds(self._type, raws)
            nulls, nans = listed.contains_null, listed.contains_nan
            summary = PartitionSummary(nulls, nans, None not in raws, *bounds)
        return PartitionValue(self._name, self._leaf, value, self._derived, summary)

    def _derived(self, column: pa.Array) -> pa.Array:
        # Columns of other writers may be narrower or larger.
        return self._transform(column.cast(self._written, safe=False))


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
            shown = KINDS.get(type(kind))
            yield each.field_id, Leaf(".".join(path), path, each.field_id, shown), kind


def _bounds(
    kind: iceberg.PrimitiveType, raws: Sequence[bytes | None]
) -> tuple[list[Value | None], list[bytes | None]]:
    """Decode bounds, None for one that cannot be decoded; return those in addition."""
    bounds: list[Value | None] = []
    wrong = []
    for raw in raws:
        try:
            bounds.append(_decoded(kind, raw))
        except (ValueError, struct.error):
            bounds.append(None)
            wrong.append(raw)
    return bounds, wrong


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
        return None  # of a writer before NaN were counted; it means nothing
    value: Value = int(found) if isinstance(found, bool) else found
    return value
