"""Finds the files that a replayed range replaces, and those across its edge. Pure.

Rule (docs/design/0110): a file is replaced only when every row of it came from the stretch, so that
one commit removes exactly the rows of a range and writes them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import OffsetRange, span

Ranges = Mapping[tuple[str, int], OffsetRange]
"""Ranges by topic name and partition, as rows name their source."""


@dataclass(frozen=True, slots=True)
class FileRanges:
    """The ranges of a live file; `counts` are its rows with a source, by topic and partition."""

    path: str
    rows: int
    ranges: Ranges
    rows_without_source: int = 0
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Files by their position to a range: wholly in it, across its edge."""

    inside: tuple[FileRanges, ...]
    across: tuple[FileRanges, ...]

    def widened(self, stretch: Ranges) -> dict[tuple[str, int], OffsetRange]:
        """Return the range widened to hold the files across its edge, as far as these show."""
        wide = dict(stretch)
        for file in self.across:
            for at, covered in file.ranges.items():
                known = wide.get(at, covered)
                wide[at] = span(min(known.start, covered.start), max(known.stop, covered.stop))
        return wide


def partition_files(files: Iterable[FileRanges], stretch: Ranges) -> Partitioned:
    """Sort out the files that hold rows of a stretch."""
    inside: list[FileRanges] = []
    across: list[FileRanges] = []
    for file in files:
        pairs = [(c, stretch[at]) for at, c in file.ranges.items() if at in stretch]
        if not any(c.start < wanted.stop and wanted.start < c.stop for c, wanted in pairs):
            continue
        whole = not file.rows_without_source and len(pairs) == len(file.ranges)
        within = all(wanted.start <= c.start and c.stop <= wanted.stop for c, wanted in pairs)
        (inside if whole and within else across).append(file)
    return Partitioned(tuple(inside), tuple(across))


def ends_of_rows(files: Iterable[FileRanges]) -> dict[tuple[str, int], int]:
    """Return, by topic and partition, the offset after the last row."""
    ends: dict[tuple[str, int], int] = {}
    for file in files:
        for at, covered in file.ranges.items():
            ends[at] = max(ends.get(at, 0), covered.stop)
    return ends


def starts_of_rows(files: Iterable[FileRanges]) -> dict[tuple[str, int], int]:
    """Return, by topic and partition, the offset of the first row that exists."""
    first: dict[tuple[str, int], int] = {}
    for file in files:
        for at, covered in file.ranges.items():
            first[at] = min(first.get(at, covered.start), covered.start)
    return first


def rows_of(files: Iterable[FileRanges]) -> Counter[tuple[str, int]]:
    """Count rows by topic and partition."""
    total: Counter[tuple[str, int]] = Counter()
    for file in files:
        total.update(file.counts)
    return total
