"""Tells where the rows of each live file came from, and how a file is taken away.

Invariants:
- a file is left out only when its statistics prove that it holds no row asked for;
- tables whose files do not tell what is live (deletion vectors), or that take nothing away
  (`delta.appendOnly`), are refused by name.

Source: Delta transaction log protocol, "Add File and Remove File", "Append-only Tables".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as Handle
from pyarrow import fs

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.locations import StorageRoot, storage_path
from penstock.connectors.delta.log.commit_file import Removal
from penstock.connectors.delta.log.table_metadata import TableMetadata
from penstock.connectors.delta.read.scan import COORDINATES
from penstock.connectors.delta.schema.column_mapping import is_mapped
from penstock.connectors.delta.schema.features import demanded_by
from penstock.core.errors import InvalidError
from penstock.core.table_errors import no_column, not_live
from penstock.files.sources import PLACE, source_of
from penstock.ports.tables import FileSource


def sources_of(
    name: str,
    handle: Handle,
    root: StorageRoot,
    columns: Mapping[str, str],
    ends: Mapping[tuple[str, int], int],
) -> list[FileSource]:
    """Read the source columns of files. Raises InvalidError (P435, P436), OSError."""
    if "deletionVectors" in demanded_by(handle)[1]:
        raise _refusal(name, "the table feature deletionVectors", "which rows are live, files hide")
    if is_mapped(handle.metadata().configuration):
        raise _refusal(name, "column mapping", "their columns have other names")
    known = {field.name for field in handle.schema().fields}
    for each in PLACE:
        if columns[each] not in known:
            raise no_column(name, columns[each])
    lowest = min(ends.values(), default=0)
    storage = root.filesystem()
    return [
        source_of(add["path"], _rows(name, storage, root.location(name), add, columns))
        for add in _adds(handle, columns.values())
        if _may_reach(add, columns["offset"], lowest)
    ]


def removals(name: str, handle: Handle, form: TableMetadata, paths: Sequence[str]) -> list[Removal]:
    """Describe files to take away. Raises InvalidError (P436; P439 when one is not live)."""
    if form.configuration.get("delta.appendOnly", "").lower() == "true":
        raise _refusal(name, "delta.appendOnly", "nothing may be taken away")
    with reading(name):
        sizes = {add["path"]: int(add["size_bytes"]) for add in _adds(handle)}
    lost = [path for path in paths if path not in sizes]
    if lost:
        raise not_live(name, lost[0])
    return [Removal(path, sizes[path], whole=not form.partition_by) for path in paths]


def _adds(handle: Handle, columns: Collection[str] = ()) -> list[dict[str, Any]]:
    """List live files with what is told of some columns, of which Python can hold all values."""
    told = pa.table(handle.get_add_actions(flatten=True))
    wanted = {"path", "size_bytes", "num_records"}
    wanted |= {f"{part}.{column}" for part in ("max", "partition") for column in columns}
    return list(told.select([name for name in told.column_names if name in wanted]).to_pylist())


def _may_reach(add: Mapping[str, Any], column: str, lowest: int) -> bool:
    newest = add.get(f"max.{column}")
    return newest is None or int(newest) >= lowest


def _rows(
    name: str,
    storage: fs.FileSystem,
    location: str,
    add: Mapping[str, Any],
    columns: Mapping[str, str],
) -> pa.Table:
    path = unquote(add["path"])
    if urlsplit(path).scheme or path.startswith("/"):
        raise _refusal(name, "files outside of its directory", "they are another table's")
    with storage.open_input_file(f"{storage_path(location)}/{path}") as file:
        parquet = pq.ParquetFile(file)
        there = [columns[each] for each in PLACE if columns[each] in parquet.schema_arrow.names]
        read = parquet.read(columns=there)
    count = int(add["num_records"]) if not there else read.num_rows
    return pa.table(
        {
            each: read.column(columns[each])
            if columns[each] in there
            else pa.array(
                [add.get(f"partition.{columns[each]}")] * count, COORDINATES.field(each).type
            )
            for each in PLACE
        }
    ).cast(COORDINATES)


def _refusal(name: str, feature: str, why: str) -> InvalidError:
    return InvalidError(
        f"{name} has {feature}, so files of it cannot be replaced: {why}",
        code="P436",
        hint="land into a table without it, or remove it from the table",
    )
