"""Names of columns that a Delta table keeps for itself: of its change data feed, of its row ids.

A table with a column of its feed's can have no feed, and Spark writes nothing into a table that has
both. Columns of row ids are in files beside those of the table, under names that stay theirs.

Source: Delta transaction log protocol, "Change Data Files", "Row Tracking"; Delta 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping

_FEED = "delta.enableChangeDataFeed"
_OF_FEEDS = ("_change_type", "_commit_version", "_commit_timestamp")
OF_ROW_IDS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""The properties by which a table names them: for a row's id, for the version that changed it."""


def reserved(properties: Mapping[str, str]) -> tuple[str, ...]:
    """List what a table with some properties must not have as columns."""
    feeds = _OF_FEEDS if properties.get(_FEED, "").lower() == "true" else ()
    return (*feeds, *row_id_columns(properties))


def row_id_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of row ids, as far as a table has named them, the id first."""
    return tuple(properties[each] for each in OF_ROW_IDS if each in properties)
