"""Which files cannot hold a touched key, by the bounds of their key columns.

Invariants:
- a file is left out only where some key column has bounds and no touched key has a value between
  them: each row with a touched key has, in each column, the value of that key;
- bounds may be wider than a file's values, as those of long texts are, and that is all that they
  are trusted for; what cannot be compared with them leaves no file out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(slots=True)
class KeyBounds:
    """Compares the keys that a commit touches with bounds; `columns` hold a value for each key."""

    names: Sequence[str]
    columns: Sequence[pa.Array]
    _sorted: dict[str, pa.Array] = field(default_factory=dict)

    def may_be_in(self, bounds: Mapping[str, tuple[Any, Any]]) -> bool:
        """Return whether a file with these bounds may hold a row of a touched key."""
        return len(self.columns[0]) > 0 and all(
            self._reaches(name, column, *bounds[name])
            for name, column in zip(self.names, self.columns, strict=True)
            if name in bounds
        )

    def _reaches(self, name: str, column: pa.Array, least: Any, greatest: Any) -> bool:
        """Return whether a key has a value from the least to the greatest."""
        values = self._sorted.get(name)
        if values is None:
            values = self._sorted[name] = column.take(pc.sort_indices(column))
        try:
            place = bisect_left(range(len(values)), least, key=lambda at: values[at].as_py())
            return place < len(values) and bool(values[place].as_py() <= greatest)
        except (TypeError, ValueError, OverflowError):  # a time that Python cannot hold
            return True
