"""One topic becomes many tables, by a `route` that makes them in flight.

The tables are made in the first epoch. Reported of the others: the time from one's last commit to
the next one's, how much longer that is for each table; the largest memory; and how many files any
process had open at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from benchmarks import specs, topics
from benchmarks.children import Child, FailedError
from benchmarks.meter import family, sampling, watched
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "fan"
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """So many tables get so many records, in epochs of `epoch_records`."""

    tables: int = 100
    records: int = 200_000
    epoch_records: int = 50_000
    format: Format = "iceberg"


def measure(options: Options, place: Scratch) -> Measured:
    """Land the same records into one table, then into many."""
    place.topic(TOPIC, PARTITIONS)
    topics.fill(place.brokers, TOPIC, PARTITIONS, options.records)
    one = _landed(options, place, 1)
    many = _landed(options, place, options.tables)
    extra = many["epoch_ms"] - one["epoch_ms"]
    values = {
        "one_epoch_ms": one["epoch_ms"],
        "many_epoch_ms": many["epoch_ms"],
        "table_ms": extra / max(options.tables - 1, 1),
        "one_peak_mib": one["peak_mib"],
        "many_peak_mib": many["peak_mib"],
        "open_files": many["open_files"],
        "result_kib": many["result_kib"],
    }
    return Measured(values, {"one": one, "many": many})


def _landed(options: Options, place: Scratch, tables: int) -> dict[str, Any]:
    folder = place.subfolder("f")
    child = place.penstock(_spec(options, place, folder, tables), "--until-caught-up")
    committed: dict[int, int] = {}
    found: set[str] = set()
    rows = 0
    with watched(child.root) as samples, _open_files(child) as most:
        for line in child.lines():
            at = int(np.datetime64(line["time"].removesuffix("Z"), "ms").astype(np.int64))
            if line["event"] == "TableCommitted" and line["rows"]:
                rows += line["rows"]
                found.add(line["table"])
                committed[line["epoch"]] = at
    child.ended()
    if (rows, len(found)) != (options.records, tables):
        raise FailedError(f"{options.records} records were sent; {rows} in {len(found)} tables")
    took = np.diff([committed[epoch] for epoch in sorted(committed)]).tolist()
    return {
        "epoch_ms": float(median(took)),
        "epochs_ms": took,
        "peak_mib": samples.peak_mib,
        "open_files": float(max(most)),
        "result_kib": _pending_kib(folder),
    }


def _spec(options: Options, place: Scratch, folder: Path, tables: int) -> Path:
    path = specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=options.format,
        or_records=options.epoch_records,
    )
    route(path, tables)
    return path


def route(path: Path, tables: int) -> None:
    """Let a spec lead its records to so many tables, by their ids."""
    spec = json.loads(path.read_text())
    (table,) = spec["tables"]
    table["into"] += "_{n}"
    table["route"] = {"n": f"cast(id % {tables} as varchar)"}
    table["unknown_tables"] = "create"
    # Of a field that only some tables meet at first, all are reported.
    table["schema"]["hints"] |= {"id": "long", "amount": "double", "device.model": "string"}
    spec["limits"] = {"tables": max(tables, 1)}
    path.write_text(json.dumps(spec, indent=2))


@contextmanager
def _open_files(child: Child, every_seconds: float = 0.2) -> Iterator[list[int]]:
    """Sample how many files the busiest process of a tree has open; Java's jars do not count."""
    most = [0]

    def sample() -> None:
        for process in family(child.root):
            with suppress(psutil.Error):
                if process.name() != "java":
                    most.append(process.num_fds())

    with sampling(sample, every_seconds):
        yield most


def _pending_kib(folder: Path) -> float:
    """Return the size of the pending store, which held each epoch's descriptions of files."""
    return sum(path.stat().st_size for path in (folder / "state").iterdir()) / 1024
