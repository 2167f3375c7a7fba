"""What a file's description promises of its rows is what Iceberg's evaluators take from it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import BooleanExpression, GreaterThan, IsNaN, LessThan, NotNaN
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

from penstock.connectors.iceberg.descriptions import Describer, data_file
from penstock.connectors.iceberg.schemas import file_schema
from penstock.core.commits import DataFile
from penstock.files import Written
from penstock.files.nans import floats_in, nans_of

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "at", StructType(NestedField(5, "height", DoubleType()))),
    NestedField(6, "points", ListType(7, DoubleType())),
)


def described(
    rows: Sequence[Mapping[str, Any]], properties: Mapping[str, str] | None = None
) -> DataFile:
    table = pa.Table.from_pylist(list(rows), schema=file_schema(SCHEMA))
    footers: list[pq.FileMetaData] = []
    with io.BytesIO() as stream:
        pq.write_table(table, stream, metadata_collector=footers)
        size_bytes = stream.tell()
    nans = {each.path: nans_of(each, table) for each in floats_in(table.schema)}
    written = Written("x", (), table.num_rows, size_bytes, footers[0], nans)
    describer = Describer(SCHEMA, PartitionSpec(), properties or {})
    return describer.described("file:///x.parquet", written)


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
    assert {2: 1, 5: 0} == file.nan_value_counts


def test_a_file_without_nan_matches_as_a_whole_and_is_left_out_by_bounds() -> None:
    file = listed(described([{"amount": 1.0}, {"amount": 2.0}]))

    assert all_match(file, LessThan("amount", 10.0))
    assert all_match(file, NotNaN("amount"))
    assert not some_may_match(file, GreaterThan("amount", 10.0))
    assert not some_may_match(file, IsNaN("amount"))


def test_nan_in_structs_are_counted() -> None:
    file = listed(described([{"at": {"height": 1.0}}, {"at": {"height": nan}}, {"at": None}]))

    assert {2: 0, 5: 1} == file.nan_value_counts


def test_floats_in_lists_have_no_bounds_for_their_nan_are_not_counted() -> None:
    file = listed(described([{"id": 1, "points": [1.0, nan, 3.0]}]))

    assert {1: 1, 7: 3} == {number: file.value_counts[number] for number in (1, 7)}
    assert [1] == sorted(file.lower_bounds)
    assert [1] == sorted(file.upper_bounds)


def test_a_description_that_counts_no_nan_gives_floats_no_bounds() -> None:
    """Such stand in the pending stores of earlier versions."""
    file = described([{"id": 7, "amount": 1.0}])
    detail = json.loads(file.detail)
    del detail["nans"]
    earlier = listed(replace(file, detail=json.dumps(detail)))

    assert not all_match(earlier, LessThan("amount", 10.0))
    assert [1] == sorted(earlier.lower_bounds)


@pytest.mark.parametrize(("mode", "expected"), [("none", {}), ("counts", {2: 1, 5: 0})])
def test_nan_are_told_where_the_table_wants_counts(mode: str, expected: dict[int, int]) -> None:
    file = listed(described(MIXED, {"write.metadata.metrics.default": mode}))

    assert expected == file.nan_value_counts


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
def test_a_text_that_cannot_be_counted_up_has_a_bound_above_it_or_none(last: str) -> None:
    text = "a" * 15 + last + "zz"
    file = listed(described([{"name": text}]))

    assert some_may_match(file, GreaterThan("name", "a" * 15))
    assert 3 not in file.upper_bounds or text.encode() < file.upper_bounds[3]
