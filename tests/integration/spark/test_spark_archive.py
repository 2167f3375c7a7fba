"""Java's class archive: made once, by `penstock prepare` or the first run, and used by every start."""

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from penstock.core.errors import InvalidError
from penstock.engines.java import find_java
from penstock.engines.spark import class_archive
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import sharing


@pytest.fixture(scope="module")
def kept() -> Path:
    """The archive of this environment, made when nobody has made it yet."""
    java = find_java(os.environ)
    path = class_archive.archive_for(java, os.environ)
    return path if path.exists() else class_archive.make_archive(os.environ)


def test_java_maps_the_archive_that_was_prepared(kept: Path, engine: SparkEngine) -> None:
    assert engine._own is not None
    maps = Path(f"/proc/{engine._own.process.pid}/maps").read_text()

    assert str(kept) in maps


def test_an_environment_that_cannot_be_written_is_reported_before_spark_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "var").write_text("a file where the folder should be")

    with pytest.raises(InvalidError) as raised:
        class_archive.make_archive(os.environ, tmp_path / "var" / "penstock")

    assert "P614" == raised.value.code


def test_the_background_makes_it_once_and_removes_those_it_replaces(tmp_path: Path) -> None:
    former = tmp_path / "java-17.0.1-spark-3.5.0-0123456789ab.jsa"
    former.write_bytes(b"of a Spark that was here before")

    path = class_archive.make_in_background({}, os.environ, tmp_path)
    assert path is not None
    while not path.exists() or [path] != list(tmp_path.iterdir()):
        time.sleep(0.2)

    assert None is class_archive.make_in_background({}, os.environ, tmp_path)
    assert path.stat().st_size > 10_000_000


def test_a_file_that_is_no_archive_is_passed_over_without_a_word(tmp_path: Path) -> None:
    other = tmp_path / "other.jsa"
    other.write_bytes(b"not an archive" * 1000)
    java = find_java(os.environ)

    done = subprocess.run(
        [java.path, *shlex.split(sharing(other)), "-version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert java.version in done.stderr
    assert "other.jsa" not in done.stdout + done.stderr
