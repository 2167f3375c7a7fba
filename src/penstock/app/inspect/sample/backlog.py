"""The backlog of a run, and whether what was read of it would trip a table's breaker.

The breaker decides on whole epochs (docs/design/0010), and a sample says only so much of one: each
piece of it represents the positions that are nearest to it. Where the sample is the backlog, the
estimate is exact.

Invariant: what the first epoch of a run covers is separate from what comes later: a table is
created for its first epoch alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.core.accounting import Tally, too_many_rejects
from penstock.core.commits import EpochNumber
from penstock.core.offsets import OffsetRange, Positions, TopicPartition
from penstock.core.planning import Lane
from penstock.core.planning import plan as plan_epoch
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.settings import Settings
from penstock.ports.runtime import Clock

Ranges = Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a run would read: the tables' positions, the ends, and what its first epoch covers.

    `epoch_records` is the most that an epoch holds.
    """

    positions: Mapping[str, Positions]
    ends: Positions
    first: Mapping[str, Ranges] = field(default_factory=dict)
    epoch_records: int = 0

    @classmethod
    def of(
        cls, settings: Settings, clock: Clock, positions: Mapping[str, Positions], ends: Positions,
        *, surveying: bool,
    ) -> Backlog:  # fmt: skip
        """Plan the first epoch as a run does; `surveying` when a table is to be created for it."""
        budget = EpochTrigger(settings, clock).budget(1, surveying=surveying)
        first: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
        for part in plan_epoch(EpochNumber(0), positions, ends, budget).slices:
            for lane in part.lanes:
                for table in lane.tables:
                    own, known = lane.covered, first[table].get(lane.at, lane.covered)
                    start, stop = min(known.start, own.start), max(known.stop, own.stop)
                    first[table][lane.at] = OffsetRange(start, stop)
        return cls(positions, ends, first, budget.records_max)

    def records(self, table: str) -> int:
        """Count the positions that a table has yet to read."""
        offsets = self.positions.get(table, {})
        return sum(max(self.ends.get(at, offset) - offset, 0) for at, offset in offsets.items())

    def covers_first(self, table: str, at: TopicPartition, covered: OffsetRange) -> bool:
        """Return whether a range is within a table's first epoch."""
        found = self.first.get(table, {}).get(at)
        return found is not None and found.start <= covered.start <= covered.stop <= found.stop


@dataclass(frozen=True, slots=True)
class Piece:
    """A range that was read, for some tables; `first` are those that have it in their first epoch.

    `stands_for` are the positions that are nearest to it.
    """

    at: TopicPartition
    covered: OffsetRange
    stands_for: OffsetRange
    tables: tuple[str, ...]
    first: frozenset[str] = frozenset()

    def lane(self, tables: Collection[str]) -> Lane:
        """Return the lane of those of its tables that are among `tables`."""
        return Lane(self.at, self.covered, tuple(name for name in self.tables if name in tables))


def would_trip(
    source: str, books: Mapping[Piece, Tally], backlog: Backlog, share_max: float
) -> bool:
    """Return whether the first epoch of a table, or a later one, would trip its breaker.

    `source` is what reads the backlog for it: the table itself, or the route that is to create it.
    """
    first, later = Tally(), Tally()
    for piece, tally in books.items():
        meant, own = piece.stands_for, backlog.first.get(source, {}).get(piece.at)
        count = max(min(meant.stop, own.stop) - max(meant.start, own.start), 0) if own else 0
        first += _scaled(tally, count, piece.covered.count)
        later += _scaled(tally, piece.stands_for.count - count, piece.covered.count)
    an_epoch = _scaled(later, backlog.epoch_records, max(later.examined, backlog.epoch_records))
    return any(too_many_rejects(each, share_max) for each in (first, an_epoch))


def _scaled(books: Tally, positions: int, sampled: int) -> Tally:
    factor = positions / sampled if sampled else 0.0
    quarantined = {code: round(count * factor) for code, count in books.quarantined.items()}
    return Tally(round(books.examined * factor), quarantined=quarantined)
