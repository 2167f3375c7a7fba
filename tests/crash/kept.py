"""What was played of the matrix, kept line by line: many sittings make one whole.

A line is a cell, a mark of the code that it was played on, and its seconds. What was played on the
code as it is is not played again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.source_marks import mark_of

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kept:
    """A file of cells that ended as they must."""

    path: Path

    @cached_property
    def mark(self) -> str:
        """Mark the code that is struck, and that which strikes."""
        return mark_of(
            path for room in ("src/penstock", "tests/crash") for path in (ROOT / room).rglob("*.py")
        )

    def played(self) -> Iterator[str]:
        """Name the cells that were played on the code as it is."""
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                cell, mark, _ = line.split(" ")
                if mark == self.mark:
                    yield cell

    def add(self, cell: object, seconds: float) -> None:
        """Keep that a cell ended as it must."""
        with self.path.open("a") as kept:
            kept.write(f"{cell} {self.mark} {seconds:.1f}\n")
