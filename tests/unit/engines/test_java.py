from pathlib import Path

import pytest

from penstock.core.errors import InvalidError, UnavailableError
from penstock.engines.java import Java, find_java

JAVA_8 = 'java version "1.8.0_392"'
JAVA_11 = 'openjdk version "11.0.2" 2019-01-15'
JAVA_17 = 'Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "17.0.15" 2025-04-15'
JAVA_21 = 'openjdk version "21" 2023-09-19'
JAVA_21_EARLY = 'openjdk version "21-ea" 2023-09-19'


def java_that_says(folder: Path, text: str, status: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return program


def search_path(folder: Path) -> str:
    return f"{folder}/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("text", "version"), [(JAVA_17, "17.0.15"), (JAVA_21, "21"), (JAVA_21_EARLY, "21-ea")]
)
def test_java_home_is_taken_when_its_version_fits(tmp_path: Path, text: str, version: str) -> None:
    program = java_that_says(tmp_path, text)

    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})

    assert Java(path=program, version=version) == found


def test_without_java_home_the_first_java_on_the_path_is_taken(tmp_path: Path) -> None:
    program = java_that_says(tmp_path, JAVA_17)

    assert Java(path=program, version="17.0.15") == find_java(
        {"JAVA_HOME": "", "PATH": search_path(tmp_path)}
    )


@pytest.mark.parametrize(("text", "major"), [(JAVA_8, 8), (JAVA_11, 11)])
def test_an_unusable_java_home_is_not_passed_over_for_a_fit_java_on_the_path(
    tmp_path: Path, text: str, major: int
) -> None:
    java_that_says(tmp_path / "old", text)
    java_that_says(tmp_path / "new", JAVA_17)
    environment = {"JAVA_HOME": f"{tmp_path}/old", "PATH": search_path(tmp_path / "new")}

    with pytest.raises(InvalidError) as raised:
        find_java(environment)

    assert "P602" == raised.value.code
    assert f"Java {major} (JAVA_HOME={tmp_path}/old) is not supported: use Java 17 or 21." == (
        raised.value.message
    )


def test_a_java_home_without_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"where there is no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_no_java_at_all_is_reported_with_a_command_that_helps(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"There is no Java") as raised:
        find_java({"PATH": str(tmp_path)})

    assert "apt-get install" in raised.value.hint


@pytest.mark.parametrize(("text", "status"), [("Segmentation fault", 139), (JAVA_17, 1), ("?", 0)])
def test_a_broken_java_is_reported(tmp_path: Path, text: str, status: int) -> None:
    java_that_says(tmp_path, text, status)

    with pytest.raises(InvalidError, match=rf"it exited with {status}") as raised:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})

    assert "P602" == raised.value.code


def test_a_java_that_cannot_be_run_is_reported(tmp_path: Path) -> None:
    java_that_says(tmp_path, JAVA_17).write_bytes(b"\x7fELF nothing")

    with pytest.raises(InvalidError, match=r"does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_a_java_that_is_killed_as_it_is_asked_may_be_asked_again(tmp_path: Path) -> None:
    java_that_says(tmp_path, JAVA_17).write_text("#!/bin/sh\nkill -KILL $$\n")

    with pytest.raises(UnavailableError, match="ended by signal 9") as raised:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert "P601" == raised.value.code
