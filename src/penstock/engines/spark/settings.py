"""What Spark is started with: the user's few settings and our defaults, as plain data.

Invariants:
- the user's `conf` overrides every default; Java options are concatenated instead;
- a local session uses loopback only, so it works offline, and keeps its files in one folder;
- nothing that may be a secret is put on a command line, where `ps` would show it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.engines.allocation import KEEPING_ENVIRONMENT
from penstock.engines.java import Java

DAEMON_MODULE = "penstock.engines.spark.daemon"
DAEMON_KEY = "spark.python.daemon.module"
JAVA_OPTIONS_KEY = "spark.driver.extraJavaOptions"
JAVA_DEFAULTS_KEY = "spark.driver.defaultJavaOptions"
JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Other places of options for the driver's Java."""
RESULT_BYTES_KEY = "spark.driver.maxResultSize"
BROADCAST_KEY = "spark.broadcast.UDFCompressionThreshold"
BROADCAST_NEVER = "1g"
TASK_ATTEMPTS_LOCAL = 4
SOCKET_PATH_BYTES_MAX = 100
"""Unix sockets' paths end at 104 (macOS) or 108 bytes."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""The driver's Java only schedules: the optimizing compiler would not pay off."""
SMALL_HEAP_JAVA = "-XX:+UseSerialGC"
ARCHIVE_SUFFIX = ".jsa"

_SOCKET_NAME_BYTES = len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
_SECRET = re.compile(r"(?i)secret|password|passwd|token|credential|access\.?key|account\.key")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_ARCHIVE = re.compile(r"-XX:(SharedArchiveFile|ArchiveClassesAtExit)=|-Xshare:off")
_PLAIN_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")

_ALWAYS = {
    DAEMON_KEY: DAEMON_MODULE,
    "spark.app.name": "penstock",
    "spark.driver.memory": "1g",
    RESULT_BYTES_KEY: str(128 * 1024 * 1024),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # thousands of jobs an hour: the listeners' memory of them must not grow
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "200",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.sql.ui.retainedExecutions": "10",
    # one plan of two steps, new each time: what is compiled or adapted for it is never used again
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # job descriptions travel in the task itself; pyspark's broadcasts would leave a file per run
    BROADCAST_KEY: BROADCAST_NEVER,
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark. `conf` may hold secrets and is never shown."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


def is_local(master: str) -> bool:
    """Return whether the workers are children of the driver's own Java process."""
    return master == "local" or master.startswith("local[")


def with_retries(master: str) -> str:
    """Return a local master with the retries that a cluster has; any other master as it is.

    In plain local mode the first lost Python worker fails the job.
    """
    plain = _PLAIN_LOCAL.fullmatch(master)
    if plain is None:
        return master
    return f"local[{plain.group(1) or 1},{TASK_ATTEMPTS_LOCAL}]"


def names_an_archive(conf: Mapping[str, str]) -> bool:
    """Return whether a user's Java options say what to do about class archives themselves."""
    keys = (JAVA_OPTIONS_KEY, JAVA_DEFAULTS_KEY)
    return any(_ARCHIVE.search(conf.get(key, "")) for key in keys)


def archive_for(java: Java, environment: Mapping[str, str], folder: Path | None = None) -> Path:
    """Return the path of the archive for a Java and this environment's Spark; it may not exist."""
    return (folder or archive_folder(environment)) / archive_name(java, environment)


def archive_folder(environment: Mapping[str, str], prefix: Path = Path(sys.prefix)) -> Path:
    """Return the folder of archives: in the Python environment, or in the user's cache folder."""
    if os.access(prefix, os.W_OK):
        return prefix / "var" / "penstock"
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / _digest([str(prefix)])


def archive_name(java: Java, environment: Mapping[str, str]) -> str:
    """Return the file name of the archive for a Java and this environment's Spark.

    It holds what the archive depends on: versions, and a fingerprint of the Java program and of
    Spark's jars (names, sizes, times), so that a changed installation has another name.
    """
    import pyspark

    home = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    files = [java.path.resolve(), *sorted((home / "jars").glob("*.jar"))]
    facts = ((file, file.stat()) for file in files)
    found = _digest(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}" for file, stat in facts)
    return f"java-{java.version}-spark-{pyspark.__version__}-{found}{ARCHIVE_SUFFIX}"


def java_options_of(environment: Mapping[str, str], spark: Path) -> str:
    """Return the Java options set outside: by variables, and by `spark-defaults.conf`.

    `spark` is the folder of Spark where the environment names none. A file that cannot be read is
    left to Spark.
    """
    home = Path(environment.get("SPARK_HOME") or spark)
    folder = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    lines: list[str] = []
    with suppress(OSError):
        text = (folder / "spark-defaults.conf").read_text("utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.lstrip().startswith(JAVA_DEFAULTS_KEY)]
    return " ".join([*lines, *(environment.get(name, "") for name in JAVA_VARIABLES)])


def configuration(
    settings: SparkSettings, *, folder: str, archive: Path | None = None, java_options: str = ""
) -> dict[str, str]:
    """Return all of Spark's configuration; `folder` is the session's own scratch folder.

    `archive` is the class archive, unless the user names another. `java_options` are set outside:
    Java starts with one garbage collector only.
    """
    chosen = {
        **_ALWAYS,
        **{f"spark.executorEnv.{name}": value for name, value in KEEPING_ENVIRONMENT.items()},
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        # over loopback TCP every exchange with a worker may stall for 40 ms
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if is_local(settings.master):
        fits = len(folder.encode()) + _SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": folder,
            JAVA_OPTIONS_KEY: f'"-Djava.io.tmpdir={folder}"',
            "spark.python.unix.domain.socket.enabled": "true" if fits else "false",
        }
    given = settings.conf.get(JAVA_OPTIONS_KEY, "")
    users = " ".join([java_options, settings.conf.get(JAVA_DEFAULTS_KEY, ""), given])
    collector = "" if _COLLECTOR.search(users) else SMALL_HEAP_JAVA
    classes = "" if archive is None or _ARCHIVE.search(users) else sharing(archive)
    ours = chosen.get(JAVA_OPTIONS_KEY, "")
    chosen |= settings.conf
    parts = [QUICK_JAVA, collector, classes, ours, given]
    chosen[JAVA_OPTIONS_KEY] = " ".join(part for part in parts if part)
    chosen["spark.master"] = with_retries(settings.master)
    return {name: value for name, value in chosen.items() if value}


def sharing(archive: Path) -> str:
    """Return the Java options that take classes from an archive, or silently from the jars."""
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off'


def for_command_line(conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings without what may be a secret, which travels over the connection."""
    return {name: value for name, value in conf.items() if not _SECRET.search(name)}


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
