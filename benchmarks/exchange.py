"""Rows of one key meet in one task: by files that tasks write and read, or by Spark's shuffle.

On a standalone cluster with two executors of one core; driver, master, workers and executors share
this machine. Each way takes the same slices of converted rows and keeps the last row of each key;
the ways take turns, and every way must keep the same number of rows.

- *files*: two runs of the engine. A task writes its slice as one file of Arrow streams, one each
  of 64 ranges of the key's hash; a task of the second run reads its ranges of every file.
- *blobs*: one job; a task gives Spark one blob for each bucket, `repartitionById` places them.
- *rows*: one job; the rows themselves go through Spark, placed by their key.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
from tests.servers import spark

from benchmarks import exchange_work as body
from benchmarks.children import FailedError
from benchmarks.machine import ROOT
from benchmarks.meter import usage_of
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import SparkSettings

COLUMNS = (
    "id long, offset long, n0 long, n1 long, n2 long, n3 long, d0 double, d1 double, d2 double"
)
COLUMNS = f"{COLUMNS}, city string, note string"
WAYS = ("files", "blobs", "rows")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """`slices` of `slice_records` meet in `buckets`, in `rounds` after one that warms up."""

    slices: int = 8
    slice_records: int = 125_000
    buckets: int = 4
    rounds: int = 5


def measure(options: Options, place: Scratch) -> Measured:
    """Measure all ways in turn, round by round."""
    folder = place.subfolder("exchange")
    paths = [str(folder / f"slice-{number}.arrow") for number in range(options.slices)]
    for number, path in enumerate(paths):
        _write(body.made(number, options.slice_records), path)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    cpu: dict[str, list[float]] = {way: [] for way in WAYS}
    kept: set[int] = set()
    with _engine(place) as (engine, roots):
        ways = _ways(engine, paths, folder, options)
        for number in range(options.rounds + 1):
            for way in WAYS:
                begun, used = time.monotonic(), _used(roots)
                kept.add(ways[way]())
                if number:
                    seconds[way].append(time.monotonic() - begun)
                    cpu[way].append(_used(roots) - used)
    if len(kept) != 1:
        raise FailedError(f"the ways kept different rows: {sorted(kept)}")
    per_million = MILLION / (options.slices * options.slice_records)
    values = {
        **{f"{way}_ms": median(seconds[way]) * 1000 for way in WAYS},
        **{f"{way}_cpu_seconds_per_million": median(cpu[way]) * per_million for way in WAYS},
        "blobs_cpu_ratio": median(cpu["blobs"]) / median(cpu["files"]),
        "rows_cpu_ratio": median(cpu["rows"]) / median(cpu["files"]),
        "blobs_time_ratio": median(seconds["blobs"]) / median(seconds["files"]),
    }
    return Measured(values, {"seconds": seconds, "cpu": cpu, "kept": kept.pop()})


def _write(table: pa.Table, path: str) -> None:
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@contextmanager
def _engine(place: Scratch) -> Iterator[tuple[SparkEngine, list[psutil.Process]]]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path}
    with spark.running(
        place.subfolder("cluster"), memory="1500m", environment=environment
    ) as there:
        conf = {
            "spark.pyspark.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "1g",
            "spark.sql.adaptive.enabled": "false",
        }
        settings = SparkSettings(master=there.address, conf=conf)
        engine = SparkEngine(settings=settings, work="benchmarks.exchange_work:work").warm()
        try:
            yield engine, [psutil.Process(), *map(psutil.Process, there.workers)]
        finally:
            engine.close()


def _used(roots: list[psutil.Process]) -> float:
    return sum(usage_of(root).seconds for root in roots)


def _ways(
    engine: SparkEngine, paths: list[str], folder: Path, options: Options
) -> dict[str, Callable[[], int]]:
    session: Any = engine._spark  # noqa: SLF001 - the shuffle needs the session itself

    def files() -> int:
        jobs = [json.dumps({"rows": path, "into": f"{path}.exchange"}) for path in paths]
        written = engine.run(jobs)
        read = engine.run(body.bucket_jobs(written, options.buckets))
        for each in folder.glob("*.exchange"):
            each.unlink()
        return sum(json.loads(result)["rows"] for result in read)

    def slices() -> Any:
        return session.range(0, len(paths), 1, len(paths))

    def blobs() -> int:
        cut = partial(body.by_blobs, paths=paths, buckets=options.buckets)
        placed = slices().mapInArrow(cut, "bucket int, blob binary")
        placed = placed.repartitionById(options.buckets, "bucket")
        return sum(row[0] for row in placed.mapInArrow(body.together, "rows long").collect())

    def rows() -> int:
        found = slices().mapInArrow(partial(body.by_rows, paths=paths), COLUMNS)
        placed = found.repartition(options.buckets, "id")
        return sum(row[0] for row in placed.mapInArrow(body.rows_together, "rows long").collect())

    return {"files": files, "blobs": blobs, "rows": rows}
