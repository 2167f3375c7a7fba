"""`penstock prepare`: Java's class archive is made once and used by every start after it."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from penstock.core.errors import InvalidError
from penstock.engines.java import SPARK_JAVA_MAJORS, find_java
from penstock.engines.spark import archive
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import sharing


@pytest.fixture(scope="module")
def kept() -> Path:
    """The archive of this environment, made when nobody has made it yet."""
    path = archive.archive_for(find_java(SPARK_JAVA_MAJORS, environment=os.environ))
    return path if path.exists() else archive.make_archive(os.environ)


def test_java_maps_the_archive_that_was_prepared(kept: Path, engine: SparkEngine) -> None:
    assert engine._own is not None
    maps = Path(f"/proc/{engine._own.process.pid}/maps").read_text()

    assert str(kept) in maps


def test_an_environment_that_cannot_be_written_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "var").write_text("a file where the folder should be")
    path = tmp_path / "var" / "penstock" / "java.jsa"
    monkeypatch.setattr(archive, "archive_for", lambda _: path)

    with pytest.raises(InvalidError) as raised:
        archive.make_archive(os.environ)

    assert "P614" == raised.value.code


def test_a_file_that_is_no_archive_is_passed_over_without_a_word(tmp_path: Path) -> None:
    strange = tmp_path / "strange.jsa"
    strange.write_bytes(b"not an archive" * 1000)
    java = find_java(SPARK_JAVA_MAJORS, environment=os.environ)

    told = subprocess.run(
        [java.path, *shlex.split(sharing(strange)), "-version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert java.version in told.stderr
    assert "strange" not in told.stdout + told.stderr
