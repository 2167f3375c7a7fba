"""Resolutions: what people decided about rejected records, one numbered log per quarantine chain.

A resolution is a row of the quarantine table. Its number is a position in a log of its own, which
ledgers hold like a partition of a topic: in the quarantine chain it is the number of resolutions,
in a table's chain the number of those that the table has applied. So a retry is landed like
anything else, by a compare-and-set on positions (docs/design/0100).

Invariants: no topic has such an id (Kafka's have no slash); what reads a log of records never sees
a log of resolutions (`records_only`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from penstock.core.offsets import TopicPartition

STAGE = "close"
"""The stage in the row of a resolution."""

_PREFIX = "closings/"
Value = TypeVar("Value")


class Resolution(StrEnum):
    """The decision: the record has landed, was dropped, or was rejected again."""

    RETRIED = "retried"
    DROPPED = "dropped"
    REOPENED = "open"


def resolutions_of(name: str) -> TopicPartition:
    """Name the log of resolutions of a table, or of a route."""
    return TopicPartition(f"{_PREFIX}{name}", 0, f"closings of {name}")


def is_of_resolutions(at: TopicPartition) -> bool:
    """Return whether this is a log of resolutions, and not a partition of a topic."""
    return at.topic_id.startswith(_PREFIX)


def records_only(positions: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
    """Leave out the logs of resolutions."""
    return {at: each for at, each in positions.items() if not is_of_resolutions(at)}
