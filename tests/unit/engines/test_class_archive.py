"""Where Java's class archive lies, and when the background makes one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engines.java import Java
from penstock.engines.spark import class_archive
from penstock.engines.spark.settings import archive_folder, archive_name


@pytest.fixture
def java(tmp_path: Path) -> Java:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{sys.executable} -V\n")
    return Java(program, "17.0.15")


@pytest.fixture
def spark(tmp_path: Path) -> dict[str, str]:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.1.4.jar").write_bytes(b"jar")
    return {"SPARK_HOME": str(tmp_path / "spark")}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, java: Java) -> list[list[str]]:
    """The commands that the background was started with, none of which runs."""
    commands: list[list[str]] = []
    monkeypatch.setattr(class_archive, "find_java", lambda *_, **__: java)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def test_a_changed_jar_has_another_archive(java: Java, spark: dict[str, str]) -> None:
    before = archive_name(java, spark)
    jar = Path(spark["SPARK_HOME"]) / "jars" / "spark-core_2.13-4.1.4.jar"
    os.utime(jar, ns=(1, 1))

    assert before != archive_name(java, spark)


def test_a_changed_java_has_another_archive(java: Java, spark: dict[str, str]) -> None:
    before = archive_name(java, spark)
    java.path.write_text("another build of the same version")

    assert before != archive_name(java, spark)


def test_an_environment_of_somebody_else_has_its_archives_in_the_users_cache(
    tmp_path: Path,
) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    ours, others = tmp_path, Path("/proc")  # where nobody, root included, may write

    assert tmp_path / "var" / "penstock" == archive_folder(environment, ours)
    assert tmp_path / "cache" / "penstock" == archive_folder(environment, others / "self").parent


def test_the_background_begins_once(
    tmp_path: Path, spark: dict[str, str], java: Java, started: list[list[str]]
) -> None:
    folder = tmp_path / "archives"

    assert folder / archive_name(java, spark) == class_archive.make_in_background({}, spark, folder)
    assert [
        [sys.executable, "-P", "-m", "penstock.engines.spark.class_archive", str(folder)]
    ] == started


def test_an_archive_that_is_there_is_not_made_again(
    tmp_path: Path, spark: dict[str, str], java: Java, started: list[list[str]]
) -> None:
    (tmp_path / archive_name(java, spark)).write_bytes(b"archive")

    assert class_archive.make_in_background({}, spark, tmp_path) is None
    assert [] == started


def test_what_was_tried_in_vain_is_tried_again_a_day_later(
    tmp_path: Path, spark: dict[str, str], java: Java, started: list[list[str]]
) -> None:
    path = tmp_path / archive_name(java, spark)
    tried = tmp_path / f"{path.name}.tried"
    tried.touch()

    assert class_archive.make_in_background({}, spark, tmp_path) is None

    day = tried.stat().st_mtime - class_archive.AGAIN_SECONDS
    os.utime(tried, (day, day))

    assert path == class_archive.make_in_background({}, spark, tmp_path)
    assert 1 == len(started)


@pytest.mark.parametrize(
    "options", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=new.jsa"]
)
def test_a_user_who_says_what_to_share_is_left_alone(
    tmp_path: Path, spark: dict[str, str], started: list[list[str]], options: str
) -> None:
    conf = {"spark.driver.extraJavaOptions": options}

    assert class_archive.make_in_background(conf, spark, tmp_path) is None
    assert [] == started


def test_a_machine_without_java_starts_nothing(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(tmp_path / "nowhere")}

    assert class_archive.make_in_background({}, environment, tmp_path) is None


def test_where_nothing_can_be_written_nothing_is_started(
    tmp_path: Path, spark: dict[str, str], started: list[list[str]]
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")

    assert class_archive.make_in_background({}, spark, file / "folder") is None
    assert [] == started
