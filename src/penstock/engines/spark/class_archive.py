"""Make Java's class archive: Spark's classes, verified and laid out once, mapped at each start.

`penstock prepare` makes it at once, the first run in the background, by a process of its own that
outlives a short run. Source: JEP 350; docs/design/0121 and 0239.

Invariants:
- an archive is only ever unused, never wrong: Java itself compares its own build, the jars' paths,
  sizes and times, and falls back to the jars;
- it appears whole, under its name, or not at all; archives that it replaces are removed;
- at most one process makes it; what failed, or was ended, is tried again a day later at the
  earliest, so that a machine on which it cannot be made does not pay for it at each start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from penstock.core.errors import InvalidError, PenstockError
from penstock.engines.java import find_java
from penstock.engines.spark.release import require_installed
from penstock.engines.spark.settings import (
    ARCHIVE_SUFFIX,
    JAVA_OPTIONS_KEY,
    SparkSettings,
    archive_for,
    names_an_archive,
)

WRITING_SECONDS_MAX = 180.0
"""Java writes the archive as it ends: about 15 s of one core."""
AGAIN_SECONDS = 24 * 3600.0
LOWEST_PRIORITY = 19
_TRIED = ".tried"


def make_archive(environment: Mapping[str, str], folder: Path | None = None) -> Path:
    """Make the archive: start Spark, run a tiny job, let Java write the classes it has loaded.

    Takes about half a minute and 150 MB. Raises InvalidError: the folder cannot be written (P614),
    and what starting Spark raises.
    """
    require_installed()
    from penstock.engines.spark.engine import SparkEngine

    path = archive_for(find_java(environment), environment, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            new = Path(scratch) / path.name
            conf = {JAVA_OPTIONS_KEY: f'"-XX:ArchiveClassesAtExit={new}"'}
            engine = SparkEngine(settings=SparkSettings(master="local[1]", conf=conf)).warm()
            engine.close(patience_seconds=WRITING_SECONDS_MAX)
            new.replace(path)
    except OSError as error:
        raise InvalidError(
            f"Java's class archive cannot be kept as {path}: {error.strerror or error}.",
            code="P614",
            hint="run it as the owner of the Python environment; without it starts are slower",
        ) from error
    _remove_replaced(path)
    return path


def make_in_background(
    conf: Mapping[str, str], environment: Mapping[str, str], folder: Path | None = None
) -> Path | None:
    """Start a process that makes the archive, unless there is one; return its path if started.

    `conf` is that of the pipeline's Spark: no archive is made when the user names one.
    Return None also when making it failed less than a day ago. Never raises.
    """
    if names_an_archive(conf):
        return None
    with contextlib.suppress(PenstockError, OSError):
        path = archive_for(find_java(environment), environment, folder)
        tried = path.with_name(f"{path.name}{_TRIED}")
        lately = tried.exists() and time.time() - tried.stat().st_mtime < AGAIN_SECONDS
        if path.exists() or lately:  # it is being made, or has failed
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.Popen(  # noqa: S603 - this interpreter, and Penstock's module
            [sys.executable, "-P", "-m", __name__, str(path.parent)],  # never what lies in cwd
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # neither Ctrl-C nor the end of a short run ends it
        )
        return path
    return None


def main(folder: Path) -> None:
    """Make the archive in a folder, at the lowest priority, unless another process does."""
    os.nice(LOWEST_PRIORITY)
    path = archive_for(find_java(os.environ), os.environ, folder)
    with (folder / f"{path.name}{_TRIED}").open("ab") as tried:
        try:
            fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        os.utime(tried.fileno())
        if not path.exists():
            make_archive(os.environ, folder)
        Path(tried.name).unlink()


def _remove_replaced(path: Path) -> None:
    java_and_spark = path.name.rpartition("-")[0]
    spark = java_and_spark.partition("-spark-")[2]
    for other in path.parent.glob(f"java-*{ARCHIVE_SUFFIX}"):
        versions = other.name.removesuffix(ARCHIVE_SUFFIX).rpartition("-")[0]
        same_spark = versions.partition("-spark-")[2] == spark
        if other != path and (versions == java_and_spark or not same_spark):
            with contextlib.suppress(OSError):
                other.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
