"""Java's class archive: Spark's classes read, verified and laid out once, mapped at each start.

Half of what a start costs is Java reading some 15,000 classes from jars; an archive of them (JEP
350, "dynamic class-data sharing") is mapped instead.

Invariants:
- an archive is only ever unused, never wrong: Java itself compares its own build, the jars' paths,
  sizes and times, and falls back to the jars;
- it lies in the Python environment whose pyspark it belongs to, and goes with it;
- it appears whole, under its name, or not at all.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.core.errors import InvalidError
from penstock.engines.java import SPARK_JAVA_MAJORS, Java, find_java
from penstock.engines.spark.settings import JAVA_OPTIONS_KEY, SparkSettings

WRITING_SECONDS_MAX = 180.0
"""Java writes the archive as it ends: about 15 s of one core."""


def archive_for(java: Java) -> Path:
    """Give the path of the archive for a Java and this environment's Spark; it may not exist."""
    import pyspark

    name = f"java-{java.version}-spark-{pyspark.__version__}.jsa"
    return Path(sys.prefix) / "var" / "penstock" / name


def make_archive(environment: Mapping[str, str]) -> Path:
    """Make the archive anew: start Spark, run a tiny job, let Java write what it has loaded.

    Takes about half a minute and 150 MB. Raises InvalidError: the environment cannot be written
    (P614), and what starting Spark raises.
    """
    from penstock.engines.spark.engine import SparkEngine

    path = archive_for(find_java(SPARK_JAVA_MAJORS, environment=environment))
    with _kept_as(path) as new:
        conf = {JAVA_OPTIONS_KEY: f'"-XX:ArchiveClassesAtExit={new}"'}
        engine = SparkEngine(settings=SparkSettings(master="local[1]", conf=conf)).warm()
        engine.close(patience_seconds=WRITING_SECONDS_MAX)
    return path


@contextlib.contextmanager
def _kept_as(path: Path) -> Iterator[Path]:
    """Give the path of a file that does not exist yet and is `path` in the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            new = Path(folder) / path.name
            yield new
            new.replace(path)
    except OSError as error:
        raise InvalidError(
            f"Java's class archive cannot be kept as {path}: {error.strerror or error}.",
            code="P614",
            hint="run it as who owns the Python environment; without it starts are slower only",
        ) from error
