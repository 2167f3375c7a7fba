"""Where one core's time goes, stage by stage, without Spark, epochs and commits.

Two paths read the same range in one process each: the bound path's few calls, and our own rooms
(reader, converter, writer). What a client's threads use counts as reading.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks import topics
from benchmarks.making import TOPIC
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from penstock.engines.allocation import KEEPING_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Options:
    """So many records of one partition, read after as many that warm up."""

    records: int = 500_000


def measure(options: Options, place: Scratch) -> Measured:
    """Measure the bound path, then ours."""
    place.topic(TOPIC, 1)
    topics.fill(place.brokers, TOPIC, 1, 2 * options.records)
    values: dict[str, float] = {}
    for path in ("reference", "penstock"):
        order = {
            "path": path,
            "brokers": place.brokers,
            "topic": TOPIC,
            "records": options.records,
            "folder": str(place.subfolder(path[0])),
        }
        words = json.dumps(order)
        child = place.start("benchmarks.stages", words, environment=KEEPING_ENVIRONMENT)
        for line in child.lines():
            values |= {f"{path}_{stage}": seconds for stage, seconds in line["stages"].items()}
        child.ended()
    values["ratio"] = values["penstock_total"] / values["reference_total"]
    return Measured(values)
