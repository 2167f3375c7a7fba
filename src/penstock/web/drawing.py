"""Small pictures from numbers, as places of bars: drawn as SVG by a template.

Invariant: pure; every number is finite, and within the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BUCKETS = 30
BUCKET_MS = 10_000
HEIGHT = 20
BAR = 4
LEAST = 1
"""A bar of something is never of no height."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar at `x`, `height` high, from `y` down to the ground."""

    x: int
    y: int
    height: int


def buckets(recent: Iterable[tuple[int, int]], now_ms: int) -> list[int]:
    """Return the rows of each ten seconds of the last five minutes, oldest first."""
    counts = [0] * BUCKETS
    for at_ms, rows in recent:
        back = (now_ms - at_ms) // BUCKET_MS
        if 0 <= back < BUCKETS:
            counts[BUCKETS - 1 - back] += rows
    return counts


def bars(values: Sequence[int]) -> list[Bar]:
    """Return a bar for each value that is not 0; the highest is as high as the picture."""
    most = max(values, default=0)
    heights = [max(LEAST, round(each * HEIGHT / most)) if each > 0 else 0 for each in values]
    return [
        Bar(number * BAR, HEIGHT - height, height)
        for number, height in enumerate(heights)
        if height
    ]
