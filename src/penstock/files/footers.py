"""Merges the statistics of a column over the row groups of one Parquet footer.

Invariants:
- a row group without bounds counts: unless it holds nothing but nulls, nothing is known of its
  values, and the column of the file has no bounds. Arrow leaves both bounds out when one of them
  is longer than 4,096 bytes, and when all values are NaN;
- a count of nulls is that of all row groups, or not known.

Source: Parquet format, `Statistics` and `ColumnMetaData`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq


def row_groups_of(footer: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    """Return the row groups of a file."""
    return [footer.row_group(group) for group in range(footer.num_row_groups)]


def statistics_of(chunks: Sequence[pq.ColumnChunkMetaData]) -> list[pq.Statistics]:
    """Return the statistics of one leaf column by row group; none where a row group has none."""
    found = [each.statistics for each in chunks]
    return found if all(each is not None for each in found) else []


def null_count(groups: Sequence[pq.Statistics]) -> int | None:
    """Return how many nulls the column holds, None where a row group has no count."""
    if not groups or not all(each.has_null_count for each in groups):
        return None
    return sum(int(each.null_count) for each in groups)


def extremes(
    groups: Sequence[pq.Statistics], others: tuple[Any, Any] | None = None
) -> tuple[Any, Any] | None:
    """Return the least and the greatest value of a column, None where a row group has no bounds.

    `others` are those of all row groups without bounds, where the writer kept them. Values are
    Python's; None as well for those that Python cannot hold (times after the year 9999, text that
    is not UTF-8) and for types with bounds that Arrow cannot read. Nanoseconds are counts: Python's
    times, which Arrow makes of them, end at microseconds.
    """
    if others is None and any(each.num_values and not each.has_min_max for each in groups):
        return None
    try:
        found = [_ends(each) for each in groups if each.has_min_max]
        found += [] if others is None else [others]
        if not found:
            return None
        return min(low for low, _ in found), max(high for _, high in found)
    except (ValueError, OverflowError, NotImplementedError):
        return None


def _ends(group: pq.Statistics) -> tuple[Any, Any]:
    if "timeUnit=nanoseconds" in str(group.logical_type):
        return group.min_raw, group.max_raw
    return group.min, group.max
