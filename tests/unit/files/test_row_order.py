"""Rows are written in the order that is asked for, and row groups cut where others begin."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from penstock.files import FileOptions, ParquetEncoding, PartitionedWriter
from penstock.files.row_order import RowOrder, cuts, order_by, ranks_of
from penstock.testing.contracts.table_fixture import Quiet

NO_BORDERS = np.empty(0, np.int64)
MINUS_NAN = math.copysign(math.nan, -1)


@pytest.mark.parametrize(
    ("values", "kind", "falls", "nulls_last", "expected"),
    [
        ([3, None, 1, 3], pa.int64(), False, False, [None, 1, 3, 3]),
        ([3, None, 1, 3], pa.int64(), False, True, [1, 3, 3, None]),
        ([3, None, 1, 3], pa.int64(), True, False, [None, 3, 3, 1]),
        (["b", "", None, "Ö"], pa.large_string(), True, True, ["Ö", "b", "", None]),
        ([True, None, False], pa.bool_(), False, True, [False, True, None]),
        ([b"ab", b"\xff\x00", None], pa.binary(2), False, False, [None, b"ab", b"\xff\x00"]),
    ],
)
def test_values_have_ranks_by_direction_and_place_of_nulls(
    values: list[object], kind: pa.DataType, falls: bool, nulls_last: bool, expected: list[object]
) -> None:
    ranks = ranks_of(pa.array(values, kind), falls=falls, nulls_last=nulls_last)

    assert expected == [values[at] for at in np.argsort(ranks, kind="stable")]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_are_in_the_total_order(kind: pa.DataType) -> None:
    wanted = [None, MINUS_NAN, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    numpy = kind.to_pandas_dtype()
    given = [
        wanted[at] if wanted[at] is None else numpy(wanted[at])
        for at in (8, 5, 2, 7, 0, 4, 3, 1, 6)
    ]
    found = np.argsort(ranks_of(pa.array(given, kind)), kind="stable")

    assert list(map(str, wanted[2:])) == [str(given[at]) for at in found[2:]]
    assert given[found[0]] is None
    assert math.copysign(1, float(given[found[1]])) == -1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))))
def test_groups_come_first_and_equal_rows_stay_as_they_came(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    order = order_by(len(rows), columns[:2], columns[2:])
    found = [rows[at] for at in order.rows]

    assert sorted(range(len(rows)), key=rows.__getitem__) == order.rows.tolist()
    begins = [n for n in range(1, len(found)) if found[n][:2] != found[n - 1][:2]]
    assert begins == order.borders.tolist()


@given(st.integers(1, 200), st.integers(1, 20), st.sets(st.integers(1, 199)))
def test_row_groups_are_cut_at_borders_that_are_near(
    count: int, groups: int, borders: set[int]
) -> None:
    groups, inside = min(groups, count), sorted(each for each in borders if each < count)
    found = cuts(count, groups, np.array(inside, np.int64))
    even, step = cuts(count, groups, NO_BORDERS), count / groups

    assert [0, count] == [found[0], found[-1]]
    assert found == sorted({*found})
    assert groups + 1 >= len(found)
    assert all(each in even or each in inside for each in found)
    assert all(
        cut in found or any(abs(cut - border) <= step / 2 and border in found for border in inside)
        for cut in even
    )


def test_a_file_of_one_run_is_in_order_and_one_of_several_says_nothing(tmp_path) -> None:
    numbers = iter(range(9))

    def falling(rows: pa.RecordBatch) -> RowOrder:
        return order_by(rows.num_rows, [], [ranks_of(rows["n"], falls=True)])

    def written(buffer_bytes: int) -> tuple[list[int], bool]:
        writer = PartitionedWriter(
            encoding=ParquetEncoding(
                pa.schema([("n", pa.int64())]),
                FileOptions(row_group_bytes=80, buffer_bytes=buffer_bytes),
            ),
            filesystem=fs.LocalFileSystem(),
            path_of=lambda *_: f"{tmp_path}/{next(numbers)}.parquet",
            partition_of=lambda rows: [((), rows)],
            observer=Quiet(),
            order=falling,
        )
        for start in range(0, 40, 10):
            writer.write(pa.record_batch({"n": pa.array(range(start, start + 10), pa.int64())}))
        (file,) = writer.close()
        return pq.read_table(file.path)["n"].to_pylist(), file.is_ordered

    assert ([*range(39, -1, -1)], True) == written(1 << 20)
    assert ([*range(19, -1, -1), *range(39, 19, -1)], False) == written(640)
