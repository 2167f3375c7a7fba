"""The path of Java's class archive for this environment's Spark; it may not exist yet.

Invariants:
- an archive's name holds what it depends on: Java's version, Spark's, and a fingerprint of the Java
  program and Spark's jars (names, sizes, times), so that a changed installation has another name;
- it lies in the Python environment whose pyspark it belongs to or, where that cannot be written,
  in the user's cache folder, apart for each environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.engines.java import Java

SUFFIX = ".jsa"


def archive_for(java: Java, environment: Mapping[str, str]) -> Path:
    """Return the path of the archive for a Java and this environment's Spark; it may not exist."""
    return archive_folder(environment) / archive_name(java, environment)


def archive_folder(environment: Mapping[str, str], prefix: Path | None = None) -> Path:
    """Return the folder of archives: in the Python environment, or in the user's cache folder."""
    prefix = Path(sys.prefix) if prefix is None else prefix
    if os.access(prefix, os.W_OK):
        return prefix / "var" / "penstock"
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / _digest([str(prefix)])


def archive_name(java: Java, environment: Mapping[str, str]) -> str:
    """Return the file name of the archive for a Java and this environment's Spark."""
    import pyspark

    home = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    jars = sorted((home / "jars").glob("*.jar"))
    found = _digest(_facts([java.path.resolve(), *jars]))
    return f"java-{java.version}-spark-{pyspark.__version__}-{found}{SUFFIX}"


def _facts(files: list[Path]) -> Iterator[str]:
    for file in files:
        facts = file.stat()
        yield f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}"


def _digest(texts: Iterator[str] | list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
