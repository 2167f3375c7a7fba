"""Descriptors and files of deletion vectors, as the log and the storage hold them."""

import json
import struct
import zlib
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.connectors.delta.vectors.descriptor import Vector, id_of, packed, unpacked, vector_of
from penstock.connectors.delta.vectors.store import read_vector, write_vectors
from penstock.core.errors import InvalidError
from penstock.files import deletion_vectors
from penstock.files.deletion_vectors import encoded

FEW = np.array([3, 4, 7, 11, 18, 29], np.int64)
MANY = np.arange(0, 3_000_000, 3)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "orders").mkdir()
    return StorageRoot(str(tmp_path))


@given(st.binary(max_size=50))
def test_bytes_come_back_from_text_with_zeros_up_to_the_next_four(data):
    text = packed(data)

    assert data + bytes(-len(data) % 4) == unpacked(text)
    assert len(text) == -(-len(data) // 4) * 5


def test_text_is_that_of_both_specifications():
    assert "HelloWorld" == packed(bytes.fromhex("864FD26FB559F75B"))  # ZeroMQ RFC 32
    held = unpacked("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")  # Delta's protocol

    assert encoded(FEW)[16:] == held[12:]


def test_text_that_is_not_of_85_characters_is_refused():
    for text in ("abcd", "ab cd", "#####", "äbcde"):
        with pytest.raises(ValueError):  # noqa: PT011 - either of two sentences
            unpacked(text)


def test_the_vectors_of_a_commit_share_a_file_however_small_they_are(root, tmp_path):
    held = {"a": FEW, "b": MANY, "c": np.arange(0, 90_000, 7), "d": FEW + (1 << 40)}
    vectors = write_vectors(root, "orders", held)
    [file] = (tmp_path / "orders").iterdir()

    assert {("u", file.name)} == {(each.storage, each.name) for each in vectors.values()}
    assert 4 == len({each.offset for each in vectors.values()} - {None})
    for key, rows in held.items():
        assert rows.tolist() == read_vector(root, "orders", vectors[key]).tolist()
        assert len(rows) == vectors[key].cardinality


def test_vectors_in_the_log_are_read(root, tmp_path):
    """Other writers may put them there, and 0.1.0 did before it was released."""
    for rows in (FEW, MANY[:500], np.arange(7)):
        data = encoded(rows)
        vector = Vector("i", packed(data), len(data), len(rows))
        assert rows.tolist() == read_vector(root, "orders", vector).tolist()


def test_vectors_that_were_written_or_read_are_not_asked_for_again(root, tmp_path):
    writer, reader = DeletedRows(root, "orders"), DeletedRows(root, "orders")
    vector = write_vectors(root, "orders", {"a": FEW})["a"]
    add = {"path": "a", "deletionVector": vector.to_json()}
    writer.keep(vector, FEW)
    assert FEW.tolist() == reader.of(add).tolist()
    [file] = (tmp_path / "orders").iterdir()
    file.unlink()

    assert FEW.tolist() == reader.of(add).tolist() == writer.of(add).tolist()
    with pytest.raises(FileNotFoundError):
        read_vector(root, "orders", vector)


def test_a_file_is_a_version_and_framed_vectors(root, tmp_path):
    vectors = write_vectors(
        root, "orders", {"a": MANY, "b": MANY + 1}, new_uuid=lambda: UUID(int=7)
    )
    body = b"\x01"
    for rows in (MANY, MANY + 1):
        data = encoded(rows)
        body += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))

    name = "deletion_vector_00000000-0000-0000-0000-000000000007.bin"
    assert body == (tmp_path / "orders" / name).read_bytes()
    assert 1 == vectors["a"].offset
    assert f"u{packed(UUID(int=7).bytes)}@1" == vectors["a"].unique_id


def test_a_full_file_takes_no_more_vectors(root, tmp_path, monkeypatch):
    monkeypatch.setattr(deletion_vectors, "FILE_BYTES_MAX", 500_000)
    vectors = write_vectors(root, "orders", {key: MANY + at for at, key in enumerate("abc")})

    assert vectors["a"].name == vectors["b"].name != vectors["c"].name
    assert 2 == len([*(tmp_path / "orders").iterdir()])
    assert (MANY + 2).tolist() == read_vector(root, "orders", vectors["c"]).tolist()


def test_vectors_below_a_prefix_and_at_absolute_places_are_read(root, tmp_path):
    written = write_vectors(root, "orders", {"a": MANY})["a"]
    file = tmp_path / "orders" / written.name
    place = tmp_path / "orders" / "aB" / file.name
    place.parent.mkdir()
    place.write_bytes(file.read_bytes())
    odd = tmp_path / "ein ö%.bin"
    odd.write_bytes(file.read_bytes())
    file.unlink()
    size, count = written.size_bytes, written.cardinality
    below = Vector("u", f"aB{written.text}", size, count, 1)
    absolute = Vector("p", f"file://{tmp_path}/ein%20%C3%B6%25.bin", size, count, 1)

    for vector in (below, absolute):
        assert MANY.tolist() == read_vector(root, "orders", vector).tolist()
    with pytest.raises(InvalidError, match="another storage"):
        read_vector(root, "orders", Vector("p", "s3://bucket/a.bin", size, count, 1))


def test_a_vector_that_is_not_the_one_described_is_refused(root, tmp_path):
    vector = write_vectors(root, "orders", {"a": MANY})["a"]
    file = tmp_path / "orders" / vector.name
    whole = file.read_bytes()
    size, count = vector.size_bytes, vector.cardinality
    for other in (
        Vector("u", vector.text, size, count + 1, 1),
        Vector("u", vector.text, size - 1, count, 1),
        Vector("u", vector.text, size, count, 2),
        Vector("u", vector.text, size, count, len(whole)),
        Vector("i", packed(encoded(FEW)), 99, len(FEW)),
    ):
        with pytest.raises(ValueError, match="vector"):
            read_vector(root, "orders", other)
    file.write_bytes(whole[:500] + b"?" + whole[501:])
    with pytest.raises(ValueError, match="checksum"):
        read_vector(root, "orders", vector)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        read_vector(root, "orders", vector)


def test_a_descriptor_is_read_as_entries_and_checkpoints_have_it():
    descriptor = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    descriptor |= {"sizeInBytes": 40, "cardinality": 6}
    vector = vector_of({"path": "a", "deletionVector": descriptor})

    assert "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin" == vector.name
    assert descriptor == json.loads(json.dumps(vector.to_json()))
    assert "uab^-aqEH.-t@S}K{vb[*k^@4" == id_of({"deletionVector": descriptor})
    for nothing in ({}, {"deletionVector": None}, {"deletionVector": {"storageType": None}}):
        assert vector_of(nothing) is None
    for odd in ({"storageType": "x"}, {"cardinality": None}, {"sizeInBytes": [4]}):
        with pytest.raises(ValueError, match="deletion vector"):
            vector_of({"path": "a", "deletionVector": {**descriptor, **odd}})
