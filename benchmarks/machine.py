"""Where and when a figure was measured: machine, versions, commit, and what else ran meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from penstock.engines.java import Java, find_java
from penstock.engines.spark.settings import archive_for

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("penstock", "pyspark", "pyarrow", "pyiceberg", "deltalake", "confluent-kafka", "numpy")


def circumstances() -> dict[str, Any]:
    """Describe commit, date, machine and versions; nothing that names the machine or its user.

    `prepared` is whether `penstock prepare` had made the archive that Java starts from.
    """
    changed = _git("status", "--porcelain", "src", "benchmarks", ":!benchmarks/results")
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
            "java": _java().version.partition(".")[0],
            **{name: metadata.version(name) for name in LIBRARIES},
        },
        "prepared": archive_for(_java(), os.environ).exists(),
    }


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
    return find_java(os.environ)
