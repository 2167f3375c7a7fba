"""The outcome of some records of a block: rows, rejects and counts, by position.

Invariant: rows are in the order of their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Schema
from penstock.rows.arrow_types import arrow_type
from penstock.rows.reject_codes import RejectError, safe_text

Positions = npt.NDArray[np.int64]
T = TypeVar("T")

_PATHS_MAX = 1000
_OTHER_PATHS = "*"


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The rows of some records with their positions, and the rejects by position; the rest is
    filtered, with a reason. `rescued` holds the text of what a row left out, by position.
    """

    rows: pa.StructArray
    positions: Positions
    rejects: dict[int, RejectError]
    dropped: Counter[str]
    filtered: Counter[str] = field(default_factory=Counter)
    rescued: Mapping[int, str] = field(default_factory=dict)

    def at_positions(self, positions: Positions) -> BlockResult:
        """Return the same with positions taken from a list of positions."""
        return replace(
            self,
            positions=positions[self.positions],
            rejects=_moved(self.rejects, positions),
            rescued=_moved(self.rescued, positions),
        )

    @classmethod
    def concat(cls, pieces: Sequence[BlockResult], payload: Schema) -> BlockResult:
        """Put pieces with the columns of a schema together in the order of positions."""
        if len(pieces) == 1:
            return replace(pieces[0], dropped=merged_counts([pieces[0].dropped]))
        rows = [piece.rows for piece in pieces if len(piece.rows)]
        positions = np.concatenate([np.zeros(0, np.int64), *(p.positions for p in pieces)])
        rejects = {at: error for piece in pieces for at, error in piece.rejects.items()}
        joined = pa.concat_arrays(rows) if rows else pa.array([], arrow_type(payload))
        if len(rows) > 1 and (np.diff(positions) < 0).any():
            order = np.argsort(positions)
            joined, positions = joined.take(pa.array(order)), positions[order]
        filtered = sum((piece.filtered for piece in pieces), Counter())
        dropped = merged_counts(piece.dropped for piece in pieces)
        rescued = {at: text for piece in pieces for at, text in piece.rescued.items()}
        return cls(joined, positions, rejects, dropped, filtered, rescued)


def _moved(found: Mapping[int, T], positions: Positions) -> dict[int, T]:
    at = positions[np.fromiter(found, np.int64, len(found))].tolist()
    return dict(zip(at, found.values(), strict=True))


def merged_counts(counters: Iterable[Counter[str]]) -> Counter[str]:
    """Add counts up under bounded, printable paths; what is beyond the bound counts under `*`."""
    total: Counter[str] = Counter()
    for counter in counters:
        for path, count in counter.items():
            name = safe_text(path)
            total[name if name in total or len(total) < _PATHS_MAX else _OTHER_PATHS] += count
    return total
