"""How old a record is when its row can be read: from the producer's clock to our commit's line.

A record's time is the one its producer gave it; its row is there when the commit of its epoch is
reported, which is after it was read back. Both are the same machine's clock.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import keyed, records, specs, tables, topics
from benchmarks.children import Child, now_ms
from benchmarks.meter import usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "fresh"
PARTITIONS = 4
FIRST = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """A steady rate for so long, the first `warm_seconds` of which are not counted.

    With `keyed_rows` they are changes of random keys, into a keyed table of so many rows.
    """

    rate: int = 5000
    seconds: int = 60
    warm_seconds: int = 10
    every: str = "1s"
    format: Format = "iceberg"
    keyed_rows: int = 0


def measure(options: Options, place: Scratch) -> Measured:
    """Measure one pipeline under a steady producer."""
    place.topic(TOPIC, PARTITIONS)
    first = options.keyed_rows or FIRST
    topics.fill(place.brokers, TOPIC, PARTITIONS, first)
    folder = place.subfolder("p")
    spec = specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=options.format,
        every=options.every,
        rule=keyed.KEYED if options.keyed_rows else {},
    )
    child = place.penstock(spec)
    commits: dict[int, int] = {}
    landed = _take(child, commits, first)
    producer = _producer(options, place)
    time.sleep(options.warm_seconds)
    since_ms, began, before = now_ms(), time.monotonic(), usage_of(child.root)
    total = first + options.rate * (options.warm_seconds + options.seconds)
    _take(child, commits, total - landed)
    used, seconds = usage_of(child.root).seconds - before.seconds, time.monotonic() - began
    producer.ended()
    child.stop()
    if options.keyed_rows:
        drawn = records.updated_keys(first, total, options.keyed_rows, PARTITIONS)
        keyed.check_offsets(folder, options.format, PARTITIONS, options.keyed_rows, drawn)
    else:
        tables.checked(folder, options.format, total)
    paths = tables.live_files(folder, options.format)
    waited = tables.latencies(paths, commits, since_ms)
    values = {
        "p50_seconds": float(np.quantile(waited, 0.5)),
        "p99_seconds": float(np.quantile(waited, 0.99)),
        "max_seconds": float(waited.max()),
        "cores": used / seconds,
        "commits": float(len(commits)),
        "files": float(len(paths)),
    }
    return Measured(values, {"records": len(waited), "options": asdict(options)})


def _producer(options: Options, place: Scratch) -> Child:
    order = {
        "brokers": place.brokers,
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "rate": options.rate,
        "seconds": options.warm_seconds + options.seconds,
        "keyed_rows": options.keyed_rows,
    }
    producer = place.start("benchmarks.topics", json.dumps(order))
    assert next(producer.lines())["event"] == "Ready"
    return producer


def _take(child: Child, commits: dict[int, int], rows: int) -> int:
    """Note commits by epoch until so many records have landed; give how many have."""
    landed: int = 0
    for line in child.lines():
        if line["event"] == "TableCommitted" and line["rows"]:
            at = np.datetime64(line["time"].removesuffix("Z"), "ms")
            commits[line["epoch"]] = int(at.astype(np.int64))
            landed += line["rows"] + line["changes"].get("superseded", 0)
            if landed >= rows:
                return landed
    raise child.failed(f"ended when {landed} of {rows} rows had landed")
