"""Columns whose values repeat are written with a dictionary, the others without."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.files.dictionary_encoding import ROWS_MIN, repeating

ROWS = 20_000
NUMBERS = np.random.default_rng(1).permutation(ROWS)


def table(batch_rows=3000, **columns):
    return pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=batch_rows))


def texts(numbers):
    return pa.array([f"text {number}" for number in numbers.tolist()])


def sometimes_null(array):
    return pa.array(array.to_pylist(), array.type, mask=NUMBERS % 10 != 0)


def with_dictionary(rows):
    """Name the columns of a file that hold a dictionary."""
    file = io.BytesIO()
    with pq.ParquetWriter(file, rows.schema, use_dictionary=repeating(rows)) as writer:
        writer.write_table(rows)
    file.seek(0)
    read = pq.ParquetFile(file)
    assert rows.equals(read.read())
    group = read.metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {each.path_in_schema for each in columns if each.has_dictionary_page}


@pytest.mark.parametrize("times", [10, 100, ROWS])
def test_values_that_occur_ten_times_or_more_get_a_dictionary(times):
    rows = table(number=NUMBERS // times, text=texts(NUMBERS // times))
    assert {"number", "text"} == with_dictionary(rows)


@pytest.mark.parametrize("times", [1, 2])
def test_values_that_occur_once_or_twice_get_none(times):
    rows = table(number=NUMBERS // times, text=texts(NUMBERS // times))
    assert set() == with_dictionary(rows)


def test_each_member_of_a_struct_a_list_and_a_map_is_checked_for_itself():
    few, many = texts(NUMBERS % 7), texts(NUMBERS)
    ends = pa.array(np.arange(ROWS + 1, dtype=np.int32))
    inner = pa.StructArray.from_arrays([few, many], ["few", "many"])
    rows = table(
        struct=inner,
        list=pa.ListArray.from_arrays(ends, inner),
        map=pa.MapArray.from_arrays(ends, many, few),
    )
    expected = {"struct.few", "list.list.element.few", "map.key_value.value"}
    assert expected == with_dictionary(rows)


def test_nulls_are_no_values():
    rows = table(few=sometimes_null(texts(NUMBERS % 7)), many=sometimes_null(texts(NUMBERS)))
    assert {"few"} == with_dictionary(rows)


def test_a_column_of_nulls_alone_keeps_its_dictionary():
    assert ["nothing"] == repeating(table(nothing=pa.nulls(ROWS, pa.string())))


def test_of_few_rows_nothing_is_reported():
    assert repeating(table(number=NUMBERS[: ROWS_MIN - 1])) is True


def test_small_batches_are_checked_alike():
    assert ["few"] == repeating(table(batch_rows=5, few=NUMBERS % 7, many=NUMBERS))
