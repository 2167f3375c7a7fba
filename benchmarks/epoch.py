"""Small epochs back to back on warm Spark: full ones, ones of a few records, and empty ones.

An epoch takes from its plan to its commit; an empty one, which commits nothing, to the moment it is
prepared. The next one is planned while the last is committed. An empty epoch reads offsets that
hold only records of aborted transactions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from benchmarks import specs, tables, topics
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

WARM = 10
PARTITIONS = 4
OFFSETS_PER_ABORT = 2  # the record and the marker


@dataclass(frozen=True, slots=True)
class Options:
    """So many epochs of `epoch_records`, and so many tiny and empty ones."""

    epochs: int = 60
    epoch_records: int = 20_000
    tiny_epochs: int = 40


@dataclass(frozen=True, slots=True)
class Times:
    """When things happened to each epoch, in epoch milliseconds."""

    planned: dict[int, int]
    prepared: dict[int, int]
    committed: dict[int, int]


def measure(options: Options, place: Scratch) -> Measured:
    """Measure full epochs, the bound path's, then small ones."""
    total = (options.epochs + WARM) * options.epoch_records
    place.topic("full", PARTITIONS)
    topics.fill(place.brokers, "full", PARTITIONS, total)
    full = _run(place, "full", options.epoch_records, total)
    last = sorted(full.committed)[WARM:]
    whole = np.array([full.committed[each] - full.planned[each] for each in last])
    reading = np.array([full.prepared[each] - full.planned[each] for each in last])
    between = np.diff([full.committed[each] for each in last])
    reference = _reference(options, place)
    tiny, empty = _small(options.tiny_epochs, place)
    values = {
        "median_ms": float(np.median(whole)),
        "p90_ms": float(np.quantile(whole, 0.9)),
        "prepared_median_ms": float(np.median(reading)),
        "between_commits_median_ms": float(np.median(between)),
        "reference_median_ms": float(np.median(reference)),
        "median_ratio": float(np.median(whole) / np.median(reference)),
        "tiny_median_ms": float(np.median(tiny)),
        "empty_median_ms": float(np.median(empty)),
    }
    raw = {"ms": whole.tolist(), "tiny_ms": tiny, "empty_ms": empty}
    return Measured(values, {**raw, "reference_ms": [round(each) for each in reference]})


def _run(place: Scratch, topic: str, epoch_records: int, rows: int) -> Times:
    folder = place.subfolder("p")
    spec = specs.write(folder, place.brokers, topic, or_records=epoch_records)
    child = place.start("benchmarks.landing", str(spec))
    times = Times({}, {}, {})
    for line in child.lines():
        at = int(np.datetime64(line["time"].removesuffix("Z"), "ms").astype(np.int64))
        match line["event"]:
            case "EpochPlanned":
                times.planned[line["epoch"]] = at
            case "EpochPrepared":
                times.prepared[line["epoch"]] = at
            case "TableCommitted" if line["rows"]:
                times.committed[line["epoch"]] = at
    child.ended()
    tables.checked(folder, "iceberg", rows)
    return times


def _reference(options: Options, place: Scratch) -> list[float]:
    order = {
        "brokers": place.brokers,
        "topic": "full",
        "partitions": PARTITIONS,
        "epoch_records": options.epoch_records,
        "epochs": options.epochs + WARM,
        "folder": str(place.subfolder("r")),
    }
    child = place.start("benchmarks.reference_run", json.dumps(order))
    lines = [line for line in child.lines() if line["event"] == "TableCommitted"]
    child.ended()
    return [1000 * (line["job_seconds"] + line["commit_seconds"]) for line in lines[WARM:]]


def _small(count: int, place: Scratch) -> tuple[list[int], list[int]]:
    """Return the times of tiny and of empty epochs, in milliseconds."""
    offsets = PARTITIONS * OFFSETS_PER_ABORT
    full = (WARM + count) * offsets
    place.topic("small", PARTITIONS)
    topics.fill(place.brokers, "small", PARTITIONS, full)
    topics.abort(place.brokers, "small", PARTITIONS, count)
    times = _run(place, "small", offsets, full)
    tiny = [times.committed[e] - times.planned[e] for e in sorted(times.committed)[WARM:]]
    quiet = [each for each in sorted(times.prepared) if each not in times.committed]
    assert len(quiet) >= count // 2, "empty epochs came one by one"
    return tiny, [times.prepared[each] - times.planned[each] for each in quiet]
