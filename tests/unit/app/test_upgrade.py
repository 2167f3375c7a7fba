"""`penstock upgrade-check`: what executors are given, and stores of every age."""

import io
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from penstock.app.doctor.upgrade import executors
from penstock.connectors.sql import open_sqlite, open_sqlite_as_found
from penstock.engines.spark.versions import ABSENT, versions_here
from penstock.ports.checks import CheckStatus
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.store import take

CLUSTER = "spark://master:7077"


def pack(path: Path, **other: str) -> Path:
    """Pack an environment with the versions of this one, but for some."""
    versions = {**versions_here(), **other}
    libraries = f"lib/python{versions.pop('python')}/site-packages"
    with tarfile.open(path, "w:gz") as packed:
        for name, version in versions.items():
            if version != ABSENT:
                folder = f"{libraries}/{name.replace('-', '_')}-{version}.dist-info"
                packed.addfile(tarfile.TarInfo(f"{folder}/METADATA"), io.BytesIO())
    return path


def of(archive: Path | str) -> tuple[CheckStatus, str]:
    (found,) = executors(CLUSTER, {"spark.archives": f"{archive}#environment"})
    return found.status, found.message


def test_an_archive_with_the_versions_that_are_here_need_not_be_packed_again(
    tmp_path: Path,
) -> None:
    assert CheckStatus.OK is of(pack(tmp_path / "e.tar.gz"))[0]


def test_an_extra_that_executors_do_not_have_is_no_difference(tmp_path: Path) -> None:
    assert ABSENT != versions_here()["protobuf"]
    assert CheckStatus.OK is of(pack(tmp_path / "e.tar.gz", protobuf=ABSENT))[0]


def test_an_archive_of_an_older_release_is_to_be_packed_again(tmp_path: Path) -> None:
    status, text = of(pack(tmp_path / "e.tar.gz", penstock="0.0.9", pyarrow="25.0.0"))

    assert CheckStatus.WARNING is status
    assert "penstock" in text
    assert "0.0.9 there; pyarrow" in text


@pytest.mark.parametrize("name", ["s3://shop/e.tar.gz", "/nowhere/e.tar.gz"])
def test_what_is_not_on_this_machine_is_not_known(name: str) -> None:
    assert CheckStatus.UNKNOWN is of(name)[0]


def test_a_file_that_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / "e.tar.gz").write_bytes(b"no archive")
    status, text = of(tmp_path / "e.tar.gz")

    assert CheckStatus.UNKNOWN is status
    assert "cannot be read" in text


def test_executors_of_a_local_master_have_what_the_driver_has() -> None:
    assert [] == [*executors("local[2]", {})]
    assert [CLUSTER] == [each.subject for each in executors(CLUSTER, {})]


def test_a_store_that_is_looked_at_gets_none_of_the_later_tables(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    address = f"sqlite:///{path}"
    with closing(open_sqlite(address, ProcessSecrets())) as store:
        held = take(store)
    with closing(sqlite3.connect(path)) as older, older:
        older.execute("DROP TABLE servers")
    before = path.read_bytes()
    found = open_sqlite_as_found(address, ProcessSecrets())
    with closing(found.store) as looked:
        there = looked.holding("shop")
        assert not looked.pending("shop")

    assert there is not None
    assert held == there.claim
    assert ("servers",) == found.adds
    assert before == path.read_bytes()
    with closing(open_sqlite(address, ProcessSecrets())) as store:
        take(store, "b")
    assert () == open_sqlite_as_found(address, ProcessSecrets()).adds


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = open_sqlite_as_found(f"sqlite:///{tmp_path}/state/shop.db", ProcessSecrets())

    assert () == found.adds
    assert [] == [*tmp_path.iterdir()]
