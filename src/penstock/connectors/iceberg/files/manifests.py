"""Writes manifests and manifest lists, and merges small manifests in levels.

Theory of operation: each append adds one small manifest. When `MERGE_AT` manifests of one level
(1 to 9 entries, 10 to 99, 100 to 999) have gathered, they become one of the next; from
`ENTRIES_MAX` entries on a manifest is left alone. So each entry is rewritten at most three times,
a commit reads and writes few manifests, and the list grows by one for a thousand files.

Invariants:
- an entry keeps its snapshot id and sequence numbers when its manifest is merged, and all that it
  says of its file: it is read exactly (`manifest_entries.py`);
- manifests are merged with those of their partition spec and content, delete manifests only where
  rows are deleted: with equality deletes, which PyIceberg cannot write, they stay as they are;
- a manifest of which entries go is written again with all such of its spec and content;
- a manifest is written by a schema that has the columns of its spec, which may be dropped by now;
  where the table keeps none, manifests of that spec are passed on as they are; the dropped
  column of a void field may be replaced by another, since all its values are null;
- a manifest without counts in its list is counted before it is listed again: format version 2
  requires them, and by them version 3 gives row ids;
- nothing is deleted, whatever happens.

Source: Apache Iceberg table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import itertools
import math
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    PartitionFieldSummary,
    write_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.types import DoubleType, FloatType

from penstock.connectors.iceberg.files.entry_counts import count_entries
from penstock.connectors.iceberg.files.kept_entries import KeptEntries
from penstock.connectors.iceberg.files.manifest_entries import (
    EntryWriter,
    content_of,
    entries_of,
    name_of,
)
from penstock.connectors.iceberg.files.manifest_lists import (
    RowIdListWriter,
    list_writer,
    manifests_of,
    next_row_id_of,
)
from penstock.connectors.iceberg.files.staged_manifests import (
    ENTRIES_MAX,
    StagedManifests,
    bundle_of,
    bundles_of,
    entry_count,
    level_of,
)
from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch
from penstock.connectors.iceberg.schema.partition_schemas import schema_of
from penstock.core.sweeps import METADATA_MARK
from penstock.core.table_errors import unsupported

MERGE_AT = 10
_DATA = (ManifestContent.DATA,)
_ALL = (ManifestContent.DATA, ManifestContent.DELETES)

_Act = Callable[[ManifestWriter, ManifestEntry], ManifestWriter]
"""How an entry is written: added, as an existing one, or as deleted."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A manifest list that was written; how many row ids it gives, None where rows have none."""

    path: str
    row_ids: int | None = None


