"""How old a record is when its row can be read: from the producer's clock to our commit's line.

A record's time is the one its producer gave it; its row is there when the commit of its epoch is
reported, which is after it was read back. Both are the same machine's clock. With maintenance, the
files that landed are read for it, whatever became of them: none is deleted before the end.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
LOOK_SECONDS = 20
BESIDE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """A steady rate for so long, the first `warm_seconds` of which are not counted.

    With `keyed_rows` they are changes of random keys, into a keyed table of so many rows. With
    `maintain` the run maintains the table so often, whose files older than `newest_seconds` count;
    `partitions` are values that the table is partitioned by.
    """

    rate: int = 5000
    seconds: int = 60
    warm_seconds: int = 10
    every: str = "1s"
    format: Format = "iceberg"
    keyed_rows: int = 0
    partitions: int = 0
    maintain: str = ""
    newest_seconds: int = 120


@dataclass(slots=True)
class Layouts:
    """How many files of a table there are beyond the newest, over how many would do.

    The newest are those that landed in the last `newest_seconds` and are as they landed. One file
    for each partition would do: what lands here does not fill one.
    """

    folder: Path
    options: Options
    ratios: list[float] = field(default_factory=list)

    def look(self) -> None:
        """List the live files; each bears the time of its writing."""
        latest = time.time() - self.options.newest_seconds
        live = tables.live_files(self.folder, self.options.format)
        old = [
            each
            for each in map(Path, live)
            if not tables.is_landed(each) or _written(each) < latest
        ]
        if old:
            self.ratios.append(len(old) / max(self.options.partitions, 1))


@dataclass(slots=True)
class Beside:
    """What the processes use that maintain tables beside a run, as they were last seen."""

    root: psutil.Process
    seconds: dict[int, float] = field(default_factory=dict)

    def look(self) -> None:
        """See which there are, and what each has used."""
        for each in self.root.children():
            with suppress(psutil.Error):
                if "maintain" in each.cmdline():
                    times = each.cpu_times()
                    self.seconds[each.pid] = times.user + times.system


def _written(file: Path) -> float:
    return file.stat().st_mtime


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
        partition_by=[f"bucket({options.partitions}, id)"] if options.partitions else [],
        rule=keyed.KEYED if options.keyed_rows else {},
        maintain={"every": options.maintain} if options.maintain else {},
    )
    child = place.penstock(spec)
    commits: dict[int, int] = {}
    landed = _take(child, commits, first)
    producer = _producer(options, place)
    time.sleep(options.warm_seconds)
    since_ms, began, before = now_ms(), time.monotonic(), usage_of(child.root)
    layouts, beside = Layouts(folder, options), Beside(child.root)
    total = first + options.rate * (options.warm_seconds + options.seconds)
    with sampling(layouts.look, LOOK_SECONDS), sampling(beside.look, BESIDE_SECONDS):
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
        "maintenance_cores": sum(beside.seconds.values()) / seconds,
        "old_files_ratio": max(layouts.ratios, default=0.0),
    }
    raw = {"records": len(waited), "options": asdict(options), "old_files_ratios": layouts.ratios}
    return Measured(values, raw)


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
