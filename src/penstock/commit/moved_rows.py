"""Where the rows of files that were written again are now, so that row deletes go with them.

Invariants:
- what is deleted beyond what was left out is carried over; where a row that was left out is live
  again, the files do not fit;
- of a file that is gone all rows are deleted, for whoever took it has put them where they belong;
  where that are most of the rows, the files are not worth it;
- the files do not fit where one of them is live: they have landed;
- the writer itself says where each row went, in the order in which it was given them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.commits import DataFile
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import RowDeletes, RowPositions

if TYPE_CHECKING:
    from penstock.ports.writers import Places


@dataclass(frozen=True, slots=True, eq=False)
class CopiedFile:
    """A file that was written again, but for the rows `left_out`, which `delete_state` says."""

    path: str
    rows: int
    delete_state: str
    left_out: RowPositions

    @property
    def rows_copied(self) -> int:
        """Count the rows that were written again."""
        return self.rows - len(self.left_out)


@dataclass(frozen=True, slots=True, eq=False)
class MovedRows:
    """Rows of files, one file after the other, and the `files` that hold them: `places` says where,
    if that is known; else they fit only where no other rows were deleted since.

    `prefix` begins the names of these files, and of what is written about them.
    """

    sources: Sequence[CopiedFile]
    files: tuple[DataFile, ...]
    places: Places | None
    prefix: str

    def fitted(
        self, states: Mapping[str, str], deleted_in: Callable[[str], RowPositions]
    ) -> Rearrangement | None:
        """Return what lands where live files have these delete states; None where it does not fit.

        `deleted_in` is asked for the files of which more is deleted than was left out. Raises what
        it raises.
        """
        if any(each.path in states for each in self.files):
            return None
        found: list[RowPositions] = []
        first = lost = 0
        for each in self.sources:
            state = states.get(each.path)
            if state is None:
                found.append(np.arange(first, first + each.rows_copied))
                lost += each.rows_copied
            elif state != each.delete_state:
                now = deleted_in(each.path)
                later = np.setdiff1d(now, each.left_out, assume_unique=True)
                if len(later) + len(each.left_out) != len(now):
                    return None
                found.append(first + later - np.searchsorted(each.left_out, later))
            first += each.rows_copied
        left = [each for each in self.sources if each.path in states]
        if not left or lost > first / 2 or (found and self.places is None):
            return None
        replaced = {each.path: states[each.path] for each in left}
        dropped = sum(len(each.left_out) for each in left)
        return self._with(replaced, dropped, np.concatenate(found) if found else None)

    def _with(
        self, replaced: Mapping[str, str], left_out: int, deleted: RowPositions | None
    ) -> Rearrangement:
        """Return the files with rows deleted, by the order of writing; empty ones do not come."""
        if deleted is None:
            return Rearrangement(replaced, self.files, left_out)
        assert self.places is not None, "without places no row is deleted"
        in_file, at = (each[deleted] for each in self.places)
        by_file = [np.sort(at[in_file == number]) for number in range(len(self.files))]
        left = [
            (file, rows)
            for file, rows in zip(self.files, by_file, strict=True)
            if len(rows) < file.record_count
        ]
        carried = tuple(RowDeletes(file.path, "", rows) for file, rows in left if len(rows))
        dropped = left_out + len(deleted) - sum(len(each.positions) for each in carried)
        files = tuple(file for file, _ in left)
        return Rearrangement(replaced, files, dropped, carried, self.prefix)
