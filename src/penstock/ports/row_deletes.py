"""Row deletes: which rows of live files a commit takes away, and how they are found.

Rules that every implementation keeps, and the contract suite checks (docs/design/0243):
- row deletes are found on one state and land on exactly that state, with the commit's files and
  ledger, or not at all;
- a file is never changed: its deleted rows are recorded outside it, or others with the rows that
  stay take its place; a file without a live row leaves the table in the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.commits import DataFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

POSITION = "_position"
"""The column of a row's place in its file."""

RowPositions: TypeAlias = "npt.NDArray[np.int64]"
"""Places of rows in their file, from 0, ascending, each once."""
Sought: TypeAlias = "Callable[[pa.RecordBatch], npt.NDArray[np.int64]]"
"""Returns the places in a batch of the rows that are sought, ascending."""


class RowDeleteMode(StrEnum):
    """How a table takes rows away: as its format records them beside files (auto), or by files
    that are written again without them (rewrite).
    """

    AUTO = "auto"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One live data file of a state.

    `path` names it as a commit does. `rows` counts all that were written, `deleted` those of them
    that are deleted by now. `delete_state` says which those are: of one path, equal texts mean
    equal row deletes, and "" means none. `bounds` are least and greatest values of columns, and
    `nulls` says how many nulls they have, of all rows that were written; where known.
    """

    path: str
    rows: int
    size_bytes: int
    deleted: int = 0
    delete_state: str = ""
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class RowDeletes:
    """Rows of one file that a commit deletes: positions from 0, ascending, each once.

    All of them are live in the file as it was read, with the row deletes that `delete_state` says;
    or the file is one of the commit's own, and `delete_state` is "". `rewritten` are files with
    the rows of it that stay: then they come in its place. None: the deletes are recorded beside it.
    """

    path: str
    delete_state: str
    positions: RowPositions
    rewritten: tuple[DataFile, ...] | None = None

    def are_within(self, rows: int) -> bool:
        """Return whether they are some of so many rows, ascending, each once."""
        at = self.positions
        return bool(len(at) and at[0] >= 0 and at[-1] < rows and (at[1:] > at[:-1]).all())

    def leave(self, rows: int) -> bool:
        """Return whether so many rows stay, where they were written again."""
        files = self.rewritten
        return files is None or rows == sum(each.record_count for each in files)
