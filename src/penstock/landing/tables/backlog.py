"""What tables have yet to read, counted in positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import Positions


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is yet to be read: by topic and by partition for the table that is furthest behind
    (`lag`, `waiting`), and by table (`behind`).
    """

    lag: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        positions: Mapping[str, Positions],
        ends: Positions,
        *,
        parked: Mapping[str, Positions],
    ) -> Backlog:
        """Count what tables that stand at these positions have yet to read.

        What waits for `parked` ones is counted by table alone: nothing is read for them.
        """
        most: dict[str, int] = {}
        lag: dict[str, int] = defaultdict(int)
        for at, end in ends.items():
            counts = [end - offsets[at] for offsets in positions.values() if at in offsets]
            if counts:
                most[str(at)] = max(0, *counts)
                lag[at.topic] += most[str(at)]
        behind = {
            table: sum(max(ends[at] - offset, 0) for at, offset in offsets.items() if at in ends)
            for table, offsets in {**parked, **positions}.items()
        }
        return cls(dict(lag), behind, most)
