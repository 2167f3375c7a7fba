"""Rearrangements: files that take the place of others with the same rows (docs/design/0291).

Rules that every implementation keeps, and the contract suite checks (docs/design/0289):
- it claims nothing: no position moves, no ledger changes, and whoever makes it fences nobody;
- it lands only where its files are live, and exactly the row deletes apply that it says; what was
  deleted after files were read is deleted in those that come, by the same commit;
- what vouched for the newest rows of a chain vouches for them in the files that hold them then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.commits import DataFile
from penstock.ports.row_deletes import RowDeletes


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Files that take the place of others, none where no row of them is left.

    `replaced` says of each path, as a commit names it, which of its rows are deleted as it goes
    (`LiveFile.delete_state`); `deleted` counts those that are in none of `files`. `row_deletes` are
    the others: rows of `files` that come deleted, for they were when they had been read; `prefix`
    begins the names of what is written for them.
    """

    replaced: Mapping[str, str]
    files: tuple[DataFile, ...]
    deleted: int = 0
    row_deletes: tuple[RowDeletes, ...] = ()
    prefix: str = ""

    @property
    def carried(self) -> int:
        """Count the rows that come deleted."""
        return sum(len(each.positions) for each in self.row_deletes)
