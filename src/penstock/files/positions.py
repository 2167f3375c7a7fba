"""Positions of rows in a file, from 0: ascending, each once.

Invariant: arrays that are ascending are joined in about the time that it takes to copy them, as
commits join what was deleted of a file with what is deleted now (`numpy.unique` takes a hundred
times as long).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

NONE: Positions = np.empty(0, np.int64)

POSITIONS_KEPT_MAX = 16_000_000
"""How many deleted rows of a table are kept in memory, of 8 bytes each."""


def joined(parts: Sequence[Positions]) -> Positions:
    """Return the positions of arrays, ascending, each once."""
    found = np.sort(np.concatenate([NONE, *parts]), kind="stable")  # it merges what is ascending
    is_first = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found if is_first.all() else found[is_first]


def without(positions: Positions, others: Positions) -> Positions:
    """Return the positions that are not among others."""
    if not len(others) or not len(positions):
        return positions
    at = np.searchsorted(others, positions)
    found: Positions = positions[others.take(at, mode="clip") != positions]
    return found


def packed(positions: Positions) -> str:
    """Write positions as a text, by their distances: a job of a worker bears them."""
    if not len(positions):
        return ""
    distances = np.diff(positions, prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(distances.tobytes(), 1)).decode()


def unpacked(text: str) -> Positions:
    """Read what `packed` wrote."""
    raw = zlib.decompress(base64.b64decode(text)) if text else b""
    return np.cumsum(np.frombuffer(raw, "<i8"), dtype=np.int64)
