"""Lets PyIceberg's catalogs write table metadata of the third format, which 0.12 only reads.

Invariants:
- what is written is what PyIceberg knows of a table, as in the second format; one that has more,
  as keys of encryption, is refused before (schema/features.py);
- no two snapshots have one sequence number: PyIceberg compares them in the second format alone, and
  row ids, which it compares, do not move with a commit that adds no rows.

Source: Apache Iceberg table specification, "Table Metadata Fields", "Row Lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import AddSnapshotUpdate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import OutputFile
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.update import TableUpdate


class Outputs(Protocol):
    """Where files are written: an IO of PyIceberg, or a batch of what is written together."""

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        ...


class _Written(TableMetadataV3):
    def model_dump_json(self, **given: Any) -> str:  # type: ignore[override]
        return super(TableMetadataV3, self).model_dump_json(**given)


def writable(metadata: TableMetadata) -> TableMetadata:
    """Return metadata that can be written as JSON; the first row id of a new table is 0."""
    if not isinstance(metadata, TableMetadataV3):
        return metadata
    knows_next = metadata.next_row_id is not None or not metadata.snapshots
    assert knows_next, "the next row id is not lost: from 0 on ids would be given again"
    return _Written.model_construct(**{**dict(metadata), "next_row_id": metadata.next_row_id or 0})


class ThirdFormat(MetastoreCatalog):
    """A catalog whose metadata files PyIceberg writes: a base before PyIceberg's own class."""

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: Outputs, metadata_path: str) -> None:
        ToOutputFile.table_metadata(writable(metadata), io.new_output(metadata_path))

    def _update_and_stage_table(self, current_table: Table | None, *given: Any) -> StagedTable:
        metadata = None if current_table is None else current_table.metadata
        if isinstance(metadata, TableMetadataV3):
            require_next(given[-1], metadata.last_sequence_number)
        return super()._update_and_stage_table(current_table, *given)


def require_next(updates: Sequence[TableUpdate], last: int) -> None:
    """Raise ValueError where a snapshot's sequence number is not beyond the last one."""
    for each in updates:
        if isinstance(each, AddSnapshotUpdate) and (each.snapshot.sequence_number or 0) <= last:
            raise ValueError(f"the sequence number {each.snapshot.sequence_number} is taken")
