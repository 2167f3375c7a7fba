"""Deletion vectors in Puffin files: read by PyIceberg, which others wrote, and by us."""

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.puffin import PuffinFile
from tests.unit.connectors.iceberg.row_deletes.test_live_rows import file

from penstock.connectors.iceberg.files.manifest_entries import about, name_of, place_in
from penstock.connectors.iceberg.row_deletes.delete_files import DeleteFileReader
from penstock.connectors.iceberg.row_deletes.vectors import VectorWriter, read_vector
from penstock.files import deletion_vectors

IO = PyArrowFileIO({})
HELD = {
    "a": np.array([3, 4, 7, 1 << 33], np.int64),
    "Ö b%20.parquet": np.arange(0, 90_000, 7),
    "c": np.arange(70_000),
}


@pytest.fixture
def written(tmp_path):
    def write():
        writer = VectorWriter(IO, load_location_provider(str(tmp_path), {}), "shop-1")
        return writer.write([(file(path), rows) for path, rows in HELD.items()])

    return write


def test_vectors_come_back_from_one_file_that_pyiceberg_reads_as_well(written, tmp_path):
    vectors = written()
    [puffin] = tmp_path.rglob("*.puffin")
    theirs = {
        each.referenced_data_file: each.to_vector().to_pylist()
        for each in deletion_vectors_from_puffin_file(PuffinFile(puffin.read_bytes()))
    }

    assert {path: rows.tolist() for path, rows in HELD.items()} == theirs
    assert 3 == len({name_of(each) for each in vectors})
    for vector, (path, rows) in zip(vectors, HELD.items(), strict=True):
        [(named, found)] = read_vector(vector, IO).items()
        assert (path, rows.tolist()) == (named, found.tolist())
        assert (len(rows), puffin.stat().st_size) == (
            vector.record_count,
            vector.file_size_in_bytes,
        )


def test_a_full_file_takes_no_more_vectors(written, tmp_path, monkeypatch):
    monkeypatch.setattr(deletion_vectors, "FILE_BYTES_MAX", 1)

    assert 3 == len({each.file_path for each in written()})
    assert 3 == len([*tmp_path.rglob("*.puffin")])


def test_a_vector_that_is_not_the_one_its_entry_describes_is_not_read(written, tmp_path):
    [first, second, _] = written()
    start, size = place_in(first)
    counted = about(first, "a", (start, size))
    counted[4] = 9
    for wrong in (
        about(first, "a", (start + 1, size)),
        about(first, "a", (start, size - 1)),
        about(first, "a", (start, None)),
        about(first, None, (start, size)),
        counted,
    ):
        with pytest.raises(ValueError, match="vector"):
            read_vector(wrong, IO)
    [puffin] = tmp_path.rglob("*.puffin")
    data = bytearray(puffin.read_bytes())
    data[start + 20] ^= 1
    puffin.write_bytes(data)
    with pytest.raises(ValueError, match="checksum"):
        read_vector(first, IO)
    assert read_vector(second, IO)


def test_vectors_of_one_file_are_kept_apart(written, tmp_path):
    [first, second, _] = written()
    reader = DeleteFileReader("orders")
    assert [{"a"}, {"Ö b%20.parquet"}] == [{*reader.deletes_in(v, IO)} for v in (first, second)]
    [puffin] = tmp_path.rglob("*.puffin")
    puffin.unlink()

    assert [{"a"}, {"Ö b%20.parquet"}] == [{*reader.deletes_in(v, IO)} for v in (first, second)]
