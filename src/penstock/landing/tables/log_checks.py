"""Whether the log still has what a table's ledger was written for.

Invariant: a topic that was re-created, and a log that no longer reaches back to where a table
stands, are found before anything is read; nothing is skipped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.tables.progress import TableProgress

RETENTION = "P252"


def check_recreated(tables: Iterable[TableProgress], listing: Iterable[TopicPartition]) -> None:
    """Raise DecisionNeededError when a topic's name stands for another topic now
    (failure-modes.md K7).
    """
    now = {at.topic: at.topic_id for at in listing}
    for table in tables:
        known = {at.topic_id for at in table.expected}
        for at in table.expected:
            other = now.get(at.topic)
            if other is not None and other not in known:
                raise DecisionNeededError(
                    f"topic {at.topic} was deleted and created again: {table.name} was fed from "
                    f"id {at.topic_id}, the topic is {other} now",
                    code="P251",
                    hint="to land the new topic from its beginning:  penstock run --accept topic",
                )


def check_truncated(
    table: TableProgress, bounds: Mapping[TopicPartition, Bounds]
) -> DecisionNeededError | None:
    """Return the error where the log no longer reaches back to where a table stands, or was cut
    off above it.
    """
    for at, offset in sorted(table.examined.items()):
        found = bounds.get(at)
        if found is None:
            continue
        if found.start > offset:
            return DecisionNeededError(
                f"{table.name}: {at} offsets {offset} to {found.start} are gone from Kafka "
                f"(retention), {found.start - offset} positions",
                code=RETENTION,
                hint="to continue after the gap and record it:  penstock run --accept gap",
            )
        if found.high < offset:
            return DecisionNeededError(
                f"{table.name}: {at} ends at {found.high}, but {offset} landed: it was truncated",
                code="P253",
                hint="unclean leader election lost records the table holds: see the brokers' logs",
            )
    return None
