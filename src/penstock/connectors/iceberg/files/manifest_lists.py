"""Reads and writes manifest lists, of the third format as well, which PyIceberg does not.

Theory of operation: each row of a table of the third format has an id. A list gives each manifest
of data files the ids that begin at its `first_row_id`, once and for ever: a manifest that has none
is given the next that the table has, one for each of its live rows. A snapshot says where its ids
begin and how many it has given; the catalog refuses one that begins below the table's next, so no
id is given twice (docs/design/0247).

Invariants:
- a manifest keeps its `first_row_id` in every list after the first that gives it one;
- PyIceberg drops these ids as it reads a list, and keeps what it has read: lists of the third
  format are read here, and nowhere else.

Source: Apache Iceberg table specification, "Manifest Lists", "Row Lineage".
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestFile,
    ManifestListWriter,
    ManifestListWriterV2,
    PartitionFieldSummary,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion

from penstock.connectors.iceberg.files.avro_files import LaidOutFile, Layout
from penstock.connectors.iceberg.schema.row_ids import ROW_IDS_FROM, has_row_ids

_SCHEMA = MANIFEST_LIST_FILE_SCHEMAS[ROW_IDS_FROM]
_FIRST_ROW_ID_AT = len(MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION].fields)


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """Read the manifest list of a snapshot. Raises OSError, ValueError."""
    if snapshot is None:
        return []
    if not has_row_ids(table.metadata):
        return snapshot.manifests(table.io)
    with AvroFile[ManifestFile](
        table.io.new_input(snapshot.manifest_list),
        _SCHEMA,
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return [*reader]


def first_row_id_of(manifest: ManifestFile) -> int | None:
    """Return the first id of a manifest's rows; None where it was given none."""
    found: int | None = manifest[_FIRST_ROW_ID_AT] if len(manifest) > _FIRST_ROW_ID_AT else None
    return found


def next_row_id_of(metadata: TableMetadata) -> int:
    """Return the first id that no row of a table has."""
    found: int = getattr(metadata, "next_row_id", None) or 0
    return found


def list_writer(metadata: TableMetadata, **given: Any) -> ManifestListWriter:
    """Return what writes a manifest list; `given` is what `write_manifest_list` takes."""
    if has_row_ids(metadata):
        return RowIdListWriter(next_row_id_of(metadata), **given)
    if metadata.format_version == 1:
        return write_manifest_list(1, **given)
    return _ListWriter(**given)


class _ListWriter(ManifestListWriterV2):
    def __init__(self, *, avro_compression: Any, **given: Any) -> None:
        super().__init__(**given, compression=avro_compression)

    def __enter__(self) -> Self:
        """Open the file with the columns of its format."""
        self._writer = LaidOutFile(self._output_file, _layout(self._format_version), self._meta)
        self._writer.__enter__()
        return self


@cache
def _layout(version: TableVersion) -> Layout:
    schema = MANIFEST_LIST_FILE_SCHEMAS[version]
    return Layout.of("manifest_file", schema, schema)


class RowIdListWriter(_ListWriter):
    """Writes a list of the third format; `next_row_id` is the first id that no row has by then."""

    def __init__(self, next_row_id: int, **given: Any) -> None:
        super().__init__(**given)
        self._format_version = ROW_IDS_FROM
        self._meta["format-version"] = str(ROW_IDS_FROM)
        self._meta["first-row-id"] = str(next_row_id)
        self.next_row_id = next_row_id

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """Return a manifest as it is listed: numbered, and with row ids where it holds rows."""
        first = first_row_id_of(manifest_file)
        numbered = super().prepare_manifest(manifest_file)
        if first is None and numbered.content is ManifestContent.DATA:
            first = self.next_row_id
            self.next_row_id += (numbered.added_rows_count or 0) + (
                numbered.existing_rows_count or 0
            )
        return ManifestFile(*(numbered[at] for at in range(_FIRST_ROW_ID_AT)), first)
