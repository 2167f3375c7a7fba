"""Properties of Iceberg tables that no writer of ours can honour."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.iceberg.schema.features import require_properties
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
