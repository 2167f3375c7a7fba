"""Whether a pipeline grows: its memory over many small epochs, driver and Java separately."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import numpy as np

from benchmarks import specs, tables, topics
from benchmarks.meter import MIB, Samples, watched
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "memory"
PARTITIONS = 4
SAMPLE_SECONDS = 2.0
EDGE = 0.1
WARM_SHARE = 0.2
KEPT_SAMPLES = 120


@dataclass(frozen=True, slots=True)
class Options:
    """Epochs every so often for so many minutes; the first fifth of the time is warm-up."""

    minutes: float = 60.0
    rate: int = 400
    every: str = "250ms"
    format: Format = "iceberg"


def measure(options: Options, place: Scratch) -> Measured:
    """Watch one pipeline under a slow and steady producer."""
    place.topic(TOPIC, PARTITIONS)
    topics.fill(place.brokers, TOPIC, PARTITIONS, PARTITIONS)
    folder = place.subfolder("p")
    spec = specs.write(
        folder, place.brokers, TOPIC, table_format=options.format, every=options.every
    )
    child = place.penstock(spec)
    seconds = 60 * options.minutes
    order = {
        "brokers": place.brokers,
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "rate": options.rate,
        "seconds": seconds,
    }
    landed = commits = 0
    total = PARTITIONS + int(options.rate * seconds)
    with watched(child.root, SAMPLE_SECONDS) as samples:
        for line in child.lines():
            if line["event"] != "TableCommitted" or not line["rows"]:
                continue
            if not commits:
                producer = place.start("benchmarks.topics", json.dumps(order))
                began = time.monotonic()
            landed, commits = landed + line["rows"], commits + 1
            if landed >= total:
                break
    producer.ended()
    child.stop()
    tables.checked(folder, options.format, total)
    return Measured({"commits": float(commits), **_trends(samples, began)}, _thinned(samples))


def _trends(samples: Samples, began: float) -> dict[str, float]:
    """Return start, end and slope of each part's memory, without the warm-up."""
    last = samples.taken[-1][0]
    since = began + WARM_SHARE * (last - began)
    steady = [(at, usage) for at, usage in samples.taken if at >= since]
    hours = np.array([at - began for at, _ in steady]) / 3600
    edge = max(1, int(EDGE * len(steady)))
    values = {}
    for part in ("driver", "java", "worker"):
        mib = np.array([getattr(usage, f"{part}_bytes") for _, usage in steady]) / MIB
        values[f"{part}_start_mib"] = float(np.median(mib[:edge]))
        values[f"{part}_end_mib"] = float(np.median(mib[-edge:]))
        slope = np.polyfit(hours, mib, 1)[0] if len(steady) > 2 else 0.0
        values[f"{part}_mib_per_hour"] = float(slope)
    return values


def _thinned(samples: Samples) -> dict[str, list[list[float]]]:
    """Keep about so many samples: seconds, and MiB of driver, Java and workers."""
    first = samples.taken[0][0]
    step = max(1, len(samples.taken) // KEPT_SAMPLES)
    rows = [
        [at - first, usage.driver_bytes / MIB, usage.java_bytes / MIB, usage.worker_bytes / MIB]
        for at, usage in samples.taken[::step]
    ]
    return {"seconds_driver_java_workers_mib": [[round(cell, 1) for cell in row] for row in rows]}