class ManifestStack:
    """Writes the metadata files of one snapshot of one table; with `files`, they are made there."""

    def __init__(
        self,
        table: Table,
        snapshot_id: int,
        kept: KeptEntries | None = None,
        staged: StagedManifests | None = None,
        files: MetadataBatch | None = None,
    ) -> None:
        self._table = table
        self._outputs = files or table.io
        self._name = ".".join(table.name())
        self._metadata = table.metadata
        self._snapshot_id = snapshot_id
        self._staged = staged or StagedManifests(frozenset(), snapshot_id)
        self._kept = kept or KeptEntries()
        self._id = f"{METADATA_MARK}{uuid.UUID(bytes=os.urandom(16), version=4)}"
        self._numbers = itertools.count()
        self._places = table.location_provider()
        self._compression: Any = self._metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def appended(self, files: Sequence[DataFile], head: int | None) -> Listed:
        """Write what a snapshot on `head` with more files needs; return its manifest list."""
        manifests = live_manifests(self._table, head)
        return self._listed(files, self._merged(manifests, _DATA), head)

    def replaced(
        self,
        files: Sequence[DataFile],
        removed: Sequence[ManifestEntry],
        head: int | None,
        manifests: Sequence[ManifestFile] | None = None,
    ) -> Listed:
        """Write what a snapshot on `head` needs that replaces files by others.

        An entry that goes is written once more, as deleted, in a manifest in its manifest's place.
        `manifests` are those of `head` which have live entries, where somebody has read them.
        """
        listed = live_manifests(self._table, head) if manifests is None else manifests
        rewritten, rest = self._without(removed, listed)
        return self._listed(files, [*rewritten, *rest], head)

    def stage(
        self,
        files: Sequence[DataFile],
        removed: Sequence[ManifestEntry],
        manifests: Sequence[ManifestFile],
    ) -> None:
        """Write what of a replacement of data files depends on no state."""
        self._without(removed, manifests)
        self._added(files)

    def changed(
        self, files: Sequence[DataFile], removed: Sequence[ManifestEntry], head: int | None
    ) -> Listed:
        """Write what a snapshot on `head` needs in which files come and others go.

        There are no equality deletes.
        """
        rewritten, rest = self._without(removed, live_manifests(self._table, head))
        return self._listed(files, [*rewritten, *self._merged(rest, _ALL)], head)

    def _without(
        self, removed: Sequence[ManifestEntry], manifests: Sequence[ManifestFile]
    ) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """Write the manifests with removed entries again; return those, and the others."""
        names: dict[ManifestContent, set[str]] = defaultdict(set)
        for entry in removed:
            names[content_of(entry.data_file)].add(name_of(entry.data_file))
        touched: dict[tuple[ManifestContent, int], list[ManifestFile]] = defaultdict(list)
        rest: list[ManifestFile] = []
        for each in manifests:
            goes = names[each.content] and self._touches(each, names[each.content])
            (touched[each.content, each.partition_spec_id] if goes else rest).append(each)
        rewritten: list[ManifestFile] = []
        for (content, spec_id), group in touched.items():
            if content == ManifestContent.DATA:
                for bundle in self._staged.bundles(group):
                    acts = self._acts(bundle, names[content])
                    write = partial(self._written, spec_id, acts, content)
                    rewritten.append(self._staged.rewritten(bundle, write))
            else:
                rewritten += [
                    self._written(spec_id, self._acts(bundle, names[content]), content)
                    for bundle in bundles_of(group)
                ]
        return rewritten, rest

    def _touches(self, manifest: ManifestFile, removed: set[str]) -> bool:
        """Return whether entries of a manifest go; one of data files is looked at once."""
        known = self._staged.touched if manifest.content == ManifestContent.DATA else {}
        path = manifest.manifest_path
        if path not in known:
            entries = self._entries(manifest)
            known[path] = any(name_of(each.data_file) in removed for each in entries)
        return known[path]

    def _acts(
        self, manifests: Sequence[ManifestFile], removed: set[str]
    ) -> Iterator[tuple[_Act, ManifestEntry]]:
        for entry in itertools.chain.from_iterable(map(self._entries, manifests)):
            is_removed = name_of(entry.data_file) in removed
            yield (ManifestWriter.delete if is_removed else ManifestWriter.existing), entry

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return self._kept.of(manifest, self._table.io)

    def _listed(
        self, files: Sequence[DataFile], kept: Sequence[ManifestFile], head: int | None
    ) -> Listed:
        added = self._added(files)
        path = self._places.new_metadata_location(f"snap-{self._snapshot_id}-0-{self._id}.avro")
        with list_writer(
            self._metadata,
            output_file=self._outputs.new_output(path),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=head,
            sequence_number=self._metadata.next_sequence_number(),
            avro_compression=self._compression,
        ) as writer:
            writer.add_manifests([*added, *kept])
        if not isinstance(writer, RowIdListWriter):
            return Listed(path)
        return Listed(path, writer.next_row_id - next_row_id_of(self._metadata))

    def _added(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        groups: dict[tuple[ManifestContent, int], list[tuple[_Act, ManifestEntry]]]
        groups = defaultdict(list)
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            groups[content_of(file), file.spec_id].append((ManifestWriter.add, entry))
        added: list[ManifestFile] = []
        for (content, spec_id), entries in groups.items():
            write = partial(self._written, spec_id, entries, content)
            is_data = content == ManifestContent.DATA
            added.append(self._staged.added(spec_id, write) if is_data else write())
        return added

    def _merged(
        self, manifests: list[ManifestFile], contents: Sequence[ManifestContent]
    ) -> list[ManifestFile]:
        if self._metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED) == "false":
            return manifests
        levels: dict[tuple[ManifestContent, int, int], list[ManifestFile]] = defaultdict(list)
        for each in manifests:
            if each.content in contents and entry_count(each) < ENTRIES_MAX:
                levels[each.content, each.partition_spec_id, level_of(each)].append(each)
        for (content, spec_id, _), group in levels.items():
            bundle = bundle_of(group)
            worth_it = len(group) >= MERGE_AT and len(bundle) > 1
            if worth_it and schema_of(self._metadata, spec_id) is not None:
                merged = {each.manifest_path for each in bundle}
                rest = [each for each in manifests if each.manifest_path not in merged]
                entries = (entry for each in bundle for entry in self._entries(each))
                existing = ((ManifestWriter.existing, entry) for entry in entries)
                return [*rest, self._written(spec_id, existing, content)]
        return manifests

    def _written(
        self,
        spec_id: int,
        entries: Iterable[tuple[_Act, ManifestEntry]],
        content: ManifestContent = ManifestContent.DATA,
    ) -> ManifestFile:
        """Write a manifest; return its entry in the manifest list.

        PyIceberg takes -0.0 and 0.0 for equal where readers order them, so a bound at zero is
        widened to both. Spark takes NaN for the greatest number, and Iceberg's library skips
        manifests by bounds that leave it out, so that with NaN the upper one is infinite
        (docs/design/0231, 0232).
        """
        schema = schema_of(self._metadata, spec_id)
        if schema is None:
            feature = f"the partition spec {spec_id} by a column that none of its schemas has"
            raise unsupported(self._name, feature, "no manifest of it can be written")
        spec = self._metadata.specs()[spec_id]
        path = self._places.new_metadata_location(f"{self._id}-m{next(self._numbers)}.avro")
        with self._writer(path, spec, schema, content) as writer:
            for act, entry in entries:
                act(writer, entry)
        manifest = writer.to_manifest_file()
        assert manifest.partitions is not None, "the writer sums them up"
        for at, field in enumerate(spec.partition_type(schema).fields):
            if isinstance(field.field_type, FloatType | DoubleType):
                manifest.partitions[at] = _widened(field.field_type, manifest.partitions[at])
        return manifest

    def _writer(
        self, path: str, spec: PartitionSpec, schema: Schema, content: ManifestContent
    ) -> ManifestWriter:
        given: dict[str, Any] = {
            "spec": spec,
            "schema": schema,
            "output_file": self._outputs.new_output(path),
            "snapshot_id": self._snapshot_id,
            "avro_compression": self._compression,
        }
        version = self._metadata.format_version
        return (
            write_manifest(1, **given) if version == 1 else EntryWriter(version, content, **given)
        )


