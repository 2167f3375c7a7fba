"""What people want to know of an Iceberg table, and how a scratch table goes with all its files.

Invariant: only a table's own directory is removed, and only after the catalog has forgotten it.
"""

from __future__ import annotations

from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Summary

from penstock.ports.tables import TableFacts


def facts_of(table: Table, branch: str) -> TableFacts:
    """Return a table's format and features in words, its snapshots and a branch's row count.

    Raises OSError.
    """
    metadata = table.metadata
    words = [f"Iceberg, format version {metadata.format_version}"]
    if metadata.spec().fields:
        words.append("partitioned by " + ", ".join(f.name for f in metadata.spec().fields))
    head = metadata.snapshot_by_name(branch)
    summary = None if head is None else head.summary
    deletes = summary.get("total-delete-files") if summary is not None else None
    if deletes not in (None, "0"):
        words.append(f"{deletes} delete files")
    rows = _rows_of(summary) if head is not None else 0
    kept = len(metadata.snapshots)
    return TableFacts(", ".join(words), kept, "snapshots", _stored_ms(table), rows)


def drop_with_files(catalog: Catalog, identifier: tuple[str, ...]) -> None:
    """Drop a table and all that lies in its directory. Raises OSError and the catalog's errors."""
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return
    catalog.drop_table(identifier)
    if isinstance(table.io, PyArrowFileIO):
        scheme, netloc, directory = PyArrowFileIO.parse_location(table.location(), {})
        with suppress(FileNotFoundError):
            table.io.fs_by_scheme(scheme, netloc).delete_dir(directory)


def _rows_of(summary: Summary | None) -> int | None:
    """Return the rows of a snapshot; None where deletes lie over them, or nobody counted."""
    total = summary.get("total-records") if summary is not None else None
    deletes = summary.get("total-delete-files") if summary is not None else None
    return int(total) if total and total.isdecimal() and deletes in (None, "0") else None


def _stored_ms(table: Table) -> int | None:
    if not isinstance(table.io, PyArrowFileIO):
        return None
    scheme, netloc, path = PyArrowFileIO.parse_location(table.metadata_location, {})
    (info,) = table.io.fs_by_scheme(scheme, netloc).get_file_info([path])
    return info.mtime_ns // 1_000_000 if info.mtime_ns else None
