"""Narrows what kills its worker down to a row alone, by transactions that get smaller.

A worker may die of its machine or for want of memory, too; where no row dies alone, what died
together was published in smaller transactions.

Invariants:
- each try is a whole transaction: what lives is published;
- a row is found only where it was tried alone and killed its worker, twice;
- each death leaves fewer rows to search, or counts against a row alone.

Source: docs/design/0317; `landing/epoch/poison_isolation.py` is its like for ranges of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from penstock.core.errors import DecisionNeededError
from penstock.ports.sources import EpochLimit, Stands, Stretch
from penstock.publishing.places import part_words, place_words
from penstock.publishing.settings import Publication

DEATHS_ALONE = 2
FOUND_MAX = 20
"""How many rows one run refuses: where more kill, it is not the rows."""


@dataclass(slots=True)
class PoisonSearch:
    """Where a row is sought that kills: `within` these stops, among `left` rows at most.

    Nothing is sought where `within` is empty. `alone` counts how often the next row died alone,
    `found` the rows that were refused.
    """

    within: Stands = field(default_factory=dict)
    left: int = 0
    alone: int = 0
    found: int = 0

    @property
    def is_found(self) -> bool:
        """Return whether the next row is one that kills."""
        return self.alone >= DEATHS_ALONE

    def limit(self, given: EpochLimit) -> EpochLimit:
        """Return what the next transaction may hold: half of what died."""
        return replace(given, rows_max=max(min(given.rows_max, self.left // 2), 1))

    def tried(self, planned: Sequence[Stretch], limit: EpochLimit) -> Sequence[Stretch]:
        """Return what is tried of what was planned: at least one stretch, and no more rows."""
        rows = accumulate(each.rows for each in planned)
        fitting = sum(count <= limit.rows_max for count in rows)
        return planned[: max(fitting, 1)]

    def died(self, stretches: Sequence[Stretch], rows: int) -> None:
        """Note that a transaction of at most so many rows died."""
        is_alone = len(stretches) == 1 and rows == 1
        self.within = {each.of: each.stop for each in stretches}
        self.left, self.alone = rows, self.alone + 1 if is_alone else 0

    def lived(self, stretches: Sequence[Stretch], rows: int) -> None:
        """Note that a transaction was published."""
        self.found += any(each.is_poison for each in stretches)
        self.left, self.alone = self.left - rows, 0
        if self.left <= 0:
            self.end()

    def end(self) -> None:
        """Seek no longer."""
        self.within, self.left, self.alone = {}, 0, 0

    def refused(self, publication: Publication, stretch: Stretch) -> Stretch:
        """Return the same row, which is to be refused unread.

        Raises DecisionNeededError where there is no way to (P885), or too many were (P886).
        """
        start, part = place_words(stretch.start), part_words(stretch.of)
        name, row = publication.name, f"{part}, the next one behind {start}"
        if publication.rejects is None or publication.reads_own:
            has_rejects = publication.messages is not None and not publication.reads_own
            topic = "name a topic for it under  rejects;  or " if has_rejects else ""
            raise DecisionNeededError(
                f"a row of {name} kills the process that reads it, even alone: {row}",
                code="P885",
                hint=f"{topic}take it out of the source, or go on behind it:  penstock seek {name}",
            )
        if self.found >= FOUND_MAX:
            raise DecisionNeededError(
                f"{self.found} rows of {name} have killed the process that reads them, and another"
                f" one does: {row}",
                code="P886",
                hint="look at the workers, and at their memory:  penstock doctor;  then:"
                "  penstock publish",
            )
        return replace(stretch, is_poison=True)
