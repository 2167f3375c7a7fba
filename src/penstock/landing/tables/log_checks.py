"""Whether the log still has what a table's ledger was written for.

Invariant: a topic that was re-created, and a log that no longer reaches back to a table's position,
are found before anything is read; nothing is skipped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import OffsetRange, Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.tables.progress import TableProgress

RETENTION = "P252"
SHOWN_MAX = 5


def check_recreated(
    landed: Iterable[tuple[str, Positions]], listing: Iterable[TopicPartition]
) -> None:
    """Raise DecisionNeededError when a topic's name belongs to another topic now
    (failure-modes.md K7). `landed` are tables by their names, with the positions of their ledgers:
    those of all shards where what a sibling has landed counts.
    """
    now = {at.topic: at.topic_id for at in listing}
    for table, positions in landed:
        known = {at.topic_id for at in positions}
        for at in positions:
            other = now.get(at.topic, at.topic_id)
            if other not in known:
                raise DecisionNeededError(
                    f"topic {at.topic} was deleted and created again: {table} was fed from "
                    f"id {at.topic_id}, the topic is {other} now",
                    code="P251",
                    hint="to land the new topic from its beginning:  penstock run --accept topic",
                )


def check_truncated(
    table: TableProgress, bounds: Mapping[TopicPartition, Bounds]
) -> DecisionNeededError | None:
    """Return the error where the log no longer reaches back to a table's position, or was cut off
    above it.
    """
    gaps: dict[TopicPartition, OffsetRange] = {}
    for at, offset in sorted(table.examined.items()):
        found = bounds.get(at)
        if found is None:
            continue
        if found.high < offset:
            return DecisionNeededError(
                f"{table.name}: {at} ends at {found.high}, but {offset} landed: it was truncated",
                code="P253",
                hint="unclean leader election lost records the table holds: see the brokers' logs",
            )
        if found.start > offset:
            gaps[at] = OffsetRange(offset, found.start)
    return _gone(table.name, gaps) if gaps else None


def _gone(table: str, gaps: Mapping[TopicPartition, OffsetRange]) -> DecisionNeededError:
    """Build the error for offsets that retention took before the table landed them."""
    total = sum(each.count for each in gaps.values())
    named = [f"{at} offsets {each.start:,} to {each.stop:,}" for at, each in gaps.items()]
    more = f", and {len(named) - SHOWN_MAX:,} more partitions" if len(named) > SHOWN_MAX else ""
    return DecisionNeededError(
        f"{table}: {', '.join(named[:SHOWN_MAX])}{more} are gone from Kafka (retention): "
        f"{total:,} offsets would be given up",
        code=RETENTION,
        hint="to continue after the gap and record it:  penstock run --accept gap",
    )
