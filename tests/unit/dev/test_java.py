from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import InvalidError
from penstock.dev.java import find_java, version_in

SAYS = """#!/bin/sh
echo '{text}' >&2
exit {code}
"""


def launcher(folder: Path, text: str, *, code: int = 0) -> Path:
    """Put a `java` into FOLDER/bin that says `text`."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(SAYS.format(text=text, code=code))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_the_version_is_read_out_of_what_java_says(text: str, version: int | None) -> None:
    assert version == version_in(text)


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    chosen = launcher(tmp_path / "chosen", 'openjdk version "21.0.2"')
    launcher(tmp_path / "other", 'openjdk version "17.0.1"')
    java = find_java({"JAVA_HOME": str(tmp_path / "chosen"), "PATH": f"{tmp_path}/other/bin"})

    assert (chosen, 21) == (java.path, java.version)


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    launcher(tmp_path, 'openjdk version "17.0.1"')

    assert 17 == find_java({"PATH": f"/nowhere:{tmp_path}/bin"}).version


@pytest.mark.parametrize(
    ("text", "code", "error", "told"),
    [
        ('java version "1.8.0_402"', 0, "P652", "is Java 8; 17 or later"),
        ('openjdk version "11.0.2"', 0, "P652", "is Java 11"),
        ("cannot load libjvm", 1, "P651", "ended with 1"),
        ("hello", 0, "P651", "told no version"),
    ],
)
def test_a_java_that_will_not_do_is_told(
    tmp_path: Path, text: str, code: int, error: str, told: str
) -> None:
    launcher(tmp_path, text, code=code)
    with pytest.raises(InvalidError, match=told) as caught:
        find_java({"JAVA_HOME": str(tmp_path)})

    assert error == caught.value.code
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_no_java_at_all_is_told_with_what_to_install() -> None:
    with pytest.raises(InvalidError, match="no Java") as caught:
        find_java({"PATH": "/nowhere"})

    assert ("P650", True) == (caught.value.code, "install Java" in caught.value.hint)


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path) -> None:
    launcher(tmp_path / "other", 'openjdk version "17.0.1"')
    with pytest.raises(InvalidError, match="JAVA_HOME is") as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": f"{tmp_path}/other/bin"})

    assert "P650" == caught.value.code
