"""Which storage a file of an Iceberg table lies in, and under which path."""

import pytest

from penstock.connectors.iceberg.io.arrow_file_io import ArrowIO, parsed, storage_of

HOST = "lake@one.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://lake/a/b", ("s3", "lake", "lake/a/b")),
        ("gs://lake/a/b", ("gs", "lake", "lake/a/b")),
        ("abfss://lake/a/b", ("abfss", "lake", "lake/a/b")),
        (f"abfss://{HOST}/a/b", ("abfss", HOST, "lake/a/b")),
        (f"abfs://{HOST}/a@b", ("abfs", HOST, "lake/a@b")),
        ("s3://lake@x/a", ("s3", "lake@x", "lake@x/a")),
        ("file:///lake/a@b", ("file", "", "/lake/a@b")),
    ],
)
def test_a_path_begins_with_the_container(location: str, expected: tuple[str, str, str]) -> None:
    assert expected == parsed(location) == ArrowIO.parse_location(location)


def test_files_of_two_accounts_are_in_two_storages_whatever_the_settings_say() -> None:
    io = ArrowIO({"adls.account-name": "other", "adls.account-key": "a2V5"})
    one, path = storage_of(io, f"abfss://{HOST}/a")
    two, _ = storage_of(io, "abfss://lake@two.dfs.core.windows.net/a")
    again, _ = storage_of(io, f"abfss://{HOST}/b")

    assert "lake/a" == path
    assert one is again
    assert one != two
