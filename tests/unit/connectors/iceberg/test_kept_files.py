"""Metadata files that are kept: those whose names are used once, as many bytes as there is room."""

import pytest

from penstock.connectors.iceberg.io.kept_files import KeptFiles

NAMES = [f"s3://lake/t/metadata/0a1b2c3d-0000-4000-8000-00000000000{n}-m0.avro" for n in range(3)]


def test_of_too_many_bytes_the_files_asked_for_last_are_kept():
    kept = KeptFiles(bytes_max=8)
    for name in NAMES[:2]:
        kept.keep("", name, b"four")
    kept.get("", NAMES[0])
    kept.keep("", NAMES[2], b"more")

    assert [b"four", None, b"more"] == [kept.get("", name) for name in NAMES]


def test_a_file_that_is_larger_than_all_room_is_not_kept():
    kept = KeptFiles(bytes_max=3)
    kept.keep("", NAMES[0], b"four")

    assert kept.get("", NAMES[0]) is None


@pytest.mark.parametrize("table", ["t", "t-0a1b2c3d-0000-4000-8000-000000000000"])
def test_a_name_that_may_be_used_again_is_not_kept(table):
    kept, location = KeptFiles(), f"s3://lake/{table}/metadata/v1.metadata.json"
    kept.keep("", location, b"{}")

    assert kept.get("", location) is None


def test_a_file_is_known_of_its_own_storage_alone():
    kept = KeptFiles()
    kept.keep("http://here", NAMES[0], b"a")

    assert (b"a", None) == (kept.get("http://here", NAMES[0]), kept.get("http://there", NAMES[0]))
