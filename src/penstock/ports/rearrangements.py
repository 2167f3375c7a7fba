"""Rearrangements: files that take the place of others with the same rows (docs/design/0291).

Rules that every implementation keeps, and the contract suite checks (docs/design/0289):
- it claims nothing: no position moves, no ledger changes, and whoever makes it fences nobody;
- it lands only where its files are live, and exactly the row deletes apply that were applied;
- what vouched for the newest rows of a chain vouches for them in the files that hold them then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.commits import DataFile


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Files that take the place of others, none where no row of them is left.

    `replaced` says of each path, as a commit names it, which of its rows were deleted as it was
    read (`LiveFile.delete_state`); `deleted` counts these rows, which are in none of `files`.
    """

    replaced: Mapping[str, str]
    files: tuple[DataFile, ...]
    deleted: int = 0

    @property
    def rows(self) -> int:
        """Count the rows in the files."""
        return sum(each.record_count for each in self.files)
