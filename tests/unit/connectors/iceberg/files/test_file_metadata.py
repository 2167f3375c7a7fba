"""What a file's description promises of its rows is what Iceberg's evaluators take from it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    IsNaN,
    LessThan,
    NotEqualTo,
    NotNaN,
)
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from penstock.connectors.iceberg.files.file_metadata import Describer, data_file
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.commits import DataFile
from penstock.files import Written
from penstock.files.float_statistics import count_floats, floats_in

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "at", StructType(NestedField(5, "height", DoubleType()))),
    NestedField(6, "points", ListType(7, DoubleType())),
    NestedField(8, "raw", BinaryType()),
    NestedField(9, "moment", TimestampType()),
    NestedField(10, "price", DecimalType(38, 4)),
    NestedField(11, "key", UUIDType()),
    NestedField(12, "code", FixedType(2)),
    NestedField(13, "day", DateType()),
    NestedField(14, "ok", BooleanType()),
    NestedField(15, "ratio", FloatType()),
)


def described(
    rows: Sequence[Mapping[str, Any]],
    properties: Mapping[str, str] | None = None,
    *,
    group_rows: int = 1000,
) -> DataFile:
    table = pa.Table.from_pylist(list(rows), schema=file_schema(SCHEMA))
    footer = footer_of(table, group_rows)
    nans = count_floats(floats_in(table.schema), table).nans
    written = Written("x", (), table.num_rows, 100, footer, nans)
    describer = Describer(SCHEMA, PartitionSpec(), properties or {})
    return describer.described("file:///x.parquet", written)


def footer_of(table: pa.Table, group_rows: int) -> pq.FileMetaData:
    footers: list[pq.FileMetaData] = []
    with io.BytesIO() as stream:
        pq.write_table(table, stream, row_group_size=group_rows, metadata_collector=footers)
    return footers[0]


def metadata() -> TableMetadata:
    return new_table_metadata(SCHEMA, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t", {})


def listed(file: DataFile) -> ManifestFile:
    return data_file(file, metadata(), "t")


def all_match(file: ManifestFile, expression: BooleanExpression) -> bool:
    return _StrictMetricsEvaluator(SCHEMA, expression).eval(file)


def some_may_match(file: ManifestFile, expression: BooleanExpression) -> bool:
    return _InclusiveMetricsEvaluator(SCHEMA, expression).eval(file)


MIXED = [{"amount": 1.0}, {"amount": nan}, {"amount": 2.0}]


def test_a_file_with_nan_is_not_said_to_match_as_a_whole() -> None:
    file = listed(described(MIXED))

    assert not all_match(file, LessThan("amount", 10.0))
    assert not all_match(file, GreaterThan("amount", 0.0))
    assert some_may_match(file, IsNaN("amount"))
    assert {2: 1, 5: 0, 15: 0} == file.nan_value_counts


def test_bounds_leave_nan_out_so_a_column_with_nan_has_none() -> None:
    """Spark takes NaN for the greatest number."""
    file = listed(described(MIXED))

    assert 2 not in {*file.lower_bounds, *file.upper_bounds}
    assert some_may_match(file, GreaterThan("amount", 2.0))


def test_a_file_of_nothing_but_nan_is_not_skipped_for_it() -> None:
    file = listed(described([{"amount": nan}]))

    assert some_may_match(file, GreaterThan("amount", 2.0))
    assert some_may_match(file, IsNaN("amount"))


def test_a_file_without_nan_matches_as_a_whole_and_is_left_out_by_bounds() -> None:
    file = listed(described([{"amount": 1.0}, {"amount": 2.0}]))

    assert all_match(file, LessThan("amount", 10.0))
    assert all_match(file, NotNaN("amount"))
    assert not some_may_match(file, GreaterThan("amount", 10.0))
    assert not some_may_match(file, IsNaN("amount"))


def test_nan_in_structs_are_counted() -> None:
    file = listed(described([{"at": {"height": 1.0}}, {"at": {"height": nan}}, {"at": None}]))

    assert {2: 0, 5: 1, 15: 0} == file.nan_value_counts


def test_floats_in_lists_have_no_bounds_for_their_nan_are_not_counted() -> None:
    file = listed(described([{"id": 1, "points": [1.0, nan, 3.0]}]))

    assert {1: 1, 7: 3} == {number: file.value_counts[number] for number in (1, 7)}
    assert [1] == sorted(file.lower_bounds)
    assert [1] == sorted(file.upper_bounds)


def test_a_description_that_counts_no_nan_gives_floats_no_bounds() -> None:
    """Such are in the pending stores of earlier versions."""
    file = described([{"id": 7, "amount": 1.0}])
    detail = json.loads(file.detail)
    del detail["nans"]
    earlier = listed(replace(file, detail=json.dumps(detail)))

    assert not all_match(earlier, LessThan("amount", 10.0))
    assert [1] == sorted(earlier.lower_bounds)


@pytest.mark.parametrize(("mode", "expected"), [("none", {}), ("counts", {2: 1, 5: 0, 15: 0})])
def test_nan_are_counted_where_the_table_wants_counts(mode: str, expected: dict[int, int]) -> None:
    file = listed(described(MIXED, {"write.metadata.metrics.default": mode}))

    assert expected == file.nan_value_counts


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
def test_a_text_that_cannot_be_counted_up_has_a_bound_above_it_or_none(last: str) -> None:
    text = "a" * 15 + last + "zz"
    file = listed(described([{"name": text}]))

    assert some_may_match(file, GreaterThan("name", "a" * 15))
    assert 3 not in file.upper_bounds or text.encode() < file.upper_bounds[3]


def test_the_name_of_a_topic_that_all_rows_have_is_kept_whole() -> None:
    topic = "shop-of-many-words.public.orders"
    whole, mixed = listed(described([{"name": topic}] * 2)), [{"name": topic}, {"name": topic[:-1]}]
    asked = {"write.metadata.metrics.default": "truncate(5)"}

    assert {topic.encode()} == {whole.lower_bounds[3], whole.upper_bounds[3]}
    assert b"shop-of-many-wor" == listed(described(mixed)).lower_bounds[3]
    assert b"shop-" == listed(described([{"name": topic}], asked)).lower_bounds[3]


LONG = 5000
"""Arrow writes no bounds for a row group with a value longer than 4,096 bytes."""


@pytest.mark.parametrize("long", ["z" * LONG, "a" * LONG])
def test_a_row_group_without_bounds_leaves_the_file_without(long: str) -> None:
    rows = [{"name": text, "raw": text.encode()} for text in ("m", long)]
    file = listed(described(rows, group_rows=1))

    assert some_may_match(file, GreaterThan("name", "y"))
    assert some_may_match(file, LessThan("raw", b"b"))
    assert not all_match(file, LessThan("name", "n"))
    assert {3, 8}.isdisjoint([*file.lower_bounds, *file.upper_bounds])
    assert {3: 0, 8: 0} == {number: file.null_value_counts[number] for number in (3, 8)}
    assert {3: 2, 8: 2} == {number: file.value_counts[number] for number in (3, 8)}


def test_a_row_group_of_nulls_leaves_the_bounds_of_the_others() -> None:
    rows = [{"name": "a", "id": 4}, {}, {"name": "c", "id": -4}]
    file = listed(described(rows, group_rows=1))

    assert (b"a", b"c") == (file.lower_bounds[3], file.upper_bounds[3])
    assert not some_may_match(file, GreaterThan("id", 4))
    assert (3, 1) == (file.value_counts[3], file.null_value_counts[3])


def test_a_row_group_of_nan_alone_gives_no_bounds_for_the_other_numbers() -> None:
    file = listed(described([{"amount": 1.0}, {"amount": nan}], group_rows=1))

    assert 2 not in file.lower_bounds
    assert some_may_match(file, LessThan("amount", 5.0))
    assert some_may_match(file, IsNaN("amount"))


VALUES: list[tuple[str, list[Any]]] = [
    ("id", [2**63 - 1, -(2**63), 0]),
    ("amount", [0.0, -0.0, 5e-324]),
    ("amount", [-0.0, inf, -inf]),
    ("ratio", [-0.0, 0.0, 1.5]),
    ("name", ["", "a" * 16 + "b", "a" * 17]),
    ("name", ["a" * 15 + "\ud7ff" + "z", "b"]),
    ("name", ["\uffff" * 17, "\U00010000" * 17]),
    ("raw", [b"\xff" * 17, b"", b"\x00"]),
    ("raw", [b"\xff" * 16 + b"\x01", b"\x7f" * 40]),
    ("raw", [b"\xfe" + b"\xff" * 40, b"\xfe\xff"]),
    ("price", [Decimal("-9999999999999999999999999999999999.9999"), Decimal("0.0001")]),
    ("price", [Decimal("9999999999999999999999999999999999.9999"), Decimal("-0.0001")]),
    ("key", [b"\x80" * 16, b"\x7f" * 16, b"\x00" * 16]),
    ("code", [b"\xff\xff", b"\x00\x00"]),
    ("day", [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)]),
    ("moment", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),  # noqa: DTZ001
    ("ok", [True, False]),
]


@pytest.mark.parametrize(("name", "values"), VALUES, ids=lambda each: str(each)[:20])
@pytest.mark.parametrize("group_rows", [1, 100])
def test_no_bound_excludes_a_value(name: str, values: list[Any], group_rows: int) -> None:
    file = listed(described([{name: value} for value in values], group_rows=group_rows))

    for value in values:
        literal = UUID(bytes=value) if name == "key" else value
        assert some_may_match(file, EqualTo(name, literal)), literal
        assert not all_match(file, NotEqualTo(name, literal)), literal


def test_a_time_that_python_cannot_hold_is_described_without_bounds() -> None:
    far = pa.array([0, 253_402_300_800_000_000]).cast(pa.timestamp("us"))
    rows = pa.table({"moment": far})
    footer = footer_of(rows, group_rows=1)
    schema = Schema(NestedField(9, "moment", TimestampType()))
    written = Written("x", (), 2, 100, footer, {})
    file = Describer(schema, PartitionSpec(), {}).described("file:///x.parquet", written)

    assert [[9, None, None, 2, 0]] == [
        [each[0], each[4], each[5], each[2], each[3]] for each in json.loads(file.detail)["columns"]
    ]


def test_sizes_and_splits_are_those_of_pyiceberg() -> None:
    rows = [{"id": number, "name": str(number), "points": [1.0]} for number in range(10)]
    table = pa.Table.from_pylist(rows, schema=file_schema(SCHEMA))
    footer = footer_of(table, group_rows=3)
    theirs = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(SCHEMA, {}), parquet_path_to_id_mapping(SCHEMA)
    )
    ours = listed(described(rows, group_rows=3))

    assert theirs.column_sizes == ours.column_sizes
    assert theirs.value_counts == ours.value_counts
    assert theirs.null_value_counts == ours.null_value_counts
    assert theirs.split_offsets == ours.split_offsets
