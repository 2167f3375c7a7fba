"""This machine: Python and its libraries, Java, Spark's jars, addresses, memory, disk.

Invariant: nothing is started but `java -version`, nothing is written.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import psutil

from penstock.app.assembly import engines
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.observe.formatting import size_text
from penstock.ports.checks import CheckResult, failed, passed, unknown, warning
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

WORKER_BYTES = 400_000_000
DISK_BYTES_MIN = 2_000_000_000
DRIVER_BYTES = 1 << 30
LOOPBACK = "127.0.0.1"
HERE = "this machine"

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<bounds>[^;]*)(?P<only>;.*)?")
_BOUND = re.compile(r"(>=|<|==)\s*([\d.]+)")


def findings(
    pipeline: Pipeline | Publications | None, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Check this machine, for a pipeline when there is one."""
    master = "local[*]" if pipeline is None else pipeline.spark.master
    conf = {} if pipeline is None else dict(pipeline.spark.conf)
    inline = master == engines.INLINE
    yield python(environment)
    yield libraries()
    if not inline:
        yield spark()
        yield java(environment)
        yield jars(conf)
    yield from ports(environment, conf)
    yield memory(master, conf)
    yield disk(Path.cwd())


def python(environment: Mapping[str, str]) -> CheckResult:
    """Return the Python, and whether Spark's workers are to use another one."""
    text = f"{platform.python_version()} at {sys.executable}"
    workers = environment.get("PYSPARK_PYTHON", "")
    if workers and Path(workers).resolve() != Path(sys.executable).resolve():
        return warning(
            "python",
            HERE,
            f"{text}; workers use {workers} (PYSPARK_PYTHON)",
            "unset PYSPARK_PYTHON, unless the cluster needs it",
        )
    return passed("python", HERE, text)


def libraries() -> CheckResult:
    """Compare the libraries that are installed with those that Penstock was tried with."""
    wrong = [text for each in metadata.requires("penstock") or [] if (text := _unsupported(each))]
    if wrong:
        error = InvalidError(
            f"libraries of unsupported versions: {'; '.join(sorted(wrong))}",
            code="P611",
            hint="pip install --upgrade penstock, in an environment of its own",
        )
        return failed("libraries", HERE, error)
    named = ("pyiceberg", "deltalake", "pyarrow", "confluent-kafka")
    text = ", ".join(f"{name} {metadata.version(name)}" for name in named)
    return passed("libraries", HERE, text)


def spark() -> CheckResult:
    """Check that Spark is installed, of a release that is supported."""
    from penstock.engines.spark.release import require_installed, require_release

    try:
        require_installed()
        version = metadata.version("pyspark")
        require_release(version)
    except PenstockError as error:
        return failed("spark", HERE, error)
    return passed("spark", HERE, f"Spark {version}")


def java(environment: Mapping[str, str]) -> CheckResult:
    """Find the Java that Spark would run on."""
    from penstock.engines.java import find_java
    from penstock.engines.spark.settings import archive_for

    try:
        found = find_java(environment)
    except PenstockError as error:
        return failed("java", HERE, error)
    quick = find_spec("pyspark") is not None and archive_for(found, environment).exists()
    later = "the first run archives its classes, later ones start in half the time"
    start = "starts from an archive of classes" if quick else later
    return passed("java", HERE, f"Java {found.version} at {found.path}; {start}")


def jars(conf: Mapping[str, str]) -> CheckResult:
    """Check Spark's own jars, and those that `spark.conf` names on this machine."""
    spec = find_spec("pyspark")
    home = Path(
        os.environ.get("SPARK_HOME") or (Path(spec.origin).parent if spec and spec.origin else "")
    )
    own = list((home / "jars").glob("spark-core_*.jar"))
    missing = [] if own else [f"{home / 'jars'} with spark-core"]
    for key in ("spark.jars", "spark.driver.extraClassPath", "spark.executor.extraClassPath"):
        for path in re.split(r"[,:](?!//)", conf.get(key, "")):
            local = path.strip().removeprefix("file://").rstrip("*")
            if local.startswith("/") and not Path(local).exists():
                missing.append(f"{local} ({key})")
    if missing:
        error = InvalidError(
            f"missing jars: {', '.join(missing)}",
            code="P612",
            hint="correct spark.conf, or install PySpark again",
        )
        return failed("jars", HERE, error)
    return passed("jars", HERE, f"{len(list((home / 'jars').glob('*.jar')))} in {home}")


