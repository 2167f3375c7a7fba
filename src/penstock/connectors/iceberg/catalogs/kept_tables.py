"""Keeps what a catalog's answer about a table was read to, by what tells that answer from others.

Invariants:
- a mark stands for one state for ever: the location of a metadata file, the digest of an answer;
- which mark a table is at, is never kept: that is asked of the catalog each time;
- what is kept is bounded: up to `SNAPSHOTS_MAX` snapshots of all tables, where columns of schemas,
  former ones as well, count for what they take;
- what there is no room for is not kept, and drops nothing but what was not asked for in `LOOKS_MAX`
  looks: a run asks for its tables in turns, so that of a few too many each would else be dropped
  just before its turn comes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from copy import copy
from typing import NamedTuple

from pyiceberg.table import Table

SNAPSHOTS_MAX = 32_768
"""About 7 kB each."""
COLUMNS_A_SNAPSHOT = 5
"""A column of one schema takes 1.4 kB."""
LOOKS_MAX = 100_000


class _Kept(NamedTuple):
    """A table at a mark; `asked` is the number of the look that it was asked for in last."""

    mark: str
    table: Table
    weight: int
    asked: int


class KeptTables:
    """The newest state known of tables; safe between threads."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX, looks_max: int = LOOKS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._looks_max = looks_max
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
        self._weight = self._looks = 0
        self._guard = threading.Lock()

    def get(self, name: tuple[str, ...], mark: str) -> Table | None:
        """Return the table at a mark, None where that is not known."""
        with self._guard:
            self._looks += 1
            found = self._kept.get(name)
            if found is None or found.mark != mark:
                return None
            self._kept[name] = found._replace(asked=self._looks)
            self._kept.move_to_end(name)
            return copy(found.table)

    def keep(self, mark: str, table: Table) -> None:
        """Keep a table as it is at a mark, in place of its former state, if there is room."""
        new = _Kept(mark, copy(table), _weight(table), self._looks)
        with self._guard:
            self._drop(table.name())
            while self._kept and self._weight + new.weight > self._snapshots_max:
                oldest = next(iter(self._kept))
                if self._looks - self._kept[oldest].asked < self._looks_max:
                    return
                self._drop(oldest)
            if new.weight <= self._snapshots_max:
                self._kept[table.name()] = new
                self._weight += new.weight

    def _drop(self, name: tuple[str, ...]) -> None:
        former = self._kept.pop(name, None)
        if former is not None:
            self._weight -= former.weight


def _weight(table: Table) -> int:
    metadata = table.metadata
    columns = len(metadata.schemas) * metadata.last_column_id
    return 1 + len(metadata.snapshots) + columns // COLUMNS_A_SNAPSHOT
