"""How long nothing lands when a pipeline changes its owner, with a stand-by that is ready.

Two processes on this machine, as on two hosts: their pending store is in PostgreSQL. One is killed,
and the other one goes on; one is asked to hand over, and the gap between two commits is timed.
Records keep coming all the time. Commits that the killed owner had prepared do not count as new.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from tests.servers import postgresql

from benchmarks import records, recovery, specs, tables, topics
from benchmarks.children import Child
from benchmarks.meter import MIB, usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

OPTION = "--standby"


@dataclass(frozen=True, slots=True)
class Options:
    """So many kills and hand-overs under a producer of so many records a second."""

    kills: int = 10
    handovers: int = 10
    rest_seconds: float = 20.0
    rate: int = 2000
    every: str = "1s"
    format: Format = "iceberg"


def measure(options: Options, place: Scratch) -> Measured:
    """Kill, hand over, and look at one that only stands by; then count the rows."""
    place.topic(recovery.TOPIC, recovery.PARTITIONS)
    folder = place.subfolder("p")
    with postgresql.running() as server:
        spec = specs.write(
            folder,
            place.brokers,
            recovery.TOPIC,
            table_format=options.format,
            every=options.every,
            store=server.address(server.database()),
        )
        producer = recovery.producer(options.rate, place)
        found = _measured(options, place, spec)
        producer.stop()
        total = sum(topics.ends(place.brokers, recovery.TOPIC, recovery.PARTITIONS))
        last = place.penstock(spec, "--until-caught-up")
        for _ in last.lines():
            pass
        last.ended()
    tables.checked(folder, options.format, total)
    return Measured({**found.values, "rows": float(total)}, found.raw)


def _measured(options: Options, place: Scratch, spec: Path) -> Measured:
    draw = np.random.default_rng(records.SEED)
    owner = place.penstock(spec, OPTION)
    recovery.until_commits(owner, 3)
    standby = place.penstock(spec, OPTION)
    _until_ready(standby)
    before, began = usage_of(standby.root), time.monotonic()
    time.sleep(options.rest_seconds)
    rest = usage_of(standby.root)
    cores = (rest.seconds - before.seconds) / (time.monotonic() - began)
    new_commit: list[float] = []
    for _ in range(options.kills):
        time.sleep(draw.uniform(0.0, 1.5))
        killed = time.monotonic()
        owner.kill()
        new_commit.append(recovery.back(standby).new_commit - killed)
        owner, standby = standby, place.penstock(spec, OPTION)
        recovery.until_commits(owner, 2)
        _until_ready(standby)
    gaps: list[float] = []
    for _ in range(options.handovers):
        gaps.append(_handed_over(place, spec, owner, standby))
        owner, standby = standby, owner
        recovery.until_commits(owner, 2)
        _until_ready(standby)
    standby.stop()
    owner.stop()
    values = {
        "median_seconds": median(new_commit),
        "max_seconds": max(new_commit),
        "handover_median_seconds": median(gaps),
        "handover_max_seconds": max(gaps),
        "rest_cores": cores,
        "rest_mib": rest.resident_bytes / MIB,
        "kills": float(options.kills),
        "handovers": float(options.handovers),
    }
    return Measured(values, {"new_commit": new_commit, "handover": gaps})


def _until_ready(child: Child) -> None:
    for line in child.lines():
        if line["event"] == "StandbyChanged" and line["owner"] and not line["trouble"]:
            return
    raise child.failed("ended before it was ready")


def _handed_over(place: Scratch, spec: Path, owner: Child, standby: Child) -> float:
    """Hand over after a commit, and return the longest time between two commits meanwhile."""
    commits = _commits(owner, "TableCommitted")
    asking = place.start("penstock", "handover", str(spec), "--json", says="stdout")
    commits += [*_commits(owner, "PipelineStopped"), *_commits(standby, "TableCommitted")]
    asking.ended()
    return max(later - sooner for sooner, later in pairwise(commits))


def _commits(child: Child, until: str) -> list[float]:
    """Return when commits with rows were reported, up to an event; one with rows, if of commits."""
    found: list[float] = []
    for line in child.lines():
        has_rows = line["event"] == "TableCommitted" and line["rows"] > 0
        if has_rows:
            found.append(datetime.fromisoformat(line["time"]).timestamp())
        if line["event"] == until and (has_rows or line["event"] != "TableCommitted"):
            return found
    raise child.failed(f"ended before {until}")
