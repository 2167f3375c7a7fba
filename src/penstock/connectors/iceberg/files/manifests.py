"""Writes manifests and manifest lists, and merges small manifests in levels.

Theory of operation: each append adds one small manifest. When `MERGE_AT` manifests of one level
(1 to 9 entries, 10 to 99, 100 to 999) have gathered, they become one of the next; from
`ENTRIES_MAX` entries on a manifest is left alone. So each entry is rewritten at most three times,
a commit reads and writes few manifests, and the list grows by one for a thousand files.

Invariants:
- an entry keeps its snapshot id and sequence numbers when its manifest is merged, and all that is
  told of its file: it is read exactly (`manifest_entries.py`);
- manifests are merged with those of their partition spec, delete manifests with none;
- a manifest is written by a schema that has the columns of its spec, which may be dropped by now;
  where the table keeps none, manifests of that spec are passed on as they are; for the dropped
  column of a void field another may stand, since all its values are null;
- a manifest whose counts its list leaves out is counted before it is listed again: the second
  format requires them;
- nothing is deleted, whatever happens.

Source: Apache Iceberg table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import itertools
import math
import os
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    PartitionFieldSummary,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, NestedField

from penstock.connectors.iceberg.files.manifest_entries import count_entries, entries_of
from penstock.connectors.iceberg.schema.types import field_ids
from penstock.core.table_errors import unsupported

MERGE_AT = 10
ENTRIES_MAX = 1000


class ManifestStack:
    """Writes the metadata files of one snapshot of one table."""

    def __init__(self, table: Table, snapshot_id: int) -> None:
        self._table = table
        self._name = ".".join(table.name())
        self._metadata = table.metadata
        self._snapshot_id = snapshot_id
        self._id = uuid.UUID(bytes=os.urandom(16), version=4)
        self._numbers = itertools.count()
        self._places = table.location_provider()
        self._compression: Any = self._metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def appended(self, files: Sequence[DataFile], head: int | None) -> str:
        """Write what a snapshot on `head` with more files needs; give the manifest list's path."""
        return self._listed(files, self._merged(self._standing(head)), head)

    def replaced(
        self, files: Sequence[DataFile], gone: Sequence[ManifestEntry], head: int | None
    ) -> str:
        """Write what a snapshot on `head` needs in which files stand for others that are gone.

        An entry that goes is written once more, as deleted, in its manifest's place.
        """
        paths = {entry.data_file.file_path for entry in gone}
        kept = [self._without(each, paths) for each in self._standing(head)]
        return self._listed(files, kept, head)

    def _without(self, manifest: ManifestFile, paths: set[str]) -> ManifestFile:
        if manifest.content != ManifestContent.DATA:
            return manifest
        entries = entries_of(manifest, self._table.io)
        if paths.isdisjoint(entry.data_file.file_path for entry in entries):
            return manifest
        with self._writer(manifest.partition_spec_id) as writer:
            for entry in entries:
                if entry.data_file.file_path in paths:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return self._told(writer)

    def _listed(
        self, files: Sequence[DataFile], kept: Sequence[ManifestFile], head: int | None
    ) -> str:
        added = [self._added(spec_id, group) for spec_id, group in _by_spec(files).items()]
        path = self._places.new_metadata_location(f"snap-{self._snapshot_id}-0-{self._id}.avro")
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self._table.io.new_output(path),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=head,
            sequence_number=self._metadata.next_sequence_number(),
            avro_compression=self._compression,
        ) as writer:
            writer.add_manifests([*added, *kept])
        return path

    def _standing(self, head: int | None) -> list[ManifestFile]:
        snapshot = None if head is None else self._metadata.snapshot_by_id(head)
        if snapshot is None:
            return []
        manifests = snapshot.manifests(self._table.io)
        for each in manifests:
            count_entries(each, self._table.io)
        return [each for each in manifests if each.has_added_files() or each.has_existing_files()]

    def _added(self, spec_id: int, files: Sequence[DataFile]) -> ManifestFile:
        with self._writer(spec_id) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return self._told(writer)

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        if self._metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED) == "false":
            return manifests
        levels: dict[tuple[int, int], list[ManifestFile]] = defaultdict(list)
        for each in manifests:
            if each.content == ManifestContent.DATA and _entries(each) < ENTRIES_MAX:
                levels[each.partition_spec_id, len(str(_entries(each)))].append(each)
        for (spec_id, _), group in levels.items():
            bundle = _bundle(group)
            worth_it = len(group) >= MERGE_AT and len(bundle) > 1
            if worth_it and self._schema_of(spec_id) is not None:
                gone = {each.manifest_path for each in bundle}
                rest = [each for each in manifests if each.manifest_path not in gone]
                return [*rest, self._one_of(spec_id, bundle)]
        return manifests

    def _one_of(self, spec_id: int, bundle: Sequence[ManifestFile]) -> ManifestFile:
        with self._writer(spec_id) as writer:
            for manifest in bundle:
                for entry in entries_of(manifest, self._table.io):
                    writer.existing(entry)
        return self._told(writer)

    def _schema_of(self, spec_id: int) -> Schema | None:
        """Return the newest schema that has all columns by which a spec partitions.

        Where none has those of its void fields as well, they stand in it as integers.
        """
        fields = self._metadata.specs()[spec_id].fields
        named = {each.source_id for each in fields}
        split = {each.source_id for each in fields if not isinstance(each.transform, VoidTransform)}
        former = sorted(self._metadata.schemas, key=lambda each: each.schema_id, reverse=True)
        candidates = (self._metadata.schema(), *former)
        by_need = ((each, wanted) for wanted in (named, split) for each in candidates)
        found = next((each for each, wanted in by_need if wanted <= field_ids(each)), None)
        return None if found is None else _with_columns(found, named - field_ids(found))

    def _writer(self, spec_id: int) -> ManifestWriter:
        schema = self._schema_of(spec_id)
        if schema is None:
            feature = f"the partition spec {spec_id} by a column that none of its schemas has"
            raise unsupported(self._name, feature, "no manifest of it can be written")
        return write_manifest(
            format_version=self._metadata.format_version,
            spec=self._metadata.specs()[spec_id],
            schema=schema,
            output_file=self._output(),
            snapshot_id=self._snapshot_id,
            avro_compression=self._compression,
        )

    def _told(self, writer: ManifestWriter) -> ManifestFile:
        """Return what the manifest list tells of a manifest that is written.

        PyIceberg takes -0.0 and 0.0 for equal where readers order them, so a bound at zero is
        widened to both. Spark takes NaN for the greatest number, and Iceberg's library skips
        manifests by bounds that leave it out, so that with NaN the upper one is infinite
        (docs/design/0231, 0232).
        """
        manifest = writer.to_manifest_file()
        spec = self._metadata.specs()[manifest.partition_spec_id]
        schema = self._schema_of(spec.spec_id)
        assert schema is not None, "it was just written by one"
        assert manifest.partitions is not None, "the writer sums them up"
        for at, field in enumerate(spec.partition_type(schema).fields):
            if isinstance(field.field_type, FloatType | DoubleType):
                manifest.partitions[at] = _widened(field.field_type, manifest.partitions[at])
        return manifest

    def _output(self) -> OutputFile:
        name = f"{self._id}-m{next(self._numbers)}.avro"
        return self._table.io.new_output(self._places.new_metadata_location(name))


