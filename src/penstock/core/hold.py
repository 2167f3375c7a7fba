"""When a table has too many small files for epochs to go on as often: pure decisions.

Epochs that are further apart make fewer files. Freshness is given for it, never records: an epoch
that is full is landed at once, however far apart epochs are (docs/design/0324).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.core.errors import UnavailableError
from penstock.core.maintenance import TableHealth

HELD = "P895"
"""Tables are parked with this code until they are healthier."""


class HoldAct(StrEnum):
    """What is done about a sick table: epochs widen, it is parked, or it is only said."""

    WIDEN = "widen"
    STOP = "stop"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Hold:
    """A table is sick with more than `excess_files` ailing ones, until there are fewer than half.

    Epochs become `every_most_seconds` apart at most.
    """

    excess_files: int = 20_000
    then: HoldAct = HoldAct.WIDEN
    every_most_seconds: float = 600.0

    def sick(self, tables: Mapping[str, TableHealth], before: Collection[str]) -> frozenset[str]:
        """Return the tables that are sick now, `before` being those that were."""
        return frozenset(
            name
            for name, each in tables.items()
            if each.ailing_files > self.excess_files
            or (name in before and 2 * each.ailing_files >= self.excess_files)
        )

    def interval(self, present_seconds: float, usual_seconds: float, most_files: int) -> float:
        """Return how far apart epochs are from now on, where a table has so many too many."""
        if most_files > self.excess_files:
            longest = max(self.every_most_seconds, usual_seconds)
            return min(2 * present_seconds, longest)
        if 2 * most_files < self.excess_files:
            return max(present_seconds / 2, usual_seconds)
        return present_seconds


def held(table: str, excess_files: int, hold: Hold) -> UnavailableError:
    """Build the error of a table that is parked because it is sick."""
    return UnavailableError(
        f"{table}: {excess_files:,} files more than would do, and `maintain.hold` stops at "
        f"{hold.excess_files:,}",
        code=HELD,
        hint=f"to make fewer of them; then the run goes on with it:  penstock maintain {table}",
    )
