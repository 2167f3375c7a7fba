"""How long `penstock maintain --dry-run` takes on a table of many files.

The files are as many names of the ten that one commit wrote (benchmarks/commits.py); the command is
a process of its own, as a person starts it. It lists the storage as well.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks import commits, making, specs
from benchmarks.children import FailedError
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format


@dataclass(frozen=True, slots=True)
class Options:
    """So many commits of so many files each."""

    format: Format = "iceberg"
    commits: int = 100
    files: int = 1000


def measure(options: Options, place: Scratch) -> Measured:
    """Land the commits, then plan, twice: the second time files of metadata are in memory."""
    folder = place.subfolder("h")
    spec = specs.write(
        folder, commits.NOWHERE, making.TOPIC, table_format=options.format, partition_by=["qty"]
    )
    size = commits.Options(format=options.format, files=options.files)
    with commits.table_of(spec, size) as fixture:
        for number in range(options.commits):
            commits.settled(fixture.commit(number), fixture.made, fixture.two_phase)
    words = [sys.executable, "-m", "penstock", "maintain", "--dry-run", "--json"]
    took: list[float] = []
    for _ in range(2):
        began, used = time.monotonic(), _children_cpu()
        said = subprocess.run(
            [*words, "--spec", str(spec)], stdout=subprocess.PIPE, check=True
        ).stdout
        took += [time.monotonic() - began, _children_cpu() - used]
        _check(json.loads(said), options)
    seconds, cpu = min(took[::2]), min(took[1::2])
    values = {"seconds": seconds, "cpu_seconds": cpu, "files": float(_files(options))}
    return Measured(values, {"took": [round(each, 2) for each in took]})


def _check(plan: dict[str, Any], options: Options) -> None:
    found = {each["table"]: each["health"] for each in plan["tables"]}
    health = found[specs.table_name(options.format)]
    if health["files"] != _files(options):
        raise FailedError(f"{health['files']} files were seen")


def _files(options: Options) -> int:
    return options.commits * options.files


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
