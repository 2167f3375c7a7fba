"""The errors of sources that cannot be read from a position, and of partitions without a leader.

Each says what was found, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition

OTHER_TABLE = "P826"


def foreign_position(values: Mapping[str, Any]) -> InvalidError:
    """Return the error for a position of another kind of source."""
    return InvalidError(
        f"the offsets topic has a position of another kind of source: {values}",
        code="P815",
        hint="give the publication another name, or another offsets topic",
    )


def leaderless(partitions: Sequence[TopicPartition]) -> UnavailableError:
    """Return the error for partitions whose ends have to be known, and that have no leader."""
    return UnavailableError(
        f"{', '.join(map(str, partitions[:3]))} cannot be listed: no leader",
        code="P250",
        hint="bring the partition's broker back, then run again",
    )


def other_table(table: str, fact: str) -> DecisionNeededError:
    """Return the error for a table that is no longer what was read."""
    return DecisionNeededError(
        f"the table {table} is not the one that was read: {fact}",
        code=OTHER_TABLE,
        hint="to publish all of what is there:  penstock publish --accept gap",
    )


def rows_removed(table: str, snapshots: str) -> DecisionNeededError:
    """Return the error for snapshots that removed rows where nobody said what is to be done."""
    return DecisionNeededError(
        f"rows of the table {table} that were published may be gone: {snapshots}",
        code="P827",
        hint="say in the spec whether to go on behind them or to publish the table anew:"
        "  changes: skip  or  changes: whole",
    )


def file_gone(publication: str, table: str, fact: str) -> DecisionNeededError:
    """Return the error for a file that was to be published."""
    return DecisionNeededError(
        f"a file of the table {table} was removed before it was published: {fact}",
        code="P828",
        hint=f"restore it; or publish all of what is there:  penstock seek {publication} earliest",
    )
