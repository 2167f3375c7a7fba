"""A backlog is landed by one executor and by two, of one core each, on a standalone Spark cluster.

Driver, master, workers, executors and broker share this machine, so with two cores the second
executor has no core to itself: the figure shows what a cluster costs here, not how far one scales.
Each number of executors has a cluster of its own, and they take turns.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import median

from tests.servers import spark

from benchmarks import specs, tables, topics
from benchmarks.drain import MILLION, Leg, followed
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

TOPIC = "cluster"
EXECUTORS = (1, 2)


@dataclass(frozen=True, slots=True)
class Options:
    """About `records` are timed, in epochs of `epoch_records`, after as many that warm up."""

    records: int = 500_000
    epoch_records: int = 250_000
    partitions: int = 4
    rounds: int = 2


def measure(options: Options, place: Scratch) -> Measured:
    """Measure one executor and two in turn."""
    total = options.records + options.epoch_records
    place.topic(TOPIC, options.partitions)
    topics.fill(place.brokers, TOPIC, options.partitions, total)
    legs: dict[int, list[Leg]] = defaultdict(list)
    for _ in range(options.rounds):
        for executors in EXECUTORS:
            legs[executors].append(_landed(options, place, total, executors))
    rates = {executors: median(leg.rate for leg in found) for executors, found in legs.items()}
    cpu = {
        executors: median(leg.java_seconds + leg.python_seconds for leg in found)
        for executors, found in legs.items()
    }
    values = {
        "one_rows_per_second": rates[1],
        "two_rows_per_second": rates[2],
        "rate_ratio": rates[2] / rates[1],
        "one_driver_seconds_per_million": cpu[1] / options.records * MILLION,
        "two_driver_seconds_per_million": cpu[2] / options.records * MILLION,
    }
    raw = {str(executors): [asdict(leg) for leg in found] for executors, found in legs.items()}
    return Measured(values, raw)


def _landed(options: Options, place: Scratch, total: int, executors: int) -> Leg:
    folder = place.subfolder("p")
    path = specs.write(folder, place.brokers, TOPIC, or_records=options.epoch_records)
    with spark.running(
        place.subfolder("c"), workers=executors, memory="1g", environment=dict(os.environ)
    ) as cluster:
        spec = json.loads(path.read_text())
        spec["spark"] = {
            "master": cluster.address,
            "shared_directories": True,
            "conf": {
                "spark.pyspark.python": sys.executable,
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
            },
        }
        path.write_text(json.dumps(spec, indent=2))
        leg = followed(
            place.penstock(path, "--until-caught-up"), place, warm_rows=options.epoch_records
        )
    found = tables.checked(folder, "iceberg", total)
    return Leg(**leg, files=found.files, size_bytes=found.size_bytes)
