"""What one table keeps of the snapshots that it read, so that a turn reads only what is new.

Theory of operation: what is live is known by manifest, and manifests never change. Of another
snapshot only those are read that the last one did not list, and what is live is what was, but for
the entries of manifests that came or went: a turn costs what is new, however many files are live.

Invariant: all that is kept is of files that never change, or of the one snapshot read last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.table import Table

from penstock.connectors.iceberg.files.kept_entries import KeptEntries, ManifestKey, key_of
from penstock.connectors.iceberg.files.manifests import live_manifests
from penstock.connectors.iceberg.files.staged_manifests import copied
from penstock.connectors.iceberg.ledger.properties import parent_of
from penstock.connectors.iceberg.row_deletes.delete_files import DeleteFileReader
from penstock.connectors.iceberg.row_deletes.live_rows import LiveRows, ReadDeletes, live_rows
from penstock.core.table_errors import unsupported
from penstock.files.positions import Positions

_FIRST_FORMAT = 1


def require_row_deletes(format_version: int, name: str) -> None:
    """Raise InvalidError (P436) for a format that has none."""
    if format_version == _FIRST_FORMAT:
        raise unsupported(name, "format-version 1", "it has no row deletes")


@dataclass(frozen=True, slots=True)
class _Head:
    """The snapshot that was read last: of which table, its manifests, and what is live."""

    snapshot: int | None
    uuid: str
    manifests: Sequence[ManifestFile]
    entries: Mapping[ManifestKey, list[ManifestEntry]]
    live: LiveRows

    def of(self, manifests: Iterable[ManifestKey]) -> Iterator[ManifestEntry]:
        """Yield the entries of some of its manifests."""
        for each in manifests:
            yield from self.entries[each]


class KeptRows:
    """The live rows of one branch of a table, safe between threads."""

    def __init__(self, name: str, branch: str) -> None:
        self.entries = KeptEntries()
        self._name = name
        self._branch = branch
        self._reader = DeleteFileReader(name)
        self._last: _Head | None = None

    def keep(self, file: DataFile, deletes: Mapping[str, Positions]) -> None:
        """Keep the deletes of a delete file that was written."""
        self._reader.keep(file, deletes)

    def of(self, table: Table) -> LiveRows:
        """Return what is live at the head of the branch, as a table was examined.

        Raises InvalidError (P436): format version 1, which has no row deletes, or equality deletes;
        OSError, ValueError.
        """
        # Credentials are those of now: what a catalog lent before may have ended.
        return replace(self._head(table).live, read=self._read(table))

    def manifests(self, table: Table) -> list[ManifestFile]:
        """Return the manifests of what `of` returns. Raises as it does."""
        return [copied(each) for each in self._head(table).manifests]

    def _head(self, table: Table) -> _Head:
        require_row_deletes(table.metadata.format_version, self._name)
        snapshot, uuid = parent_of(table.metadata, self._branch), str(table.metadata.table_uuid)
        last = self._last
        if last is not None and (last.snapshot, last.uuid) == (snapshot, uuid):
            return last
        manifests = live_manifests(table, snapshot)
        entries = {key_of(each): self.entries.of(each, table.io) for each in manifests}
        live = self._after(last, uuid, entries, self._read(table))
        head = self._last = _Head(snapshot, uuid, manifests, entries, live)
        self.entries.hold(entries)
        return head

    def _read(self, table: Table) -> ReadDeletes:
        return partial(self._reader.deletes_in, io=table.io)

    def _after(
        self,
        last: _Head | None,
        uuid: str,
        entries: Mapping[ManifestKey, list[ManifestEntry]],
        read: ReadDeletes,
    ) -> LiveRows:
        """Return what is live by some manifests, by what was where that is known."""
        if last is None or last.uuid != uuid or last.live.has_copies:
            found = (entry for group in entries.values() for entry in group)
            return live_rows(found, self._name, read)
        gone = last.of(last.entries.keys() - entries.keys())
        come = (e for key, group in entries.items() if key not in last.entries for e in group)
        return last.live.changed(gone, come, self._name)
