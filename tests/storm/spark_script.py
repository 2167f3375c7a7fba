"""A Spark that knows both formats: it reads all tables into Parquet, or rewrites Iceberg's files.

    python tests/storm/spark_script.py '{"act": "read", "catalog": URL, "directory": DIR, "tables": {…}}'

A process of its own, so that nothing of ours and no other session is in it.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pyspark.sql import SparkSession  # noqa: E402
from tests.servers.jars import DELTA_READER, SPARK_READER, class_path  # noqa: E402

DELTA_SESSION = "io.delta.sql.DeltaSparkSessionExtension"
ICEBERG_SESSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def session(catalog: str, directory: Path) -> SparkSession:
    """Start a session of one core that knows the REST catalog as `lake`, and paths of Delta."""
    settings = {
        "spark.driver.extraClassPath": class_path(SPARK_READER, DELTA_READER),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",  # little data: compiling would take longer
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.extensions": f"{DELTA_SESSION},{ICEBERG_SESSION}",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": catalog,
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(directory / "spark"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(order: dict[str, Any]) -> None:
    """Do the given act with each table."""
    directory = Path(order["directory"])
    spark = session(order["catalog"], directory)
    for table, place in order["tables"].items():
        if order["act"] == "read":
            name = f"delta.`{place}`" if table.startswith("delta.") else place
            found = spark.table(name)
            found.coalesce(1).write.mode("overwrite").parquet(str(directory / "by-spark" / table))
        elif not table.startswith("delta."):
            tidy(spark, table.partition(".")[2])
    spark.stop()


def tidy(spark: SparkSession, table: str) -> None:
    """Rewrite small files and manifests, and name the files that were replaced.

    Who loses a race against the pipeline lets it be.
    """
    small = "options => map('min-input-files', '2')"
    with suppress(Py4JJavaError):
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', {small})")
    gone = f"SELECT DISTINCT data_file.file_path FROM lake.{table}.all_entries WHERE status = 2"
    for row in spark.sql(gone).collect():
        print(row[0])
    with suppress(Py4JJavaError):
        spark.sql(f"CALL lake.system.rewrite_manifests(table => '{table}')")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
