"""Removes metadata files that nothing names any more.

Each commit writes a whole metadata file; at one commit a second that is tens of gigabytes a day.

Invariants: a file goes only if all of this holds:
- its name is one that catalogs give (`00042-<uuid>.metadata.json`) in the table's own directory;
- it is neither current nor in the metadata log, and its version is below all in the log, so no
  writer can be about to make it current;
- it is older than the horizon;
- the table wants it: `write.metadata.delete-after-commit.enabled` is true, as tables that we create
  have it, and `gc.enabled` is not false. Iceberg's default is to keep them all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table, TableProperties

_NAME = re.compile(r"(\d{5,})-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json(?:\.gz)?")
_GC_KEY = "gc.enabled"
_WANTED_KEY = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED


def remove_old_metadata(table: Table, *, horizon_seconds: float) -> int:
    """Remove old metadata files and give their number. Raises OSError."""
    if not (_wanted(table.metadata.properties) and isinstance(table.io, PyArrowFileIO)):
        return 0
    place = table.location_provider().new_metadata_location("")
    scheme, netloc, directory = PyArrowFileIO.parse_location(place.rstrip("/"))
    files = table.io.fs_by_scheme(scheme, netloc)
    named = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    versions = [version for path in named if (version := _version(path)) is not None]
    if not versions:
        return 0
    oldest, young = min(versions), time.time() - horizon_seconds
    removed = 0
    for info in files.get_file_info(fs.FileSelector(directory, recursive=False)):
        version = _version(info.path)
        if version is None or version >= oldest or not info.mtime_ns:
            continue
        if info.mtime_ns / 1e9 <= young:
            files.delete_file(info.path)
            removed += 1
    return removed


def _wanted(properties: Mapping[str, str]) -> bool:
    asked_for = properties.get(_WANTED_KEY, "false").lower() == "true"
    return asked_for and properties.get(_GC_KEY, "true").lower() != "false"


def _version(path: str) -> int | None:
    found = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    return None if found is None else int(found[1])
