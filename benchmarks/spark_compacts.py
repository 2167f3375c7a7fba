"""Spark writes small files again as one, by the procedures that are there for it.

A process of its own, ordered by JSON: the `origin` is a folder of Parquet files that is a Delta
table as well; `warm` rounds come first and `rounds` are told. In each, Delta's OPTIMIZE is given a
copy of the folder, and Iceberg's `rewrite_data_files` a table to which the files of another copy
were added. CPU is that of the whole process tree while the statement runs, Java's foremost.

Invariant: each leaves one file with all rows, as a reader finds that is not Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks import peers, tables
from benchmarks.children import FailedError
from benchmarks.meter import usage_of
from benchmarks.scratch import Scratch
from benchmarks.spark_reads import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 600.0
WARM = 2


def compact(place: Scratch, origin: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each round of each procedure.

    Raises FailedError where one left more files, or other rows.
    """
    order = {
        "folder": str(place.subfolder("s")),
        "origin": str(origin),
        "warm": WARM,
        "rounds": rounds,
    }
    child = place.start("benchmarks.spark_compacts", json.dumps(order))
    spent: dict[str, list[float]] = {}
    for line in child.lines(PATIENCE_SECONDS):
        files = peers.live_files(Path(line["table"]))
        if len(files) != 1:
            raise FailedError(f"{line['name']} left {len(files)} files")
        tables.whole(files, rows)
        if not line["warm"]:
            spent.setdefault(line["name"], []).append(round(line["cpu"], 3))
    child.ended()
    return spent


def main(order: Mapping[str, Any]) -> None:
    """Compact as ordered; tell of each statement what it took, and where its table is."""
    folder = Path(order["folder"])
    spark = session(folder)
    for key in ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"):
        spark.conf.set(key, os.cpu_count() or 1)  # hundreds are for hundreds of cores
    own = psutil.Process()
    prepare: dict[str, Callable[[SparkSession, Path, str], tuple[str, Path]]] = {
        "optimize": _delta,
        "rewrite": _iceberg,
    }
    for number in range(order["warm"] + order["rounds"]):
        for name in sorted(prepare, reverse=number % 2 == 1):
            copy = folder / f"{name}-{number}"
            shutil.copytree(order["origin"], copy)
            statement, table = prepare[name](spark, copy, f"copies.bench.n{number}")
            used = usage_of(own).seconds
            spark.sql(statement).collect()
            cpu = usage_of(own).seconds - used
            warm = number < order["warm"]
            line = {"name": name, "warm": warm, "cpu": cpu, "table": str(table)}
            print(json.dumps(line), flush=True)
    spark.stop()


def _delta(_spark: SparkSession, copy: Path, _name: str) -> tuple[str, Path]:
    return f"optimize delta.`{copy}`", copy


def _iceberg(spark: SparkSession, copy: Path, name: str) -> tuple[str, Path]:
    """Add the files to a table of the same compression, as they are."""
    like = spark.read.parquet(str(copy)).limit(0).writeTo(name).using("iceberg")
    like.tableProperty("write.parquet.compression-codec", "snappy").create()
    source = f"source_table => '`parquet`.`{copy}`'"
    spark.sql(f"call copies.system.add_files(table => '{name}', {source})").collect()
    table = copy.parent / "lake" / "bench" / name.rpartition(".")[2]
    return f"call copies.system.rewrite_data_files(table => '{name}')", table


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