def _with_columns(schema: Schema, gone: set[int]) -> Schema:
    """Add columns that stand for those of void fields: Avro has no union of null and null."""
    if not gone:
        return schema
    added = [NestedField(each, f"dropped column {each}", IntegerType()) for each in sorted(gone)]
    return Schema(*schema.fields, *added, schema_id=schema.schema_id)


def live_entries(table: Table, branch: str) -> list[ManifestEntry]:
    """List the live data file entries at the head of a branch, in manifest order."""
    head = table.metadata.snapshot_by_name(branch)
    manifests = [] if head is None else head.manifests(table.io)
    data = (each for each in manifests if each.content == ManifestContent.DATA)
    return [entry for manifest in data for entry in entries_of(manifest, table.io)]


def _widened(kind: FloatType | DoubleType, told: PartitionFieldSummary) -> PartitionFieldSummary:
    lower: Any = None if told.lower_bound is None else from_bytes(kind, told.lower_bound)
    upper: Any = None if told.upper_bound is None else from_bytes(kind, told.upper_bound)
    if told.contains_nan:
        lower, upper = math.inf if lower is None else lower, math.inf
    return PartitionFieldSummary(
        told.contains_null,
        told.contains_nan,
        None if lower is None else to_bytes(kind, lower or -0.0),
        None if upper is None else to_bytes(kind, upper or 0.0),
    )


def _by_spec(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    groups: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.spec_id].append(file)
    return groups


def _entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _bundle(group: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Take manifests while their entries fit into one that is then left alone."""
    bundle: list[ManifestFile] = []
    total = 0
    for each in group:
        total += _entries(each)
        if bundle and total > 2 * ENTRIES_MAX:
            break
        bundle.append(each)
    return bundle
