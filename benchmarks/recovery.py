"""How long nothing lands after SIGKILL: from the kill to the first commit of records read again.

The killed process is started again at once, as a supervisor would; records keep coming all the
time. Commits that the killed life had prepared do not count as new, however soon they land.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks import records, specs, tables, topics
from benchmarks.children import Child
from benchmarks.meter import usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "recovery"
PARTITIONS = 4
SETTLING = {"TableCommitted", "CommitFoundLanded", "CommitAborted"}
PRODUCER_SECONDS_MAX = 86_400  # it is stopped long before


@dataclass(frozen=True, slots=True)
class Options:
    """So many kills under a producer of so many records a second."""

    kills: int = 10
    rate: int = 5000
    every: str = "1s"
    format: Format = "iceberg"


@dataclass(frozen=True, slots=True)
class Back:
    """When a new life had claimed the pipeline, landed anything, and landed something new."""

    started: float
    any_commit: float
    new_commit: float


def measure(options: Options, place: Scratch) -> Measured:
    """Kill, start again, wait; then count the rows."""
    place.topic(TOPIC, PARTITIONS)
    folder = place.subfolder("p")
    spec = specs.write(
        folder, place.brokers, TOPIC, table_format=options.format, every=options.every
    )
    sending = producer(options.rate, place)
    child, draw = place.penstock(spec), np.random.default_rng(records.SEED)
    started: list[float] = []
    any_commit: list[float] = []
    new_commit: list[float] = []
    used: list[float] = []
    until_commits(child, 3)
    for _ in range(options.kills):
        time.sleep(draw.uniform(0.0, 1.5))
        killed = time.monotonic()
        child.kill()
        child = place.penstock(spec)
        returned = back(child)
        used.append(usage_of(child.root).seconds)
        started.append(returned.started - killed)
        any_commit.append(returned.any_commit - killed)
        new_commit.append(returned.new_commit - killed)
        until_commits(child, 2)
    sending.stop()
    child.stop()
    total = sum(topics.ends(place.brokers, TOPIC, PARTITIONS))
    last = place.penstock(spec, "--until-caught-up")
    for _ in last.lines():
        pass
    last.ended()
    tables.checked(folder, options.format, total)
    values = {
        "median_seconds": median(new_commit),
        "max_seconds": max(new_commit),
        "started_median_seconds": median(started),
        "any_commit_median_seconds": median(any_commit),
        "cpu_median_seconds": median(used),
        "kills": float(options.kills),
        "rows": float(total),
    }
    raw = {"started": started, "any_commit": any_commit, "new_commit": new_commit, "cpu": used}
    return Measured(values, raw)


def producer(rate: int, place: Scratch) -> Child:
    """Start what sends so many records a second, until it is stopped."""
    order = {
        "brokers": place.brokers,
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "rate": rate,
        "seconds": PRODUCER_SECONDS_MAX,
    }
    child = place.start("benchmarks.topics", json.dumps(order))
    assert next(child.lines())["event"] == "Ready"
    return child


def until_commits(child: Child, count: int) -> None:
    """Wait for so many commits with rows."""
    for line in child.lines():
        count -= line["event"] == "TableCommitted" and line["rows"] > 0
        if not count:
            return
    raise child.failed("ended too soon")


def back(child: Child) -> Back:
    """Follow a new life until something new has landed."""
    pending, started, first = 0, 0.0, 0.0
    for line in child.lines():
        if line["event"] == "PipelineStarted":
            pending, started = line["pending"], time.monotonic()
        if line["event"] not in SETTLING:
            continue
        landed = line["event"] == "TableCommitted" and line["rows"] > 0
        first = first or (time.monotonic() if landed else 0.0)
        if landed and not pending:
            return Back(started, first, time.monotonic())
        pending = max(0, pending - 1)
    raise child.failed("ended before anything landed")
