"""Reads where the rows of one file came from, by its source columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.core.file_ranges import FileRanges
from penstock.core.offsets import span
from penstock.ports.tables import FileSource

COORDINATES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
PLACE = tuple(COORDINATES.names)


def source_of(path: str, rows: pa.Table, *, altered: bool = False) -> FileSource:
    """Sum up the columns `topic`, `partition`, `offset` of a file's rows."""
    known = rows.drop_null()
    grouped = known.group_by(["topic", "partition"]).aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count")]
    )
    ranges, counts = {}, {}
    for topic, partition, lowest, highest, count in zip(*grouped.to_pydict().values(), strict=True):
        ranges[topic, partition] = span(lowest, highest + 1)
        counts[topic, partition] = count
    without_source = rows.num_rows - known.num_rows
    return FileSource(FileRanges(path, rows.num_rows, ranges, without_source, counts), altered)


def is_within(row: Mapping[str, Any], ranges: Sequence[Sequence[Any]]) -> bool:
    """Return whether a row of the quarantine lies in one of some ranges, as JSON has them."""
    return any(
        (row["topic_id"], row["partition"]) == (topic_id, partition)
        and start <= row["offset"] < stop
        for topic_id, partition, _, start, stop in ranges
    )
