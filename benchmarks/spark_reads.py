"""Spark reads tables, each next to a compacted copy of it: what a reader pays for row deletes.

A process of its own, ordered by JSON: `tables` by name, each with its `format` and where it is
`at`; the `columns` of rows that are handed back, and `rounds`. All tables and copies are read once
to warm up, then in turn, so that all meet what else happens on the machine.

Invariant: a copy holds the rows that Spark finds in the table, in as many files as there are cores.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from tests.servers.jars import DELTA_READER, SPARK_READER, class_path

from benchmarks.meter import usage_of
from benchmarks.scratch import Scratch
from benchmarks.specs import TABLE, Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_SECONDS = 600.0
READ = "select count(*), sum(amount) from it"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: the metadata file of an Iceberg table, the folder of a Delta table."""

    format: Format
    at: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Medians of the table and of its copy, and the rows that Spark found."""

    seconds: float
    cpu: float
    copy_seconds: float
    copy_cpu: float
    rows: pa.Table

    def values(self, name: str) -> dict[str, float]:
        """Return the numbers that are reported, each with a name in front."""
        return {
            f"{name}_read_seconds": self.seconds,
            f"{name}_read_cpu": self.cpu,
            f"{name}_read_cpu_copy_ratio": self.cpu / self.copy_cpu,
            f"{name}_read_copy_ratio": self.seconds / self.copy_seconds,
        }


def read(
    place: Scratch, tables: Mapping[str, Place], rounds: int, columns: tuple[str, ...]
) -> dict[str, Reading]:
    """Read tables in a session of Spark; `rows` are their columns, sorted by the first."""
    folder = place.subfolder("r")
    order = {
        "folder": str(folder),
        "tables": {name: asdict(table) for name, table in tables.items()},
        "columns": columns,
        "rounds": rounds,
    }
    child = place.start("benchmarks.spark_reads", json.dumps(order))
    told = {line["name"]: line for line in child.lines(PATIENCE_SECONDS)}
    child.ended()
    found = {}
    for name in tables:
        spent = {key: median(told[name][key]) for key in told[name] if key != "name"}
        rows = pq.read_table(folder / "rows" / name).sort_by(columns[0])
        found[name] = Reading(rows=rows, **spent)
    return found


def ours(folder: Path, table_format: Format) -> Place:
    """Find the table of a spec."""
    if table_format == "delta":
        return Place("delta", str(folder / "delta" / TABLE.replace(".", "/")))
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{folder}/catalog.db"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}/lake")
    return Place("iceberg", catalog.load_table(TABLE).metadata_location)


def main(order: Mapping[str, Any]) -> None:
    """Read as ordered; tell of each table what its readings took."""
    folder = Path(order["folder"])
    spark = session(folder)
    acts: dict[str, Callable[[], object]] = {}
    for name, table in order["tables"].items():
        rows = spark.read.format(table["format"]).load(table["at"])
        acts[name] = _reading(rows)
        acts[f"{name}_copy"] = _reading(_copied(spark, rows, folder, name, table["format"]))
        rows.select(*order["columns"]).write.parquet(f"{folder}/rows/{name}")
    own = psutil.Process()
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in acts}
    for act in acts.values():
        act()
    for _ in range(order["rounds"]):
        for name, act in acts.items():
            began, used = time.monotonic(), usage_of(own).seconds
            act()
            spent[name].append((time.monotonic() - began, usage_of(own).seconds - used))
    for name in order["tables"]:
        line: dict[str, Any] = {"name": name}
        line["seconds"], line["cpu"] = zip(*spent[name], strict=True)
        line["copy_seconds"], line["copy_cpu"] = zip(*spent[f"{name}_copy"], strict=True)
        print(json.dumps(line), flush=True)
    spark.stop()


def _reading(rows: DataFrame) -> Callable[[], object]:
    def act() -> object:
        rows.createOrReplaceTempView("it")
        return rows.sparkSession.sql(READ).collect()

    return act


def _copied(
    spark: SparkSession, rows: DataFrame, folder: Path, name: str, table_format: Format
) -> DataFrame:
    even = rows.repartition(os.cpu_count() or 1)
    if table_format == "delta":
        even.write.format("delta").save(f"{folder}/copies/{name}")
        return spark.read.format("delta").load(f"{folder}/copies/{name}")
    even.writeTo(f"copies.bench.{name}").using("iceberg").create()
    return spark.table(f"copies.bench.{name}")


def session(folder: Path) -> SparkSession:
    """Start Spark on all cores, with Delta, and Iceberg's catalog `copies` below a folder."""
    from pyspark.sql import SparkSession

    delta = "io.delta.sql.DeltaSparkSessionExtension"
    iceberg = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings = {
        "spark.driver.extraClassPath": class_path(SPARK_READER, DELTA_READER),
        "spark.driver.memory": "4g",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.catalog.copies": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.copies.type": "hadoop",
        "spark.sql.catalog.copies.warehouse": f"file://{folder}/lake",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": f"{delta},{iceberg}",
        "spark.sql.warehouse.dir": f"{folder}/spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
