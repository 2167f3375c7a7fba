"""Row groups that end before a place are not read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.files.row_groups import groups_from


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, ([0, 1, 2], 0)), (2, ([0, 1, 2], 0)), (3, ([1, 2], 3)), (7, ([2], 6)), (8, ([], 8))],
)
def test_groups_are_read_from_the_one_that_holds_a_place(
    tmp_path: Path, start: int, expected: tuple[list[int], int]
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": range(8)}), path, row_group_size=3)

    assert expected == groups_from(pq.ParquetFile(path), start)
