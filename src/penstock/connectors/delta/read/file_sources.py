"""Finds where the rows of each live file came from, and how a file is removed.

Invariants:
- a file is left out only when its statistics prove that it holds no row asked for;
- of a file with a deletion vector the live rows are reported, and that it has lost others;
- tables that remove nothing (`delta.appendOnly`) are rejected by name.

Source: Delta transaction log protocol, "Add File and Remove File", "Append-only Tables".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.actions import now_ms, removal
from penstock.connectors.delta.log.table_metadata import TableMetadata
from penstock.connectors.delta.read.bounds import bounds_of
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.read.live_rows import live_rows
from penstock.connectors.delta.schema.column_mapping import is_mapped
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.connectors.delta.vectors.descriptor import id_of
from penstock.core.errors import InvalidError
from penstock.core.table_errors import no_column, not_live
from penstock.files.sources import COORDINATES, PLACE, source_of
from penstock.ports.tables import FileSource


def sources_of(
    root: StorageRoot,
    name: str,
    form: TableMetadata,
    live: Mapping[str, Add],
    *,
    deleted: DeletedRows,
    columns: Mapping[str, str],
    ends: Mapping[tuple[str, int], int],
) -> list[FileSource]:
    """Read the source columns of live files, by path.

    Raises InvalidError (P435, P436), UnavailableError.
    """
    if is_mapped(form.configuration):
        raise _refusal(name, "column mapping", "their columns have other names")
    asked = [columns[each] for each in PLACE]
    for each in asked:
        if form.target.schema.field(each) is None:
            raise no_column(name, each)
    lowest = min(ends.values(), default=0)
    found = []
    for path, add in live.items():
        bounds = bounds_of(add, form)[0].get(columns["offset"])
        if bounds is None or int(bounds[1]) >= lowest:
            if urlsplit(add["path"]).scheme or add["path"].startswith("/"):
                why = "they are another table's"
                raise _refusal(name, "files outside of its directory", why)
            gone = deleted.of(add)
            batches = live_rows(root, name, form, add, asked, deleted=gone)
            rows = _coordinates(batches, asked)
            found.append(source_of(path, rows, altered=bool(id_of(add))))
    return found


def removals(
    name: str, form: TableMetadata, live: Mapping[str, Add], paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Return `remove` actions of files. Raises InvalidError (P436; P439 when one is not live)."""
    if form.configuration.get("delta.appendOnly", "").lower() == "true":
        raise _refusal(name, "delta.appendOnly", "nothing may be removed")
    for path in paths:
        if path not in live:
            raise not_live(name, path)
    now = now_ms()
    return [removal(live[path], now) for path in paths]


def _coordinates(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
    found = [each.select(columns) for each in batches]
    if not found:
        return COORDINATES.empty_table()
    return pa.Table.from_batches(found).rename_columns(PLACE).cast(COORDINATES)


def _refusal(name: str, feature: str, why: str) -> InvalidError:
    return InvalidError(
        f"{name} has {feature}, so files of it cannot be replaced: {why}",
        code="P436",
        hint="land into a table without it, or remove it from the table",
    )
