"""Where the rows of a table end, by the partition that they came from, and which rows are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.file_ranges import ends_of_rows
from penstock.ports.tables import FileSource, Table, TableState

WINDOW = 1 << 16
"""Offsets that are looked up at once."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a state, by their files and, where these do not say enough, one by one."""

    table: Table
    state: TableState
    columns: Mapping[str, str]
    files: Sequence[FileSource]

    def ends(self, retried: pa.Table) -> dict[tuple[str, int], int]:
        """Return, by topic and partition, the offset after the last row that was read in its turn.

        A retried row says nothing of what is before it: it landed late, by itself.
        """
        ends = ends_of_rows(each.found for each in self.files)
        late: dict[tuple[str, int], set[int]] = defaultdict(set)
        for row in retried.select(["topic", "partition", "offset"]).to_pylist():
            late[row["topic"], row["partition"]].add(row["offset"])
        for place, offsets in late.items():
            if ends.get(place, 0) - 1 in offsets:
                end = self._end_of_others(place, ends.pop(place), offsets)
                if end is not None:
                    ends[place] = end
        return ends

    def absent(self, retried: pa.Table) -> pa.Table:
        """Leave out the records that have rows: they are few, the rows are many."""
        if not retried.num_rows:
            return retried
        there = self.table.row_coordinates(self.columns, self.state, pc.unique(retried["offset"]))
        return retried.join(there, there.column_names, join_type="left anti")

    def _end_of_others(self, place: tuple[str, int], end: int, late: set[int]) -> int | None:
        """Search down from the last row, a window at a time, for one that was not retried."""
        ranges = [r for each in self.files if (r := each.found.ranges.get(place)) is not None]
        stop: int = end
        while True:
            start = max(stop - WINDOW, 0)
            others = self._at(place, np.arange(start, stop)) - late
            if others:
                break
            below = [min(r.stop, start) for r in ranges if r.start < start]
            if not below:
                return None
            stop = max(below)
        found, there = max(others) + 1, self._at(place, np.array(sorted(late)))
        while found in there:  # retried, and no row is between
            found += 1
        return found

    def _at(self, place: tuple[str, int], offsets: np.ndarray) -> set[int]:
        there = self.table.row_coordinates(self.columns, self.state, pa.array(offsets, pa.int64()))
        topic, partition = place
        here = pc.and_(pc.equal(there["topic"], topic), pc.equal(there["partition"], partition))
        return set(there["offset"].filter(here).to_pylist())
