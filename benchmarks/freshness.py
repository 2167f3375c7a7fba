"""How old a record is when its row can be read: from the producer's clock to our commit's line.

A record's time is the one its producer gave it; its row is there when the commit of its epoch is
reported, which is after it was read back. Both are the same machine's clock. The files that epochs
wrote are read for it, whatever maintenance made of them: none is deleted before the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import keyed, records, specs, tables, topics
from benchmarks.children import Child, now_ms
from benchmarks.meter import sampling, usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

TOPIC = "fresh"
PARTITIONS = 4
FIRST = 1000
LAYOUT_EVERY_SECONDS = 20
BESIDE_EVERY_SECONDS = 0.2


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

    def in_spec(self) -> dict[str, Any]:
        """Return what the spec has besides."""
        return {"rule": keyed.KEYED} if self.keyed_rows else {}


@dataclass(frozen=True, slots=True)
class MaintainedOptions(Options):
    """A table that is partitioned by so many values, and maintained by the run every so often.

    Files that landed in the last `newest_seconds`, and are as they landed, are not counted.
    """

    seconds: int = 600
    partitions: int = 24
    maintain: str = "1m"
    newest_seconds: int = 120

    def in_spec(self) -> dict[str, Any]:
        """Return what the spec has besides."""
        parts = [f"bucket({self.partitions}, id)"]
        return {"partition_by": parts, "maintain": {"every": self.maintain}}


Watch = Callable[[psutil.Process, Path], AbstractContextManager[object]]
"""Watches a run, and the folder of its tables, inside a `with` block."""


def measure(options: Options, place: Scratch) -> Measured:
    """Measure one pipeline under a steady producer."""
    return _measured(options, place, lambda _run, _folder: nullcontext())


def measure_maintained(options: MaintainedOptions, place: Scratch) -> Measured:
    """Measure one whose table is maintained meanwhile, and what becomes of its files."""
    beside, ratios = Beside(), list[float]()

    @contextmanager
    def watching(run: psutil.Process, folder: Path) -> Iterator[None]:
        def look() -> None:
            ratios.append(_old_files(folder, options) / options.partitions)

        def see() -> None:
            beside.see(run)

        with sampling(look, LAYOUT_EVERY_SECONDS), sampling(see, BESIDE_EVERY_SECONDS):
            yield

    found = _measured(options, place, watching)
    cores = sum(beside.seconds.values()) / options.seconds
    more = {"maintenance_cores": cores, "old_files_ratio": max(ratios)}
    return Measured({**found.values, **more}, {**found.raw, "old_files_ratios": ratios})


@dataclass(slots=True)
class Beside:
    """What the processes use that maintain tables beside a run, as they were last seen."""

    seconds: dict[int, float] = field(default_factory=dict)

    def see(self, run: psutil.Process) -> None:
        """See which there are, and what each has used."""
        for each in run.children():
            with suppress(psutil.Error):
                if "maintain" in each.cmdline():
                    times = each.cpu_times()
                    self.seconds[each.pid] = times.user + times.system


def _old_files(folder: Path, options: MaintainedOptions) -> int:
    """Count the live files of a table but for the newest."""
    latest = time.time() - options.newest_seconds
    live = map(Path, tables.live_files(folder, options.format))
    return sum(not tables.is_landed(each) or each.stat().st_mtime < latest for each in live)


def _measured(options: Options, place: Scratch, watch: Watch) -> Measured:
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
        **options.in_spec(),
    )
    child = place.penstock(spec)
    commits: dict[int, int] = {}
    landed = _take(child, commits, first)
    producer = _producer(options, place)
    time.sleep(options.warm_seconds)
    since_ms, began, before = now_ms(), time.monotonic(), usage_of(child.root)
    total = first + options.rate * (options.warm_seconds + options.seconds)
    with watch(child.root, folder):
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
    waited = tables.latencies(tables.landed_files(folder), commits, since_ms)
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
