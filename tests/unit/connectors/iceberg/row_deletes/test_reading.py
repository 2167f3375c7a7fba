"""Places of rows, and bounds as Arrow gives values to Python."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg import types as iceberg
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from tests.unit.connectors.iceberg.row_deletes.test_live_rows import DELETES, file

from penstock.connectors.iceberg.files.manifest_entries import about
from penstock.connectors.iceberg.row_deletes.delete_files import (
    PATH_ID,
    DeleteFileReader,
    DeleteFileWriter,
    only_path_of,
)
from penstock.connectors.iceberg.row_deletes.reading import Bounds
from penstock.core.errors import InvalidError
from penstock.files import FileOptions

KINDS = [
    (iceberg.IntegerType(), -3, -3),
    (iceberg.LongType(), 2**40, 2**40),
    (iceberg.StringType(), "Ulm", "Ulm"),
    (iceberg.DecimalType(9, 2), Decimal("1.50"), Decimal("1.50")),
    (iceberg.DateType(), 1, date(1970, 1, 2)),
    (
        iceberg.TimestampType(),
        1_000_001,
        datetime(1970, 1, 1, 0, 0, 1, 1, UTC).replace(tzinfo=None),
    ),
    (iceberg.TimestamptzType(), 1_000_001, datetime(1970, 1, 1, 0, 0, 1, 1, UTC)),
]


def bounds(kind, raw):
    schema = Schema(iceberg.NestedField(7, "it", kind))
    return Bounds(DataFile.from_args(lower_bounds={7: raw}, upper_bounds={7: raw}), schema)


@pytest.mark.parametrize(("kind", "stored", "expected"), KINDS)
def test_bounds_are_values_of_python(kind, stored, expected):
    found = bounds(kind, to_bytes(kind, stored))

    assert {"it": (expected, expected)} == dict(found)
    assert (1, True, False) == (len(found), "it" in found, "other" in found)


def test_a_bound_of_before_a_widening_is_read_and_one_that_is_none_left_out():
    narrow = to_bytes(iceberg.IntegerType(), 5)

    assert (5, 5) == bounds(iceberg.LongType(), narrow)["it"]
    assert {} == dict(bounds(iceberg.DoubleType(), to_bytes(iceberg.DoubleType(), 5.0)))
    assert {} == dict(bounds(iceberg.StringType(), b"\xff"))
    assert {} == dict(Bounds(file("a"), Schema(iceberg.NestedField(7, "it", iceberg.LongType()))))


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (iceberg.DateType(), 10_000_000),
        (iceberg.DateType(), -(2**31)),
        (iceberg.TimestampType(), 2**62),
        (iceberg.TimestamptzType(), -(2**62)),
    ],
    ids=str,
)
def test_a_bound_that_python_has_no_date_for_is_left_out(kind, stored):
    found = bounds(kind, to_bytes(kind, stored))

    assert ({}, 0, None) == (dict(found), len(found), found.get("it"))


@pytest.fixture
def writer(tmp_path):
    io = PyArrowFileIO()
    places = load_location_provider(f"file://{tmp_path}/a b%20ü", {})
    return DeleteFileWriter(io, places, "shop-c1-a1", FileOptions())


def test_a_delete_file_is_read_as_it_was_written(writer):
    deletes = {
        path: np.array(positions, np.int64)
        for path, positions in {"file:///ü b/2": [0, 2**33], "file:///ü b/1": [5]}.items()
    }
    like = file("file:///ü b/2", partition=("x", None), spec=3)
    written = writer.write(deletes, like)
    found = DeleteFileReader("t").deletes_in(written, writer.io)

    assert {path: each.tolist() for path, each in deletes.items()} == {
        path: each.tolist() for path, each in found.items()
    }
    assert (3, like.partition, 3) == (written.spec_id, written.partition, written.record_count)
    assert None is only_path_of(written)
    assert "file:///ü b/1".encode() == written.lower_bounds[PATH_ID]
    with writer.io.new_input(written.file_path).open() as stream:
        rows = pq.read_table(stream)
    assert ["file:///ü b/1", "file:///ü b/2", "file:///ü b/2"] == rows["file_path"].to_pylist()
    assert [5, 0, 2**33] == rows["pos"].to_pylist()


def test_a_long_path_is_reported_whole(writer):
    path = "file:///" + "ü" * 2000
    written = writer.write({path: np.array([1], np.int64)}, file(path))

    assert path.encode() == written.lower_bounds[PATH_ID] == written.upper_bounds[PATH_ID]
    assert path == only_path_of(written)


def test_the_field_or_equal_bounds_name_the_file_that_deletes_are_about():
    assert "a" == only_path_of(about(file("d", DELETES, bounds=["b"]), "a"))
    assert "b" == only_path_of(file("d", DELETES, bounds=["b"]))
    assert None is only_path_of(file("d", DELETES, bounds=["a", "b"]))
    assert None is only_path_of(file("d", DELETES))


def test_deletes_that_others_left_unsorted_or_twice_are_put_in_order(tmp_path):
    rows = pa.table({"file_path": ["b", "a", "b", "a"], "pos": pa.array([4, 1, 2, 1], pa.int32())})
    pq.write_table(rows, tmp_path / "d")
    found = DeleteFileReader("t").deletes_in(file(f"file://{tmp_path}/d", DELETES), PyArrowFileIO())

    assert {"a": [1], "b": [2, 4]} == {path: each.tolist() for path, each in found.items()}


def test_deletes_that_spark_leaves_in_tables_of_orc_are_read(tmp_path):
    rows = pa.table({"file_path": ["b", "a", "b"], "pos": pa.array([4, 1, 2], pa.int64())})
    orc.write_table(rows, f"{tmp_path}/d")
    given = {"file_path": f"file://{tmp_path}/d", "content": DELETES}
    other = DataFile.from_args(file_format=FileFormat.ORC, **given)
    found = DeleteFileReader("t").deletes_in(other, PyArrowFileIO())

    assert {"a": [1], "b": [2, 4]} == {path: each.tolist() for path, each in found.items()}


def test_deletes_of_another_format_are_refused_by_name():
    other = DataFile.from_args(file_path="d", file_format=FileFormat.AVRO)
    with pytest.raises(InvalidError, match="position deletes in a file of the format AVRO"):
        DeleteFileReader("t").deletes_in(other, PyArrowFileIO())
