"""What a reader gets wrong by itself: files and metadata are right, and cannot be written otherwise.

Each test says what the reader does today, so that it fails when the reader does right. Then its
filter comes back into the law (readers.py), and its line out of docs/design/0232. What Spark gets
wrong by itself is in tests/integration/readers/test_filters_of_spark.py.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake.exceptions import DeltaError
from pyiceberg.expressions import (
    EqualTo,
    In,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
)
from pyiceberg.expressions.visitors import _StrictMetricsEvaluator
from tests.integration.readers.lakes import Lakes

from penstock.core.schema import Decimal, Field, Kind, Struct, Type
from penstock.ports.tables import TableDefinition


def landed(  # noqa: PLR0917
    place: Path,
    table: str,
    type_: Type,
    values: Sequence[Any],
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Lakes:
    """Land a value a row, under the ids 0, 1, …, in one commit."""
    lakes = Lakes(place)
    schema = Struct((Field("id", Kind.LONG), Field("c", type_)))
    lakes.create(table, TableDefinition(schema, tuple(partition_by), properties or {}))
    lakes.landed(table, [{"id": at, "c": value} for at, value in enumerate(values)])
    return lakes


def by_pyiceberg(lakes: Lakes, asked: Any) -> list[int]:
    found = lakes.known("lake.shop.t").scan(row_filter=asked).to_arrow()
    return sorted(found["id"].to_pylist())


# PyIceberg 0.12.


def test_pyiceberg_takes_infinity_for_none_of_the_32_bit_floats(tmp_path: Path) -> None:
    lakes = landed(tmp_path, "lake.shop.t", Kind.FLOAT, [math.inf, 1.0, None])

    assert [] == by_pyiceberg(lakes, EqualTo("c", math.inf))
    assert [0, 1, 2] == by_pyiceberg(lakes, NotEqualTo("c", math.inf))


def test_pyiceberg_compares_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NaN"):
        EqualTo("c", math.nan)


def test_pyiceberg_compares_no_uuids(tmp_path: Path) -> None:
    lakes = landed(tmp_path, "lake.shop.t", Kind.UUID, [b"u" * 16])

    with pytest.raises(pa.ArrowNotImplementedError):
        by_pyiceberg(lakes, EqualTo("c", uuid.UUID(bytes=b"u" * 16)))


def test_pyiceberg_reads_partition_values_that_are_doubles_as_32_bits(tmp_path: Path) -> None:
    lakes = landed(tmp_path, "lake.shop.t", Kind.DOUBLE, [0.1, 0.5], ["c"])

    assert [] == by_pyiceberg(lakes, EqualTo("c", 0.1))
    assert [1] == by_pyiceberg(lakes, EqualTo("c", 0.5))


def test_pyiceberg_finds_null_to_differ_where_files_are_older_than_a_column(tmp_path: Path) -> None:
    lakes = landed(tmp_path, "lake.shop.t", Kind.LONG, [None])
    before = lakes.state("lake.shop.t")
    wide = Struct((*before.schema.fields, Field("later", Kind.LONG)))
    lakes.table("lake.shop.t").evolve(before, wide)

    assert [] == by_pyiceberg(lakes, NotEqualTo("c", 1))
    assert [0] == by_pyiceberg(lakes, NotEqualTo("later", 1))


def test_pyiceberg_compares_no_decimal_that_files_of_before_a_widening_cannot_hold(
    tmp_path: Path,
) -> None:
    """It raises; nothing is missed in silence."""
    lakes = landed(tmp_path, "lake.shop.t", Decimal(9, 2), [Exact("1.00")])
    wide = Struct((Field("id", Kind.LONG), Field("c", Decimal(38, 2))))
    lakes.table("lake.shop.t").evolve(lakes.state("lake.shop.t"), wide)

    assert [0] == by_pyiceberg(lakes, LessThan("c", Exact("9.00")))
    with pytest.raises(pa.ArrowInvalid, match="does not fit into precision"):
        by_pyiceberg(lakes, LessThan("c", Exact("9999999999.00")))


@pytest.mark.parametrize("transform", ["year", "month"])
def test_pyiceberg_knows_no_day_outside_the_first_and_last(tmp_path: Path, transform: str) -> None:
    """It reads the one before, or after; nothing is missed silently."""
    lakes = landed(tmp_path, "lake.shop.t", Kind.DATE, [date(1, 1, 1)], [f"{transform}(c)"])

    with pytest.raises(OverflowError):
        by_pyiceberg(lakes, LessThan("c", date(1, 1, 1)))
    with pytest.raises(OverflowError):
        by_pyiceberg(lakes, LessThanOrEqual("c", date.max))


def test_pyiceberg_takes_a_file_of_nulls_for_one_in_which_all_differ(tmp_path: Path) -> None:
    """So a delete takes it away, but leaves nulls next to other values."""
    lakes = landed(tmp_path, "lake.shop.t", Kind.LONG, [None])
    known = lakes.known("lake.shop.t")
    (task,) = known.scan().plan_files()

    assert _StrictMetricsEvaluator(known.schema(), NotEqualTo("c", 1)).eval(task.file)
    assert [] == by_pyiceberg(lakes, NotEqualTo("c", 1))


# Arrow 26 and DataFusion, in deltalake 1.6.


def test_members_of_a_list_of_values_find_no_zero_of_the_other_sign(tmp_path: Path) -> None:
    lakes = landed(tmp_path / "i", "lake.shop.t", Kind.DOUBLE, [0.0, -0.0, 1.0])
    assert [0, 2] == by_pyiceberg(lakes, In("c", [0.0, 1.0]))

    lakes = landed(tmp_path / "d", "delta.shop.t", Kind.DOUBLE, [0.0, -0.0, 1.0])
    found = lakes.handle("delta.shop.t").scan(columns=["id"], predicate="c IN (0, 1, 2, 3, 4)")
    assert [0, 2] == sorted(pa.table(found)["id"].to_pylist())


def test_datafusion_distinguishes_nan_by_their_bits(tmp_path: Path) -> None:
    """Full scans as well: with the sign set it takes NaN for less than all numbers."""
    bits = (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001)
    nans = [struct.unpack("<d", struct.pack("<Q", each))[0] for each in bits]
    lakes = landed(tmp_path, "delta.shop.t", Kind.DOUBLE, [*nans, 1.0])
    handle = lakes.handle("delta.shop.t")

    def found(predicate: str) -> list[int]:
        rows = pa.table(handle.scan(columns=["id"], predicate=predicate))
        return sorted(rows["id"].to_pylist())

    assert [0, 2] == found("c > 5")
    assert [1] == found("c < -5")
    assert [0] == found("c = CAST('NaN' AS double)")
    assert [0, 1, 2] == found("isnan(c)")


def test_datafusion_misses_nan_in_files_that_deltalake_has_compacted(tmp_path: Path) -> None:
    """It takes NaN for the greatest number, and writes bounds that leave it out."""
    lakes = landed(tmp_path, "delta.shop.t", Kind.DOUBLE, [math.nan, 1.0])
    lakes.landed("delta.shop.t", [{"id": 2, "c": math.nan}])

    def found() -> list[int]:
        rows = lakes.handle("delta.shop.t").scan(columns=["id"], predicate="c > 5")
        return sorted(pa.table(rows)["id"].to_pylist())

    assert [0, 2] == found()
    lakes.handle("delta.shop.t").optimize.compact()
    assert [] == found()


def test_data_sets_of_deltalake_find_values_where_files_are_older_than_a_column(
    tmp_path: Path,
) -> None:
    """They take a missing bound for null: so `is null` misses rows, and its opposite finds them."""
    lakes = landed(tmp_path, "delta.shop.t", Kind.LONG, [1])
    before = lakes.state("delta.shop.t")
    wider = Struct((*before.schema.fields, Field("later", Kind.LONG)))
    lakes.table("delta.shop.t").evolve(before, wider)
    handle = lakes.handle("delta.shop.t")
    rows, later = handle.to_pyarrow_dataset(), pc.field("later")

    assert [0] == rows.to_table(filter=pc.field("c") == 1)["id"].to_pylist()
    assert [] == rows.to_table(filter=later.is_null())["id"].to_pylist()
    assert [0] == rows.to_table(filter=~later.is_null())["id"].to_pylist()
    assert [0] == pa.table(handle.scan(columns=["id"], predicate="later IS NULL"))["id"].to_pylist()


def test_data_sets_of_deltalake_miss_rows_where_a_column_was_indexed_later(tmp_path: Path) -> None:
    few = {"delta.dataSkippingNumIndexedCols": "1"}
    lakes = landed(tmp_path, "delta.shop.t", Kind.LONG, [1], properties=few)
    lakes.handle("delta.shop.t").alter.set_table_properties(
        {"delta.dataSkippingNumIndexedCols": "32"}
    )
    handle = lakes.handle("delta.shop.t")

    assert [] == handle.to_pyarrow_dataset().to_table(filter=pc.field("c") == 1)["id"].to_pylist()
    assert [0] == pa.table(handle.scan(columns=["id"], predicate="c = 1"))["id"].to_pylist()


def test_data_sets_of_deltalake_miss_long_decimals_that_it_has_compacted(tmp_path: Path) -> None:
    """It rounds the bounds that it writes to doubles; DataFusion in `scan` finds the rows."""
    most = Exact("9999999999999999999999999999.9999999990")
    lakes = landed(tmp_path, "delta.shop.t", Decimal(38, 10), [most])
    lakes.landed("delta.shop.t", [{"id": 1, "c": most}])
    lakes.handle("delta.shop.t").optimize.compact()
    rows = lakes.handle("delta.shop.t").to_pyarrow_dataset()

    assert [] == rows.to_table(filter=pc.field("c") == pa.scalar(most))["id"].to_pylist()


def test_data_sets_of_deltalake_compare_no_texts_where_it_deleted_neighbouring_rows(
    tmp_path: Path,
) -> None:
    """It writes them as views, and raises; nothing is missed in silence."""
    unbounded = {"delta.dataSkippingNumIndexedCols": "0"}
    lakes = landed(tmp_path, "delta.shop.t", Kind.STRING, ["a", "b", "c"], properties=unbounded)
    lakes.handle("delta.shop.t").delete("id = 2")
    rows = lakes.handle("delta.shop.t").to_pyarrow_dataset()

    with pytest.raises(pa.ArrowNotImplementedError, match="string_view"):
        rows.to_table(filter=pc.field("c") == "a")


def test_deltalake_deletes_nothing_from_partitions_of_small_negative_decimals(
    tmp_path: Path,
) -> None:
    values = [Exact("-0.0000000010")] * 2
    lakes = landed(tmp_path, "delta.shop.t", Decimal(38, 10), values, ["c"])

    with pytest.raises(DeltaError, match="Failed to parse"):
        lakes.handle("delta.shop.t").delete("id = 0")


def test_data_sets_of_deltalake_cannot_be_made_of_small_negative_decimals(tmp_path: Path) -> None:
    values = [Exact("-0.0000000010")]
    lakes = landed(tmp_path, "delta.shop.t", Decimal(38, 10), values, ["c"])

    with pytest.raises(pa.ArrowInvalid):
        lakes.handle("delta.shop.t").to_pyarrow_dataset()


def test_data_sets_of_deltalake_read_null_where_names_are_mapped(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    schema = Struct((Field("id", Kind.LONG),))
    mapped = {"delta.columnMapping.mode": "name"}
    lakes.create("delta.shop.t", TableDefinition(schema, properties=mapped))
    lakes.landed("delta.shop.t", [{"id": 1}])
    handle = lakes.handle("delta.shop.t")

    assert [{"id": None}] == handle.to_pyarrow_dataset().to_table().to_pylist()
    assert [{"id": 1}] == pa.table(handle.scan()).to_pylist()
