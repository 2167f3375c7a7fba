"""The workers' parent process on an executor: do the expensive work once, then fork (spark.md).

Spark starts it by `spark.python.daemon.module`. PySpark's own daemon hides three costs in every
task: `importlib.invalidate_caches()` reads the directory of each archive on `sys.path` again, every
worker imports the heavy libraries for itself, and `gc.collect()` walks all of them after each task.

Invariants:
- with PySpark's own daemon everything works too, slower;
- only Spark's own archives are removed from `sys.path`, and only when the very same release imports
  without them: what a user ships is never removed, however similar to what is installed;
- what does not survive a fork is not used here: no deltalake at all, and of confluent_kafka the
  import only, never a client;
- a missing library is no error here, but where it is needed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import zipfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePosixPath

SHARED_LIBRARIES = (
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.json",
    "pyarrow.parquet",
    "msgspec",
    "msgspec.json",
    "confluent_kafka",
    "crc32c",
    "kafka.net.sasl",
    "kafka.protocol.consumer",
    "pyiceberg.io.pyarrow",
    "pyiceberg.manifest",
)
"""Imported before the first fork, so that all workers share them."""

_SPARKS_OWN = {"pyspark", "py4j"}
_MARKS = ("__init__.py", "version.py")
"""Files of Spark's packages that differ between two releases."""


def spare_archives(path: Sequence[str]) -> list[str]:
    """Return the archives of a module path that Spark puts there and that are not needed.

    These are its jars, and pyspark and py4j where the same release is installed: the files that
    name it are equal byte by byte.
    """
    archives = [entry for entry in path if zipfile.is_zipfile(entry)]
    rest = [entry for entry in path if entry not in archives]
    return [archive for archive in archives if _is_spare(archive, rest)]


def drop_archives(archives: Sequence[str]) -> None:
    """Remove archives from this process's module path, with their importers."""
    sys.path[:] = [entry for entry in sys.path if entry not in archives]
    for entry in list(sys.path_importer_cache):
        if any(entry == archive or entry.startswith(f"{archive}/") for archive in archives):
            del sys.path_importer_cache[entry]


def import_shared(names: Sequence[str] = SHARED_LIBRARIES) -> None:
    """Import libraries for all later workers; those not installed are left out."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _is_spare(archive: str, rest: Sequence[str]) -> bool:
    with zipfile.ZipFile(archive) as opened:
        members = set(opened.namelist())
        if not any(member.endswith((".py", ".pyc")) for member in members):
            return archive.endswith(".jar")
        packages = {PurePosixPath(member).parts[0] for member in members}
        return packages <= _SPARKS_OWN and all(
            _is_same(opened, members, package, PathFinder.find_spec(package, rest))
            for package in packages
        )


def _is_same(
    opened: zipfile.ZipFile, members: set[str], package: str, found: ModuleSpec | None
) -> bool:
    """Compare a package of an archive with the one that would be imported instead of it."""
    if found is None or found.origin is None:
        return False
    folder = Path(found.origin).parent
    marks = [mark for mark in _MARKS if f"{package}/{mark}" in members]
    try:
        return bool(marks) and all(
            opened.read(f"{package}/{mark}") == (folder / mark).read_bytes() for mark in marks
        )
    except OSError:
        return False


def serve() -> None:
    """Prepare this process, then run PySpark's daemon, which forks workers until it ends."""
    gc.disable()
    drop_archives(spare_archives(sys.path))
    import_shared()
    from pyspark.daemon import manager

    gc.freeze()
    gc.enable()
    manager()


if __name__ == "__main__":
    serve()
