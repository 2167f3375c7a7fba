"""Names of columns that a Delta table's change data feed keeps for itself.

A table with one of them can have no feed, and Spark writes nothing into a table that has both.

Source: Delta transaction log protocol, "Change Data Files"; Delta 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping

_FEED = "delta.enableChangeDataFeed"
_OF_FEEDS = ("_change_type", "_commit_version", "_commit_timestamp")


def reserved(properties: Mapping[str, str]) -> tuple[str, ...]:
    """List what a table with some properties must not have as columns."""
    return _OF_FEEDS if properties.get(_FEED, "").lower() == "true" else ()
