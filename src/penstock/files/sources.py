"""Tells where the rows of one file came from, by its source columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.file_ranges import FileRanges
from penstock.core.offsets import span
from penstock.ports.tables import FileSource

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = ("topic", "partition", "offset")


def source_of(path: str, rows: pa.Table, *, altered: bool = False) -> FileSource:
    """Sum up the columns `topic`, `partition`, `offset` of a file's rows."""
    known = rows.drop_null()
    grouped = known.group_by(["topic", "partition"]).aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count")]
    )
    groups = grouped.to_pylist()
    ranges = {
        (row["topic"], row["partition"]): span(row["offset_min"], row["offset_max"] + 1)
        for row in groups
    }
    counts = {(row["topic"], row["partition"]): row["offset_count"] for row in groups}
    strangers = rows.num_rows - known.num_rows
    return FileSource(FileRanges(path, rows.num_rows, ranges, strangers, counts), altered)


def is_within(row: Mapping[str, Any], ranges: Sequence[Sequence[Any]]) -> bool:
    """Return whether a row of the quarantine lies in one of some ranges, as JSON has them."""
    return any(
        (row["topic_id"], row["partition"]) == (topic_id, partition)
        and start <= row["offset"] < stop
        for topic_id, partition, _, start, stop in ranges
    )
