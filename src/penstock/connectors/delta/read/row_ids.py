"""What rows of a table with row tracking have for ids where their file holds none.

Theory of operation: rows of a file have the ids from its entry's `baseRowId` on, by their places,
and were changed last by the version `defaultRowCommitVersion`. A row that is moved to another file
must keep both, so they are columns there, whose values go before what the entry says (docs/design/
0359).

Invariant: a row that is moved has the id and the version that it had, whatever file it comes from.

Source: Delta transaction log protocol, "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FIELDS = ("baseRowId", "defaultRowCommitVersion")


@dataclass(frozen=True, slots=True)
class Inherited:
    """What an entry says of one column of row ids: the value of the first row, None where it has no
    ids yet; `grows`: each row has one more than the row before.
    """

    first: int | None
    grows: bool

    def filled(self, column: pa.Array, begun: int) -> pa.Array:
        """Return a column with what is inherited in place of nulls; its first row's place in the
        file is `begun`.
        """
        if self.first is None or not column.null_count:
            return column
        if not self.grows:
            return pc.fill_null(column, pa.scalar(self.first, pa.int64()))
        first = self.first + begun
        return pc.coalesce(column, pa.array(np.arange(first, first + len(column))))


def inherited_by(add: Mapping[str, Any], row_ids: Sequence[str]) -> dict[str, Inherited]:
    """Return what rows of a file inherit, by the columns of its table's row ids, if it has any."""
    if not row_ids:
        return {}
    base, version = (add.get(each) for each in _FIELDS)
    values = Inherited(base, grows=True), Inherited(version, grows=False)
    return dict(zip(row_ids, values, strict=True))


def identity_of(add: Mapping[str, Any]) -> dict[str, int]:
    """Return what an entry says of the ids of its rows."""
    return {each: add[each] for each in _FIELDS if add.get(each) is not None}
