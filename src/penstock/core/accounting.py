"""The books of an epoch, per table and partition: what was examined has landed, or was superseded
(in keyed tables, by a later change of its key), filtered or quarantined.

Invariants: counts are never negative; entries add up before an epoch is prepared (protocol.md I2).
Records that no route wants are counted under `unroutable` at the partition, not at a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.core.errors import BugError

REJECTS_MIN = 100


@dataclass(frozen=True, slots=True)
class Tally:
    """Count what became of records examined for one table in one partition.

    `superseded` are changes that later ones of the same commit replace (docs/design/0244).
    """

    examined: int = 0
    landed: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.examined + other.examined,
            self.landed + other.landed,
            _sum(self.filtered, other.filtered),
            _sum(self.quarantined, other.quarantined),
            self.superseded + other.superseded,
        )

    @property
    def quarantined_total(self) -> int:
        """Count the records that were quarantined, whatever the code."""
        return sum(self.quarantined.values())

    @property
    def filtered_total(self) -> int:
        """Count the records that were left out with a reason."""
        return sum(self.filtered.values())

    def after_merge(self, superseded: int) -> Tally:
        """Return it with that many of the changes that landed superseded."""
        return replace(
            self, landed=self.landed - superseded, superseded=self.superseded + superseded
        )

    def check(self, where: str) -> None:
        """Raise BugError when the sides of the equation differ."""
        total = self.landed + self.superseded + self.filtered_total + self.quarantined_total
        if total != self.examined:
            superseded = f"{self.superseded} superseded, " if self.superseded else ""
            raise BugError(
                f"{where}: {self.examined} records examined, but {self.landed} landed, {superseded}"
                f"{self.filtered_total} filtered and {self.quarantined_total} quarantined",
                code="P701",
                hint="nothing was committed for this epoch; please report this",
            )


def too_many_rejects(books: Tally, share_max: float) -> bool:
    """Return whether the books of one epoch trip the breaker (docs/design/0010).

    `share_max` is `stop_above` in 0..1. Handfuls do not count: one bad record among three says
    nothing about a source.
    """
    rejected = books.quarantined_total
    return rejected >= REJECTS_MIN and rejected > share_max * books.examined


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}
