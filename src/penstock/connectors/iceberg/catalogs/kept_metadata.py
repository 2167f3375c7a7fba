"""Keeps table metadata by its location: a metadata file never changes.

Invariants:
- what a location means was parsed from its file, or is what that file was written from;
- where a table is, is never kept: that is asked of the catalog each time;
- what is kept is bounded: the tables asked for last, up to `SNAPSHOTS_MAX` snapshots of all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

SNAPSHOTS_MAX = 32_768
"""About 7 kB each."""


class Known(NamedTuple):
    """The metadata at a location, and what reads and writes files of its table."""

    metadata: TableMetadata
    io: FileIO


class KeptMetadata:
    """The newest metadata known of each table; safe between threads."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._kept: OrderedDict[str, tuple[str, Known]] = OrderedDict()
        self._weight = 0
        self._guard = threading.Lock()

    def get(self, table: str, location: str) -> Known | None:
        """Return what a location means, None where that is not known; `table` is a catalog's."""
        with self._guard:
            at, known = self._kept.get(table, ("", None))
            if known is None or at != location:
                return None
            self._kept.move_to_end(table)
            return known

    def keep(self, table: str, location: str, known: Known) -> None:
        """Keep what a location means, in place of the table's former one."""
        with self._guard:
            self._drop(table)
            self._kept[table] = location, known
            self._weight += _weight(known)
            while self._weight > self._snapshots_max:
                self._drop(next(iter(self._kept)))

    def _drop(self, table: str) -> None:
        if table in self._kept:
            _, known = self._kept.pop(table)
            self._weight -= _weight(known)


def _weight(known: Known) -> int:
    return 1 + len(known.metadata.snapshots)