def live_manifests(table: Table, head: int | None) -> list[ManifestFile]:
    """List the manifests of a snapshot that have live entries. Raises OSError, ValueError."""
    snapshot = None if head is None else table.metadata.snapshot_by_id(head)
    manifests = manifests_of(table, snapshot)
    for each in manifests:
        count_entries(each, table.io)
    return [each for each in manifests if each.has_added_files() or each.has_existing_files()]


def live_entries(table: Table, branch: str) -> list[ManifestEntry]:
    """List the live data file entries at the head of a branch, in manifest order."""
    entries = all_live_entries(table, branch)
    return [each for each in entries if each.data_file.content == DataFileContent.DATA]


def all_live_entries(table: Table, branch: str) -> list[ManifestEntry]:
    """List the live entries at the head of a branch, of data files and of delete files."""
    head = table.metadata.snapshot_by_name(branch)
    return [
        entry for manifest in manifests_of(table, head) for entry in entries_of(manifest, table.io)
    ]


def _widened(kind: FloatType | DoubleType, field: PartitionFieldSummary) -> PartitionFieldSummary:
    lower: Any = None if field.lower_bound is None else from_bytes(kind, field.lower_bound)
    upper: Any = None if field.upper_bound is None else from_bytes(kind, field.upper_bound)
    if field.contains_nan:
        lower, upper = math.inf if lower is None else lower, math.inf
    return PartitionFieldSummary(
        field.contains_null,
        field.contains_nan,
        None if lower is None else to_bytes(kind, lower or -0.0),
        None if upper is None else to_bytes(kind, upper or 0.0),
    )
