"""What one table keeps of the snapshots that it read, so that a turn reads only what is new.

Invariant: all that is kept is of files that never change, or of the one snapshot read last.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from penstock.connectors.iceberg.files.kept_entries import KeptEntries
from penstock.connectors.iceberg.files.manifests import live_manifests
from penstock.connectors.iceberg.ledger.properties import parent_of
from penstock.connectors.iceberg.row_deletes.delete_files import DeleteFileReader
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows, live_rows
from penstock.core.table_errors import unsupported
from penstock.files.positions import Positions

_FIRST_FORMAT = 1


def require_row_deletes(format_version: int, name: str) -> None:
    """Raise InvalidError (P436) for a format that has none."""
    if format_version == _FIRST_FORMAT:
        raise unsupported(name, "format-version 1", "it has no row deletes")


class KeptRows:
    """The live rows of one branch of a table, safe between threads."""

    def __init__(self, name: str, branch: str) -> None:
        self.entries = KeptEntries()
        self._name = name
        self._branch = branch
        self._reader = DeleteFileReader(name)
        self._last: tuple[int | None, str, LiveRows] | None = None
        self._guard = threading.Lock()

    def keep(self, file: DataFile, deletes: Mapping[str, Positions]) -> None:
        """Keep the deletes of a delete file that was written."""
        self._reader.keep(file, deletes)

    def of(self, table: Table) -> LiveRows:
        """Return what is live at the head of the branch, as a table was examined.

        Raises InvalidError (P436): format version 1, which has no row deletes, or equality deletes;
        OSError, ValueError.
        """
        require_row_deletes(table.metadata.format_version, self._name)
        head, uuid = parent_of(table.metadata, self._branch), str(table.metadata.table_uuid)
        read = partial(self._reader.deletes_in, io=table.io)
        with self._guard:
            if self._last is not None and self._last[:2] == (head, uuid):
                # Credentials are those of now: what a catalog lent before may have ended.
                return replace(self._last[2], read=read)
        entries = [
            entry
            for manifest in live_manifests(table, head)
            for entry in self.entries.of(manifest, table.io)
        ]
        found = live_rows(entries, self._name, read)
        with self._guard:
            self._last = head, uuid, found
        return found
