"""Which row groups of a Parquet file are read where its first rows are not asked for."""

from __future__ import annotations

import pyarrow.parquet as pq


def groups_from(parquet: pq.ParquetFile, start: int) -> tuple[list[int], int]:
    """Return the row groups that hold rows from a place on, and the place of their first row."""
    begun = 0
    for group in range(parquet.num_row_groups):
        stop = begun + parquet.metadata.row_group(group).num_rows
        if stop > start:
            return [*range(group, parquet.num_row_groups)], begun
        begun = stop
    return [], begun
