"""What writes the row deletes of one commit, as the table's format has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyiceberg.manifest import DataFile

from penstock.connectors.iceberg.commit.snapshots import CommitBase
from penstock.connectors.iceberg.row_deletes.changes import (
    RowChanges,
    Touched,
    as_delete_files,
    as_vectors,
)
from penstock.connectors.iceberg.row_deletes.delete_files import DeleteFileWriter
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows
from penstock.connectors.iceberg.row_deletes.vectors import VectorWriter
from penstock.connectors.iceberg.schema.row_ids import has_row_ids
from penstock.files.positions import Positions


def row_delete_writer(
    base: CommitBase, prefix: str, live: LiveRows
) -> Callable[[Sequence[Touched]], RowChanges]:
    """Return what writes row deletes, and keeps them in memory; `prefix` begins names."""
    io, places = base.table.io, base.table.location_provider()

    def vectors(deletes: Sequence[tuple[DataFile, Positions]]) -> list[DataFile]:
        written = VectorWriter(io, places, prefix).write(deletes)
        for vector, (file, positions) in zip(written, deletes, strict=True):
            base.rows.keep(vector, {file.file_path: positions})
        return written

    def delete_file(deletes: Mapping[str, Positions], like: DataFile) -> DataFile:
        file = DeleteFileWriter(io, places, prefix, base.options).write(deletes, like)
        base.rows.keep(file, deletes)
        return file

    if has_row_ids(base.metadata):
        return partial(as_vectors, live=live, write=vectors)
    return partial(as_delete_files, live=live, write=delete_file)
