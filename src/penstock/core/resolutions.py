"""Closings: what people decided about refused records, numbered, one log for each quarantine chain.

Theory of operation (docs/design/0100): a closing is a row of the quarantine table. Its number is a
position in a log of its own, which stands in ledgers beside the partitions of topics: in the
quarantine chain it tells how many closings there are, in a table's chain how many of them the table
has followed. So a retry is landed like anything else, by a compare-and-set on positions.

Invariants: no topic has such an id (Kafka's have no slash); what reads a log of records never sees
a log of closings (`records_only`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from penstock.core.offsets import TopicPartition

STAGE = "close"
"""What stands as the stage in the row of a closing."""

_PREFIX = "closings/"
Value = TypeVar("Value")


class Resolution(StrEnum):
    """What was decided: the record has landed, was dropped, or was rejected again."""

    RETRIED = "retried"
    DROPPED = "dropped"
    REOPENED = "open"


def resolutions_of(name: str) -> TopicPartition:
    """Name the log of closings of a table, or of a route."""
    return TopicPartition(f"{_PREFIX}{name}", 0, f"closings of {name}")


def is_of_resolutions(at: TopicPartition) -> bool:
    """Return whether this is a log of resolutions, and not a partition of a topic."""
    return at.topic_id.startswith(_PREFIX)


def records_only(positions: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
    """Leave out the logs of closings."""
    return {at: each for at, each in positions.items() if not is_of_resolutions(at)}
