"""Opens live data files on the driver, and reads their rows that are not deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.connectors.delta.errors import reading_file
from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.log.table_metadata import TableMetadata
from penstock.connectors.delta.read.file_rows import rows_in
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.read.live_map import KnownFile
from penstock.connectors.delta.read.row_ids import inherited_by
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.files.positions import Positions
from penstock.ports.row_deletes import Sought


def rows_of(
    root: StorageRoot,
    name: str,
    form: TableMetadata,
    files: Iterable[KnownFile],
    columns: Sequence[str],
    *,
    deleted: DeletedRows,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the rows of live files that are not deleted. Raises as `live_rows`."""
    for each in files:
        gone = deleted.of(each.add)
        for batch in live_rows(root, name, form, each.add, columns, deleted=gone):
            yield batch.select(columns)


def live_rows(
    root: StorageRoot,
    name: str,
    form: TableMetadata,
    add: Add,
    columns: Sequence[str],
    *,
    deleted: Positions,
    sought: Sought | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read columns of a file's rows that are not deleted, of those sought; the last column is their
    `POSITION`.

    Raises UnavailableError (P403, P430), InvalidError (P435 no such column, P436).
    """
    place = place_of(root, name, add["path"])
    with reading_file(name), root.filesystem().open_input_file(place) as file:
        ids = inherited_by(add, form.row_ids)
        yield from rows_in(
            file, form.target, add, columns, inherited=ids, deleted=deleted, sought=sought
        )
