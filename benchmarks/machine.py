"""Where and when a figure was measured: machine, versions, commit, and what else ran meanwhile."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from penstock.engines.java import SPARK_JAVA_MAJORS, Java, find_java
from penstock.engines.spark.archive import archive_for

ROOT = Path(__file__).resolve().parent.parent
_PR_SET_CHILD_SUBREAPER = 36
LIBRARIES = ("penstock", "pyspark", "pyarrow", "pyiceberg", "deltalake", "confluent-kafka", "numpy")


def circumstances() -> dict[str, Any]:
    """Describe commit, date, machine and versions; nothing that names the machine or its user.

    `prepared` tells whether `penstock prepare` had made the archive that Java starts from.
    """
    changed = _git("status", "--porcelain", "src", "benchmarks")
    return {
        "commit": _git("rev-parse", "HEAD") or "unknown",
        "changed": bool(changed),
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
            "cpu": _cpu_model(),
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": {
            "python": platform.python_version(),
            "java": str(_java().major),
            **{name: metadata.version(name) for name in LIBRARIES},
        },
        "prepared": archive_for(_java()).exists(),
    }


@dataclass(slots=True)
class Bystanders:
    """Tell how much of the machine other programs used while we measured.

    `ours` gives the CPU seconds of live processes that are ours, such as the broker; those of
    children that have ended are known already. What children leave behind when they are killed,
    such as Spark's workers, becomes our child (Linux), so that it is known when it has ended.
    """

    ours: Callable[[], float]
    _began: float = 0.0
    _busy: float = 0.0
    _own: float = 0.0

    def begin(self) -> None:
        """Begin to look."""
        _adopt_orphans()
        self._began, self._busy, self._own = (
            time.monotonic(),
            _busy_seconds(),
            _own_seconds() + self.ours(),
        )

    def cores(self) -> float:
        """Give the cores that others kept busy on average since `begin`; children have ended."""
        _bury_orphans()
        others = (_busy_seconds() - self._busy) - (_own_seconds() + self.ours() - self._own)
        return max(0.0, others / max(time.monotonic() - self._began, 0.001))


def _adopt_orphans() -> None:
    """Become the parent of children's children whose parents die. Source: prctl(2)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _bury_orphans() -> None:
    """Wait for orphans that have ended, so that what they used is counted as ours."""
    for child in psutil.Process().children():
        with suppress(ChildProcessError, psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, 0)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def _own_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")


def _java() -> Java:
    return find_java(SPARK_JAVA_MAJORS, environment=os.environ)
