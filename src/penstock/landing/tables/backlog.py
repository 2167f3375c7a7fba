"""What tables have yet to read: by topic, by partition and by table, in positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from penstock.core.offsets import Positions, TopicPartition


def lag_by_topic(positions: Mapping[str, Positions], ends: Positions) -> dict[str, int]:
    """Count by topic what the table that is furthest behind has yet to read, in positions."""
    lag: dict[str, int] = defaultdict(int)
    for at, count in waiting_by_partition(positions, ends).items():
        lag[at.topic] += count
    return dict(lag)


def waiting_by_partition(
    positions: Mapping[str, Positions], ends: Positions
) -> dict[TopicPartition, int]:
    """Count by partition what the table that is furthest behind has yet to read, in positions."""
    found: dict[TopicPartition, int] = {}
    for offsets in positions.values():
        for at, offset in offsets.items():
            if at in ends:
                found[at] = max(found.get(at, 0), ends[at] - offset)
    return found


def behind_by_table(positions: Mapping[str, Positions], ends: Positions) -> dict[str, int]:
    """Count by table what it has yet to read, in positions."""
    return {
        table: sum(max(ends[at] - offset, 0) for at, offset in offsets.items() if at in ends)
        for table, offsets in positions.items()
    }
