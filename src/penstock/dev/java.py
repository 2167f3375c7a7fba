"""Find a Java runtime that can run the broker.

Invariants:
- JAVA_HOME wins over PATH: what was set on purpose is used or refused, never passed over;
- a runtime is used only after it told its version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import InvalidError

VERSION_MIN = 17
ANSWER_SECONDS_MAX = 60
INSTALL = "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless)"


@dataclass(frozen=True, slots=True)
class Java:
    """Name a launcher that works, and its feature version (17, 21, …)."""

    path: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Find Java 17 or later: `$JAVA_HOME/bin/java`, else `java` on the PATH.

    Raises InvalidError when there is none (P650), when it does not run (P651), or when it is too
    old (P652).
    """
    known = os.environ if environment is None else environment
    home = known.get("JAVA_HOME", "").strip()
    found = Path(home, "bin", "java") if home else _on_path(known.get("PATH", ""))
    if found is None:
        raise InvalidError("no Java was found on the PATH", code="P650", hint=INSTALL)
    where = f"JAVA_HOME is {home}, and " if home else ""
    if not (found.is_file() and os.access(found, os.X_OK)):
        hint = "set JAVA_HOME to the folder that holds bin/java, or: unset JAVA_HOME"
        raise InvalidError(f"{where}{found} is not a program", code="P650", hint=hint)
    version = _version(found, where)
    if version < VERSION_MIN:
        raise InvalidError(
            f"{where}{found} is Java {version}; {VERSION_MIN} or later is needed",
            code="P652",
            hint=f"{INSTALL}, and set JAVA_HOME to it",
        )
    return Java(found, version)


def version_in(text: str) -> int | None:
    """Read the feature version out of what `java -version` says: 8 for `1.8.0_402`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _on_path(path: str) -> Path | None:
    found = shutil.which("java", path=path)
    return Path(found) if found else None


def _version(java: Path, where: str) -> int:
    hint = f"run `{java} -version` to see what is wrong with it; {INSTALL}"
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidError(f"{where}{java} does not run", code="P651", hint=hint) from error
    version = version_in(done.stderr + done.stdout)
    if done.returncode or version is None:
        raise InvalidError(
            f"{where}{java} -version ended with {done.returncode} and told no version",
            code="P651",
            hint=hint,
        )
    return version
