"""Rows become records of a topic, in one transaction: our packer and sender, and librdkafka.

Each way is a process of its own that has the rows in memory before it is measured, ours as Arrow
columns, librdkafka's as Python bytes. The ways take turns; each round has a new topic, and counts
what its transaction made visible. CPU is the process's own, without the broker's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks import topics
from benchmarks.children import FailedError
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

WAYS = ("own", "librdkafka")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """So many `records`, with a key of 7 bytes or none, in `rounds` after one that warms up."""

    records: int = MILLION
    partitions: int = 4
    codec: str = "lz4"
    keyed: bool = True
    rounds: int = 3


def measure(options: Options, place: Scratch) -> Measured:
    """Measure both ways in turn, round by round."""
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(options.rounds + 1):
        for way in WAYS:
            found = _round(way, f"{way}-{number}", options, place)
            if number:
                rounds[way].append(found)
    per_million = MILLION / options.records
    cpu = {way: median(each["cpu"] for each in rounds[way]) * per_million for way in WAYS}
    rate = {way: options.records / median(each["seconds"] for each in rounds[way]) for way in WAYS}
    broker = {way: median(each["broker"] for each in rounds[way]) * per_million for way in WAYS}
    values = {
        **{f"{way}_rows_per_second": rate[way] for way in WAYS},
        **{f"{way}_cpu_seconds_per_million": cpu[way] for way in WAYS},
        **{f"{way}_broker_seconds_per_million": broker[way] for way in WAYS},
        "cpu_ratio": cpu["librdkafka"] / cpu["own"],
        "rate_ratio": rate["own"] / rate["librdkafka"],
        "record_bytes": rounds["own"][0]["record_bytes"],
    }
    return Measured(values, {"rounds": rounds})


def _round(way: str, topic: str, options: Options, place: Scratch) -> dict[str, Any]:
    place.topic(topic, options.partitions)
    order = {"way": way, "topic": topic, "brokers": place.brokers, **asdict(options)}
    child = place.start("benchmarks.produce_work", json.dumps(order))
    found: dict[str, Any] = {}
    for line in child.lines():
        if line["event"] == "Began":
            found["broker"] = -place.broker_seconds()
        else:
            found |= line
            found["broker"] += place.broker_seconds()
    child.ended()
    held = sum(topics.ends(place.brokers, topic, options.partitions))
    if held != options.records + options.partitions:  # and a marker in each
        raise FailedError(f"{topic} holds {held} offsets, {options.records} records were sent")
    return found
