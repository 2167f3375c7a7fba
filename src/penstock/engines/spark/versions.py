"""What driver and executors must have in common; every worker compares it before any work.

Invariant: equal versions of penstock and of every library that reads, converts or writes there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata

from penstock.core.errors import InvalidError

REPORT_VERSIONS = "penstock.engines.spark.versions:report"
"""The work that returns a worker's versions, and makes it load its libraries."""

ABSENT = "absent"
_DISTRIBUTIONS = ("penstock", "pyarrow", "pyiceberg", "confluent-kafka", "msgspec", "duckdb")
_EXTRAS = ("protobuf",)
"""Compared where both have them: a missing one is reported where it is needed."""


@cache
def versions_here() -> dict[str, str]:
    """Return the versions of this process: Python's as major.minor, libraries' in full."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python} | {name: _version(name) for name in (*_DISTRIBUTIONS, *_EXTRAS)}


def report(job: str) -> str:
    """Return the versions here as JSON; the job's text is ignored."""
    del job
    return json.dumps(versions_here(), sort_keys=True)


def require_agreement(driver: Mapping[str, str]) -> None:
    """Raise InvalidError (P608) where this process differs from a driver that sent its versions."""
    differing = disagreements(driver, versions_here()) if driver else []
    if differing:
        raise InvalidError(
            f"Driver and executors differ: {'; '.join(differing)}.",
            code="P608",
            hint="give executors the driver's environment: spark.archives, or an image",
        )


def disagreements(driver: Mapping[str, str], executor: Mapping[str, str]) -> list[str]:
    """List what differs, as `pyarrow 26.0.1 here, 25.0.0 there`, by name."""
    return [
        f"{name} {driver.get(name, ABSENT)} here, {executor.get(name, ABSENT)} there"
        for name in sorted(driver.keys() | executor.keys())
        if driver.get(name, ABSENT) != executor.get(name, ABSENT)
        and not (name in _EXTRAS and ABSENT in (driver.get(name), executor.get(name)))
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ABSENT
