"""A backlog is landed as fast as it goes, next to the bound path on the same topic.

What lands first is left out, as many rows as an epoch has: it starts Spark's workers and warms Java
up, and in Penstock the table is created from it.
The two take turns, so that both meet what else happens on the machine.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks import specs, tables, topics
from benchmarks.children import Child
from benchmarks.meter import Usage, usage_of, watched
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "drain"
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """About `records` are timed, in epochs of `epoch_records`, after as many that warm up."""

    records: int = 5_000_000
    epoch_records: int = 1_000_000
    partitions: int = 4
    format: Format = "iceberg"
    rounds: int = 3
    source_columns: bool = True
    reader: str = "columnar"


@dataclass(frozen=True, slots=True)
class Leg:
    """How one run went between the commit that ended its warm-up and its last."""

    rows: int
    seconds: float
    java_seconds: float
    python_seconds: float
    broker_seconds: float
    peak_mib: float
    files: int
    size_bytes: int

    @property
    def rate(self) -> float:
        """Return rows per second."""
        return self.rows / self.seconds

    @property
    def cpu(self) -> float:
        """Return CPU seconds per million rows."""
        return (self.java_seconds + self.python_seconds) / self.rows * MILLION


def measure(options: Options, place: Scratch) -> Measured:
    """Measure both paths in turn."""
    total = options.records + options.epoch_records
    place.topic(TOPIC, options.partitions)
    record_bytes = topics.fill(place.brokers, TOPIC, options.partitions, total)
    bound, ours = [], []
    for _ in range(options.rounds):
        bound.append(_reference(options, place, total))
        ours.append(_penstock(options, place, total))
    values = {
        "rows_per_second": _middle(ours, "rate"),
        "cpu_seconds_per_million": _middle(ours, "cpu"),
        "java_seconds_per_million": _per_million(ours, "java_seconds"),
        "python_seconds_per_million": _per_million(ours, "python_seconds"),
        "broker_seconds_per_million": _per_million(ours, "broker_seconds"),
        "peak_mib": _middle(ours, "peak_mib"),
        "files": _middle(ours, "files"),
        "bytes_per_record": ours[-1].size_bytes / total,
        "record_bytes": record_bytes,
        "reference_rows_per_second": _middle(bound, "rate"),
        "reference_cpu_seconds_per_million": _middle(bound, "cpu"),
        "rate_ratio": median(o.rate / b.rate for o, b in zip(ours, bound, strict=True)),
        "cpu_ratio": median(o.cpu / b.cpu for o, b in zip(ours, bound, strict=True)),
    }
    raw = {"penstock": [asdict(leg) for leg in ours], "reference": [asdict(leg) for leg in bound]}
    return Measured(values, raw)


def _penstock(options: Options, place: Scratch, total: int) -> Leg:
    folder = place.subfolder("p")
    spec = specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=options.format,
        or_records=options.epoch_records,
        source_columns=None if options.source_columns else (),
        reader=options.reader,
    )
    child = place.penstock(spec, "--until-caught-up")
    leg = followed(child, place, warm_rows=options.epoch_records)
    found = tables.checked(folder, options.format, total)
    return Leg(**leg, files=found.files, size_bytes=found.size_bytes)


def _reference(options: Options, place: Scratch, total: int) -> Leg:
    folder = place.subfolder("r")
    order = {
        "brokers": place.brokers,
        "topic": TOPIC,
        "partitions": options.partitions,
        "epoch_records": options.epoch_records,
        "epochs": total // options.epoch_records,
        "folder": str(folder),
    }
    child = place.start("benchmarks.reference_run", json.dumps(order))
    leg = followed(child, place, warm_rows=options.epoch_records)
    found = tables.checked(folder, "iceberg", total)
    return Leg(**leg, files=found.files, size_bytes=found.size_bytes)


def followed(child: Child, place: Scratch, *, warm_rows: int) -> dict[str, Any]:
    """Follow a child's commits; give what it took from the end of its warm-up to the last."""
    readings: list[tuple[float, int, Usage, float]] = []
    rows = 0
    with watched(child.root) as samples:
        for line in child.lines():
            if line["event"] == "TableCommitted" and line["rows"]:
                rows += line["rows"]
                if rows >= warm_rows:
                    usage, broker = usage_of(child.root), place.broker_seconds()
                    readings.append((time.monotonic(), rows, usage, broker))
    child.ended()
    assert len(readings) > 1, "there is an epoch to measure after the warm-up"
    began, warm, before, broker_before = readings[0]
    ended, rows, after, broker_after = readings[-1]
    return {
        "rows": rows - warm,
        "seconds": ended - began,
        "java_seconds": after.java_seconds - before.java_seconds,
        "python_seconds": after.python_seconds - before.python_seconds,
        "broker_seconds": broker_after - broker_before,
        "peak_mib": samples.peak_mib,
    }


def _middle(legs: list[Leg], name: str) -> float:
    return float(median(getattr(leg, name) for leg in legs))


def _per_million(legs: list[Leg], name: str) -> float:
    return float(median(getattr(leg, name) / leg.rows * MILLION for leg in legs))