def ports(environment: Mapping[str, str], conf: Mapping[str, str]) -> Iterator[CheckResult]:
    """Try the addresses that a run listens on: loopback, Spark's own, and that of the metrics."""
    yield _port("loopback", LOOPBACK, 0)
    for key in ("spark.driver.port", "spark.blockManager.port", "spark.ui.port"):
        if conf.get(key, "").isdecimal():
            yield _port(key, conf.get("spark.driver.bindAddress", LOOPBACK), int(conf[key]))
    if environment.get("PENSTOCK_METRICS"):
        from penstock.observe.metrics_endpoint import address

        try:
            yield _port("metrics", *address(environment["PENSTOCK_METRICS"]))
        except InvalidError as error:
            yield failed("ports", "metrics", error)


def _port(what: str, host: str, port: int) -> CheckResult:
    where = f"{host}:{port}" if port else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            return passed("ports", what, f"{where} can be listened on")
    except (OSError, OverflowError, UnicodeError) as error:  # the latter: no port, no host at all
        taken = UnavailableError(
            f"{where} is not available to listen on: {getattr(error, 'strerror', None) or error}",
            code="P613",
            hint=f"see what listens there:  ss -ltnp 'sport = :{port}'; or choose another port",
        )
        return failed("ports", what, taken)


def memory(master: str, conf: Mapping[str, str]) -> CheckResult:
    """Compare what is free with what the driver's Java and the workers take at their usual size."""
    free = psutil.virtual_memory().available
    with suppress(OSError):  # a container may leave less
        limit = _CGROUP_LIMIT.read_text().strip()
        if limit.isdecimal():
            free = min(free, max(int(limit) - psutil.Process().memory_info().rss, 0))
    local = master == engines.INLINE or master.startswith("local")
    driver = 0 if master == engines.INLINE else _bytes(conf.get("spark.driver.memory", "1g"))
    workers = _workers(master) if local else 0
    needed = driver + workers * WORKER_BYTES
    text = f"{size_text(free)} free; a run takes about {size_text(needed)}"
    if free < needed:
        return warning(
            "memory",
            HERE,
            f"{text} ({workers} workers)",
            "spark: { master: local[1] }, or a machine with more memory",
        )
    return passed("memory", HERE, text)


def disk(directory: Path) -> CheckResult:
    """Return what is free on the working directory's disk, for state, local tables, Spark."""
    try:
        free = psutil.disk_usage(str(directory)).free
    except OSError as error:
        return unknown("disk", str(directory), error.strerror or str(error), "df -h .")
    text = f"{size_text(free)} free"
    if free < DISK_BYTES_MIN:
        return warning("disk", str(directory), text, "free some space:  df -h .")
    return passed("disk", str(directory), text)


def _unsupported(requirement: str) -> str:
    """Return how an installed library does not fit a requirement, or "".

    Libraries of extras need not be installed.
    """
    parts = _REQUIREMENT.fullmatch(requirement)
    if parts is None:
        return ""
    try:
        version = metadata.version(parts["name"])
    except metadata.PackageNotFoundError:
        return "" if parts["only"] else f"{parts['name']} is not installed"
    here = _numbers(version)
    for sign, bound in _BOUND.findall(parts["bounds"]):
        there = _numbers(bound)
        if not {">=": here >= there, "<": here < there, "==": here == there}[sign]:
            return f"{parts['name']} {version}, wanted {parts['bounds'].strip()}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(each) for each in re.findall(r"\d+", version.partition("+")[0])[:3]]
    return tuple(found + [0] * (3 - len(found)))


def _workers(master: str) -> int:
    found = re.fullmatch(r"local(?:\[(\*|\d+)[^]]*\])?", master)
    count = found.group(1) if found else None
    if count == "*":
        return os.cpu_count() or 1
    return int(count) if count else 1


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _FACTORS[found[2].lower()] if found else DRIVER_BYTES
