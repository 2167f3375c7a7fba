"""Counts the entries of a manifest by their status, as its manifest list does."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)

from penstock.connectors.iceberg.files.manifest_entries import written_in

_LISTED = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION].fields]
COUNTED = {
    (status, what): _LISTED.index(f"{status.name.lower()}_{what}_count")
    for status in (
        ManifestEntryStatus.ADDED,
        ManifestEntryStatus.EXISTING,
        ManifestEntryStatus.DELETED,
    )
    for what in ("files", "rows")
}
"""The fields of a manifest list that count the files and the rows of entries by status."""


def count_entries(manifest: ManifestFile, io: FileIO) -> None:
    """Fill in the counts of a manifest where its list leaves them out. Raises OSError, ValueError.

    Lists of the first format may, those of the second must not. It is done in place, for PyIceberg
    keeps what it has read of a list, by the manifests' paths: so each is counted once.
    """
    if all(manifest[at] is not None for at in COUNTED.values()):
        return
    for key, count in counts_of(written_in(manifest, io)).items():
        manifest[COUNTED[key]] = count


def counts_of(entries: Sequence[ManifestEntry]) -> dict[tuple[ManifestEntryStatus, str], int]:
    """Count files and rows of entries by status, as keys of `COUNTED`."""
    counts = dict.fromkeys(COUNTED, 0)
    for each in entries:
        counts[each.status, "files"] += 1
        counts[each.status, "rows"] += each.data_file.record_count
    return counts
