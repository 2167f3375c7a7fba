"""Find the Java that Spark and the local broker run on, before anything is started.

Invariants:
- `JAVA_HOME` counts when it is set, as for Spark's own launcher; else `java` on `PATH`;
- a Java is accepted only after it has printed its version;
- nothing is installed, downloaded or changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import InvalidError, UnavailableError

SPARK_JAVA_MAJORS = (17, 21)
"""The Java versions that Spark 4.1 supports."""

ANSWER_SECONDS_MAX = 60.0
_VERSION = re.compile(r'version "((?:1\.)?\d+[\w.+-]*)"')
_WANTED = " or ".join(map(str, SPARK_JAVA_MAJORS))
_HINT = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17) or point JAVA_HOME at it"
)


@dataclass(frozen=True, slots=True)
class Java:
    """The path of a `java` program and the version it prints (`17.0.15`)."""

    path: Path
    version: str


def find_java(environment: Mapping[str, str]) -> Java:
    """Return a Java that Spark supports, by the variables of an environment.

    Runs `java -version`, about 0.1 s. Raises InvalidError (P602) when there is none, when it does
    not run, or has another version, even if only `JAVA_HOME` is wrong; UnavailableError (P601) when
    it is killed or does not answer.
    """
    path, origin = _locate(environment)
    java = Java(path, _version(path, origin, environment))
    major = int(re.split(r"\D", java.version.removeprefix("1."), maxsplit=1)[0])  # 1.8 is Java 8
    if major not in SPARK_JAVA_MAJORS:
        raise InvalidError(
            f"Java {major} ({origin}) is not supported: use Java {_WANTED}.",
            code="P602",
            hint=_HINT,
        )
    return java


def _locate(environment: Mapping[str, str]) -> tuple[Path, str]:
    home = environment.get("JAVA_HOME", "")
    if home:
        path = Path(home) / "bin" / "java"
        if not path.is_file():
            raise InvalidError(
                f"JAVA_HOME points at {home}, where there is no bin/java.",
                code="P602",
                hint=f"unset JAVA_HOME, or set it to the folder of a Java {_WANTED}",
            )
        return path, f"JAVA_HOME={home}"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise InvalidError(
            f"There is no Java on this machine: use Java {_WANTED}.", code="P602", hint=_HINT
        )
    return Path(found), found


def _version(path: Path, origin: str, environment: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java, found above
            [path, "-version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except OSError as error:
        raise InvalidError(
            f"Java ({origin}) does not run: {error}.", code="P602", hint=_HINT
        ) from error
    except subprocess.TimeoutExpired as error:
        raise _unavailable(origin, f"did not answer in {ANSWER_SECONDS_MAX} s") from error
    if answer.returncode < 0:
        raise _unavailable(origin, f"was ended by signal {-answer.returncode}")
    version = _VERSION.search(answer.stderr) or _VERSION.search(answer.stdout)
    if answer.returncode != 0 or version is None:
        raise InvalidError(
            f"Java ({origin}) does not print its version: it exited with {answer.returncode}.",
            code="P602",
            hint=f"run {path} -version; {_HINT}",
        )
    return version.group(1)


def _unavailable(origin: str, what: str) -> UnavailableError:
    return UnavailableError(
        f"Java ({origin}) was run for its version and {what}.",
        code="P601",
        hint="try again; if it persists, find out what kills processes here: memory, limits",
    )
