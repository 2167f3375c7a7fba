"""Removes metadata files that nothing names any more.

Each commit writes a whole metadata file; at one commit a second that is tens of gigabytes a day.
The directory holds every snapshot's manifests as well, and those stay: listing it costs more with
each commit there ever was. So what a table named is remembered, and goes when it is named no more.
Only a listing finds the rest, what earlier runs left and what never became current: it is made when
the current file's name draws it, one in ten: so a tenth of many short runs lists, whatever they do,
and a long run at most once a day.

Invariants: a file goes only if all of this holds:
- its name has the form that catalogs use (`00042-<uuid>.metadata.json`), in the table's directory;
- it is neither current nor in the metadata log, and its version is below all in the log, so no
  writer can be about to make it current;
- it is older than the horizon: its time on storage is, or the last time we saw it named;
- it is this table's, which may share its directory with one that was renamed: we saw it named, or
  it says so itself;
- the table wants it: `write.metadata.delete-after-commit.enabled` is true, as tables that we create
  have it, and `gc.enabled` is not false. Iceberg's default is to keep them all.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table, TableProperties

from penstock.connectors.iceberg.io.arrow_file_io import parsed, storage_of

_NAME = re.compile(r"(\d{5,})-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json(?:\.gz)?")
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-f-]{36})"')
_BEGINNING_BYTES = 65_536
_GC_KEY = "gc.enabled"
_WANTED_KEY = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED
_LISTING_ONE_IN = 10
_LISTING_SECONDS = 86_400.0
_REMEMBERED_MAX = 10_000


class MetadataCleanup:
    """Remembers what one table named, and removes what nothing names; for several threads."""

    def __init__(self, horizon_seconds: float, monotonic: Callable[[], float]) -> None:
        self._horizon_seconds = horizon_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._uuid: UUID | None = None
        self._named_at: dict[str, float] = {}
        self._listed_at: float | None = None

    def note(self, table: Table) -> None:
        """Remember what a table names now; the oldest of too many are left to a listing."""
        if not _wanted(table.metadata.properties):
            return
        now = self._monotonic()
        with self._lock:
            if table.metadata.table_uuid != self._uuid:  # another of this name: the former lives on
                self._uuid = table.metadata.table_uuid
                self._named_at.clear()
            self._named_at.update(dict.fromkeys(_named(table), now))
            excess = max(len(self._named_at) - _REMEMBERED_MAX, 0)
            for location in tuple(islice(self._named_at, excess)):
                del self._named_at[location]

    def remove_old_metadata(self, table: Table) -> int:
        """Remove old metadata files of a table just loaded; return their number. Raises OSError."""
        self.note(table)
        place = _place_of(table)
        if place is None:
            return 0
        removed = 0
        seen = self._monotonic() - self._horizon_seconds
        with self._lock:
            unnamed = [each for each, named_at in self._named_at.items() if named_at <= seen]
        for location in unnamed:
            path = parsed(location)[2]
            if place.is_old(path):
                removed += place.remove(path)
                with self._lock:
                    self._named_at.pop(location, None)
        drawn = zlib.crc32(table.metadata_location.rpartition("/")[2].encode()) % _LISTING_ONE_IN
        now = self._monotonic()
        is_due = self._listed_at is None or now - self._listed_at >= _LISTING_SECONDS
        if drawn == 0 and is_due:
            for path in place.listed(time.time() - self._horizon_seconds):
                if uuid_in(place.files, path) == str(table.metadata.table_uuid):
                    removed += place.remove(path)
            self._listed_at = self._monotonic()
        return removed


@dataclass(frozen=True, slots=True)
class _Place:
    """The directory of a table's metadata files; `oldest` is the first version it still names."""

    files: fs.FileSystem
    directory: str
    oldest: int

    def is_old(self, path: str) -> bool:
        version = version_of(path)
        inside = path.rpartition("/")[0] == self.directory
        return inside and version is not None and version < self.oldest

    def listed(self, written_until: float) -> Iterator[str]:
        for info in self.files.get_file_info(fs.FileSelector(self.directory, recursive=False)):
            if self.is_old(info.path) and info.mtime_ns and info.mtime_ns / 1e9 <= written_until:
                yield info.path

    def remove(self, path: str) -> int:
        """Remove a file, which others may have done meanwhile; return how many were removed."""
        with suppress(FileNotFoundError):
            self.files.delete_file(path)
            return 1
        return 0


def uuid_in(files: fs.FileSystem, path: str) -> str:
    """Return the uuid of the table in a metadata file; "" where its beginning has none."""
    compression = "gzip" if ".gz" in path.rpartition("/")[2] else None
    with suppress(FileNotFoundError):
        with files.open_input_stream(path, compression=compression) as stream:
            found = _UUID.search(stream.read(_BEGINNING_BYTES))
        return "" if found is None else found[1].decode()
    return ""


def _place_of(table: Table) -> _Place | None:
    """Return the directory to search; None where nothing may be removed."""
    if not (_wanted(table.metadata.properties) and isinstance(table.io, PyArrowFileIO)):
        return None
    versions = [version for path in _named(table) if (version := version_of(path)) is not None]
    if not versions:
        return None
    place = table.location_provider().new_metadata_location("")
    return _Place(*storage_of(table.io, place.rstrip("/")), min(versions))


def _named(table: Table) -> list[str]:
    return [*(each.metadata_file for each in table.metadata.metadata_log), table.metadata_location]


def _wanted(properties: Mapping[str, str]) -> bool:
    asked_for = properties.get(_WANTED_KEY, "false").lower() == "true"
    return asked_for and properties.get(_GC_KEY, "true").lower() != "false"


def version_of(path: str) -> int | None:
    """Return the number in the name of a metadata file; None where it has another form."""
    found = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return None if found is None else int(found[1])
