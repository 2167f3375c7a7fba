"""Positions of rows in a file, from 0: ascending, each once.

Invariant: arrays that are ascending are joined in about the time that it takes to copy them, as
commits join what was deleted of a file with what is deleted now (`numpy.unique` takes a hundred
times as long).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

NONE: Positions = np.empty(0, np.int64)


def joined(parts: Sequence[Positions]) -> Positions:
    """Return the positions of arrays, ascending, each once."""
    found = np.sort(np.concatenate([NONE, *parts]), kind="stable")  # it merges what is ascending
    is_first = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found if is_first.all() else found[is_first]
