"""Keeps the entries of manifests that were read, for manifests never change.

Theory of operation: a keyed table is read in every turn, and an entry costs 80 µs to decode;
so a turn reads only the manifests it has not seen.

Invariants:
- a result is that of `entries_of`, and nothing changes it;
- what is kept is bounded: the manifests asked for last, up to `STATISTICS_MAX` columns' statistics,
  and those that somebody holds anyway.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile

from penstock.connectors.iceberg.files.manifest_entries import entries_of
from penstock.connectors.iceberg.files.manifest_lists import first_row_id_of

STATISTICS_MAX = 200_000
"""About 0.6 kB each."""
ManifestKey = tuple[str, int | None]
"""The path of a manifest, and its first row id: it may be in a list that gives it none."""


def key_of(manifest: ManifestFile) -> ManifestKey:
    """Name a manifest so that equal names are equal entries."""
    return manifest.manifest_path, first_row_id_of(manifest)


class KeptEntries:
    """The live entries of one table's manifests; safe between threads."""

    def __init__(self) -> None:
        self._held: Mapping[ManifestKey, list[ManifestEntry]] = {}
        self._kept: OrderedDict[ManifestKey, tuple[int, list[ManifestEntry]]] = OrderedDict()
        self._weight = 0
        self._guard = threading.Lock()

    def hold(self, entries: Mapping[ManifestKey, list[ManifestEntry]]) -> None:
        """Keep the entries of some manifests, however many, in the place of those held before."""
        with self._guard:
            self._held = entries

    def of(self, manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
        """Return the live entries of a manifest in its order. Raises OSError, ValueError."""
        key = key_of(manifest)
        with self._guard:
            if key in self._held:
                return self._held[key]
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        entries = entries_of(manifest, io)
        weight = sum(1 + len(entry.data_file.value_counts or ()) for entry in entries)
        with self._guard:
            if key not in self._kept and weight <= STATISTICS_MAX:
                self._kept[key] = weight, entries
                self._weight += weight
            while self._weight > STATISTICS_MAX:
                _, (weight, _) = self._kept.popitem(last=False)
                self._weight -= weight
        return entries
