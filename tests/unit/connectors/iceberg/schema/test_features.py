"""Properties of Iceberg tables that no writer of ours can honour."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import (
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzNanoType,
    UnknownType,
)

from penstock.connectors.iceberg.schema.features import require_honourable, require_properties
from penstock.core.errors import InvalidError

CODEC, LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
GROUP, FILE = "write.parquet.row-group-size-bytes", "write.target-file-size-bytes"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({CODEC: "gzip", LEVEL: "10"}, f"{LEVEL}=10, .* between -1 and 9"),
        ({CODEC: "GZIP", LEVEL: "-2"}, f"{LEVEL}=-2"),
        ({LEVEL: "best"}, f"{LEVEL}=best, .* not a whole number"),
        ({LEVEL: str(1 << 31)}, f"{LEVEL}=2147483648"),
        ({GROUP: "-1"}, f"{GROUP}=-1"),
        ({FILE: "512 MB"}, f"{FILE}=512 MB, .* not a whole number"),
        ({"write.format.default": "avro"}, "write.format.default=avro, .*: Parquet and ORC"),
        ({"write.orc.compression-codec": "lzo"}, "compression-codec=lzo, .*: known are lz4, none"),
        ({"write.orc.stripe-size-bytes": "0"}, "stripe-size-bytes=0, .* must lie between 1 and"),
        ({"write.orc.bloom.filter.columns": "id"}, "write.orc.bloom.filter.columns"),
    ],
)
def test_a_number_that_no_writer_takes_is_refused_before_anything_is_read(
    properties: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidError, match=said) as raised:
        require_properties(properties, "lake.b.orders")
    assert "P436" == raised.value.code


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        ("gzip", -1),
        ("gzip", 9),
        ("zstd", -5),
        ("zstd", (1 << 31) - 1),
        ("brotli", 22),
        ("brotli", -(1 << 31)),
    ],
)
def test_a_level_that_passes_is_one_that_files_are_written_with(codec: str, level: int) -> None:
    require_properties({CODEC: codec, LEVEL: str(level)}, "lake.b.orders")

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1, 2]}), sink, compression=codec, compression_level=level)
    assert [1, 2] == pq.read_table(pa.BufferReader(sink.getvalue()))["n"].to_pylist()


def test_sizes_of_a_table_pass() -> None:
    require_properties({GROUP: "134217728", FILE: "0", LEVEL: "3"}, "lake.b.orders")
    orc = {"write.format.default": "ORC", "write.orc.compression-codec": "ZSTD"}
    require_properties({**orc, "write.orc.stripe-size-bytes": "1"}, "lake.b.orders")


def metadata_of(*columns: NestedField) -> TableMetadata:
    properties = {"format-version": "3"}
    layout = UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
    made = new_table_metadata(Schema(*columns), *layout, "file:///orders", properties)
    made.schemas[:] = [Schema(*columns, schema_id=made.current_schema_id)]  # PyIceberg drops them
    return made


def test_a_default_for_files_that_lack_the_column_is_left_to_readers() -> None:
    column = NestedField(1, "city", StringType(), required=False, initial_default="Ulm")

    require_honourable(metadata_of(column), "lake.b.orders", "main")


def test_a_column_that_readers_take_for_row_ids_is_refused_where_rows_have_some() -> None:
    column = NestedField(1, "_row_id", LongType(), required=False)
    metadata = metadata_of(column)

    with pytest.raises(InvalidError, match="a column named _row_id in format-version 3") as raised:
        require_honourable(metadata, "lake.b.orders", "main")
    assert "P436" == raised.value.code


@pytest.mark.parametrize(
    ("kind", "transform", "said"),
    [
        (TimestamptzNanoType(), IdentityTransform(), "a partition of at by its values"),
        (UnknownType(), IdentityTransform(), "a partition of at, .*: its type is not known yet"),
    ],
)
def test_a_partition_that_readers_find_no_values_of_is_refused(
    kind: PrimitiveType, transform: Any, said: str
) -> None:
    columns = (NestedField(1, "id", LongType()), NestedField(2, "at", kind))
    spec = PartitionSpec(PartitionField(2, 1000, transform, "at"))
    metadata = of_version_3(Schema(*columns), spec)

    with pytest.raises(InvalidError, match=said) as raised:
        require_honourable(metadata, "lake.b.orders", "main")
    assert "P436" == raised.value.code


def test_a_table_of_columns_without_a_type_alone_is_refused() -> None:
    metadata = of_version_3(Schema(NestedField(1, "a", UnknownType())), PartitionSpec())

    with pytest.raises(InvalidError, match="columns of the type unknown alone"):
        require_honourable(metadata, "lake.b.orders", "main")


def of_version_3(schema: Schema, spec: PartitionSpec) -> TableMetadata:
    return new_table_metadata(
        schema, spec, UNSORTED_SORT_ORDER, "file:///t", {"format-version": "3"}
    )
