from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev import jars
from penstock.engines.java import Java

A, B = b"one jar", b"another"
WANTED = {"a-1.jar": hashlib.sha256(A).hexdigest(), "b-2.jar": hashlib.sha256(B).hexdigest()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a-1.jar").write_bytes(A)
    (tmp_path / "b-2.jar").write_bytes(B)
    return tmp_path


def test_the_lock_file_names_every_jar_with_a_digest() -> None:
    locked = jars.locked(jars.BROKER.lock.read_text())

    assert f"kafka_2.13-{jars.KAFKA_VERSION}.jar" in locked
    assert "slf4j-simple-1.7.36.jar" in locked
    assert {64} == {len(digest) for digest in locked.values()}


def test_jars_as_locked_pass(folder: Path) -> None:
    jars.check(folder, WANTED)


def test_a_jar_with_other_contents_is_refused(folder: Path) -> None:
    (folder / "b-2.jar").write_bytes(b"something else")
    with pytest.raises(InvalidError, match=r"b-2\.jar has other contents") as caught:
        jars.check(folder, WANTED)

    assert ("P653", True) == (caught.value.code, str(folder) in caught.value.hint)


def test_a_missing_jar_is_refused(folder: Path) -> None:
    (folder / "a-1.jar").unlink()
    with pytest.raises(InvalidError, match=r"a-1\.jar is missing"):
        jars.check(folder, WANTED)


def test_a_jar_too_many_is_refused(folder: Path) -> None:
    (folder / "c-3.jar").write_bytes(b"")
    with pytest.raises(InvalidError, match=r"c-3\.jar is not in the lock file"):
        jars.check(folder, WANTED)


def resolver(folder: Path, script: str) -> Java:
    """Be in for Java with a script that acts as Ivy would; `$SCRATCH` is where jars go."""
    path = folder / "java"
    path.write_text(f'#!/bin/sh\nSCRATCH=$(dirname "$5")\n{script}\n')
    path.chmod(0o755)
    return Java(path, "17.0.15")


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pin the two small jars instead of Kafka's; give the cache."""
    lock = tmp_path / "lock"
    lock.write_text("".join(f"{digest}  {name}\n" for name, digest in WANTED.items()))
    monkeypatch.setattr(jars, "BROKER", replace(jars.BROKER, lock=lock))
    cache = tmp_path / "cache"
    monkeypatch.setenv("PENSTOCK_HOME", str(cache))
    return cache


FETCH = """
mkdir -p "$SCRATCH/jars"
printf 'one jar' > "$SCRATCH/jars/a-1.jar"
echo '	[SUCCESSFUL ] org.a#a;1!a.jar (9ms)'
printf '%s' "${SECOND:-another}" > "$SCRATCH/jars/b-2.jar"
echo '	[SUCCESSFUL ] org.b#b;2!b.jar(bundle) (9ms)'
"""


def test_jars_are_fetched_once_with_progress(tmp_path: Path, pinned: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    found = jars.jars_of(
        jars.BROKER, resolver(tmp_path, FETCH), progress=lambda *step: reported.append(step)
    )
    again = jars.jars_of(jars.BROKER, resolver(tmp_path, "exit 1"))

    assert [("a.jar", 1, 2), ("b.jar", 2, 2)] == reported
    assert found == again
    assert {"a-1.jar", "b-2.jar"} == {each.name for each in found.iterdir()}
    assert [] == list(pinned.glob("fetch-*"))


def test_jars_from_elsewhere_that_differ_are_refused_and_not_kept(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND", "evil")
    with pytest.raises(InvalidError, match="what was downloaded") as caught:
        jars.jars_of(jars.BROKER, resolver(tmp_path, FETCH))
    assert "P653" == caught.value.code
    assert [] == list(pinned.glob("kafka-*"))

    monkeypatch.delenv("SECOND")
    assert jars.jars_of(jars.BROKER, resolver(tmp_path, FETCH)).is_dir()


def test_an_interrupted_fetch_leaves_no_half_folder(tmp_path: Path, pinned: Path) -> None:
    half = 'mkdir -p "$SCRATCH/jars"; printf "one jar" > "$SCRATCH/jars/a-1.jar"; exit 137'
    with pytest.raises(UnavailableError) as caught:
        jars.jars_of(jars.BROKER, resolver(tmp_path, half))
    assert "P654" == caught.value.code

    assert jars.jars_of(jars.BROKER, resolver(tmp_path, FETCH)).is_dir()


def test_a_repository_that_is_not_there_is_reported(tmp_path: Path, pinned: Path) -> None:
    failing = "echo '  UNRESOLVED DEPENDENCIES'; echo 'org.a#a;1: not found'; exit 1"
    with pytest.raises(UnavailableError, match=r"org\.a#a;1: not found") as caught:
        jars.jars_of(jars.BROKER, resolver(tmp_path, failing))

    assert "P654" == caught.value.code


def test_a_mirror_is_asked_instead_of_the_default(
    tmp_path: Path, pinned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_MAVEN_MIRROR", "file:///mirror?a&b")
    keep = f'cp "$5" "{tmp_path}/settings.xml"'
    jars.jars_of(jars.BROKER, resolver(tmp_path, keep + FETCH))

    assert 'root="file:///mirror?a&amp;b"' in (tmp_path / "settings.xml").read_text()


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    assert tmp_path == jars.home()
    monkeypatch.delenv("PENSTOCK_HOME")
    assert Path.home() / ".cache" / "penstock" == jars.home()
