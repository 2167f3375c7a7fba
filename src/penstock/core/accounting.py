"""The books of an epoch: examined = landed + filtered + quarantined, per table and partition.

Invariants: counts are never negative; entries add up before an epoch is prepared (protocol.md I2).
Records that no route wants are counted under `unroutable` at the partition, not at a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.core.errors import BugError


@dataclass(frozen=True, slots=True)
class Tally:
    """Count the fate of records examined for one table in one partition."""

    examined: int = 0
    landed: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.examined + other.examined,
            self.landed + other.landed,
            _sum(self.filtered, other.filtered),
            _sum(self.quarantined, other.quarantined),
        )

    @property
    def quarantined_total(self) -> int:
        """Count the records that were quarantined, whatever the code."""
        return sum(self.quarantined.values())

    @property
    def filtered_total(self) -> int:
        """Count the records that were left out with a reason."""
        return sum(self.filtered.values())

    def check(self, where: str) -> None:
        """Raise BugError when the sides of the equation differ."""
        total = self.landed + self.filtered_total + self.quarantined_total
        if total != self.examined:
            raise BugError(
                f"{where}: {self.examined} records examined, but {self.landed} landed, "
                f"{self.filtered_total} filtered and {self.quarantined_total} quarantined",
                code="P701",
                hint="nothing was committed for this epoch; please report this",
            )


def total(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    result = Tally()
    for tally in tallies:
        result = result + tally
    return result


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}
