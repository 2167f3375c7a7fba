"""Row deletes: which rows of live files a commit takes away, and how they are found.

Rules that every implementation keeps, and the contract suite checks (docs/design/0243):
- row deletes are found on one state and land on exactly that state, with the commit's files and
  ledger, or not at all;
- a file is never changed: its deleted rows are recorded outside it, and a file without a live row
  leaves the table in the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

POSITION = "_position"
"""The column of a row's place in its file."""

Sought: TypeAlias = "Callable[[pa.RecordBatch], npt.NDArray[np.int64]]"
"""Returns the places in a batch of the rows that are sought, ascending."""


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
    or the file is one of the commit's own, and `delete_state` is "".
    """

    path: str
    delete_state: str
    positions: npt.NDArray[np.int64]

    def are_within(self, rows: int) -> bool:
        """Return whether they are some of so many rows, ascending, each once."""
        at = self.positions
        return bool(len(at) and at[0] >= 0 and at[-1] < rows and (at[1:] > at[:-1]).all())
