"""Keeps what a catalog's answer about a table was read to, by what tells that answer from others.

Invariants:
- a mark stands for one state for ever: the location of a metadata file, the digest of an answer;
- which mark a table is at, is never kept: that is asked of the catalog each time;
- what is kept is bounded: the tables asked for last, up to `SNAPSHOTS_MAX` snapshots of all, where
  columns of schemas, former ones as well, count for what they take.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from copy import copy

from pyiceberg.table import Table

SNAPSHOTS_MAX = 32_768
"""About 7 kB each."""
COLUMNS_A_SNAPSHOT = 5
"""A column of one schema takes 1.4 kB."""


class KeptTables:
    """The newest state known of each table; safe between threads."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._kept: OrderedDict[tuple[str, ...], tuple[str, Table]] = OrderedDict()
        self._weight = 0
        self._guard = threading.Lock()

    def get(self, name: tuple[str, ...], mark: str) -> Table | None:
        """Return the table at a mark, None where that is not known."""
        with self._guard:
            at, table = self._kept.get(name, ("", None))
            if table is None or at != mark:
                return None
            self._kept.move_to_end(name)
            return copy(table)

    def keep(self, mark: str, table: Table) -> None:
        """Keep a table as it is at a mark, in place of its former state."""
        name = table.name()
        with self._guard:
            self._drop(name)
            self._kept[name] = mark, copy(table)
            self._weight += _weight(table)
            while self._weight > self._snapshots_max:
                self._drop(next(iter(self._kept)))

    def _drop(self, name: tuple[str, ...]) -> None:
        if name in self._kept:
            _, table = self._kept.pop(name)
            self._weight -= _weight(table)


def _weight(table: Table) -> int:
    metadata = table.metadata
    columns = len(metadata.schemas) * metadata.last_column_id
    return 1 + len(metadata.snapshots) + columns // COLUMNS_A_SNAPSHOT
