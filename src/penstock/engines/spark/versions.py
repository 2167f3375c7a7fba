"""What driver and executors must have in common, told by each and compared before the first epoch.

Invariant: equal versions of penstock and of every library that writes or describes files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import metadata

TELL = "penstock.engines.spark.versions:tell"
"""The work that asks an executor."""

ABSENT = "absent"
_DISTRIBUTIONS = ("penstock", "pyarrow", "pyiceberg", "deltalake", "confluent-kafka", "msgspec")


def versions_here() -> dict[str, str]:
    """Give the versions of this process: Python's as major.minor, libraries' in full."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python} | {name: _version(name) for name in _DISTRIBUTIONS}


def tell(job: str) -> str:
    """Answer a worker's job: the versions here, as JSON. The job's text is not looked at."""
    del job
    return json.dumps(versions_here(), sort_keys=True)


def disagreements(driver: Mapping[str, str], executor: Mapping[str, str]) -> list[str]:
    """List what differs, as `pyarrow 26.0.1 here, 25.0.0 there`, by name."""
    return [
        f"{name} {driver.get(name, ABSENT)} here, {executor.get(name, ABSENT)} there"
        for name in sorted(driver.keys() | executor.keys())
        if driver.get(name, ABSENT) != executor.get(name, ABSENT)
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ABSENT
