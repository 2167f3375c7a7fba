"""A Spark that knows both formats and Kafka: it reads all into Parquet, or rewrites Iceberg's files.

    python tests/storm/spark_script.py '{"act": "read", "catalog": URL, "directory": DIR, "tables": {…},
        "brokers": HOST:PORT, "topics": […]}'

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

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from tests.servers.jars import DELTA_READER, KAFKA_READER, SPARK_READER, class_path  # noqa: E402

DELTA_SESSION = "io.delta.sql.DeltaSparkSessionExtension"
ICEBERG_SESSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def session(catalog: str, directory: Path) -> SparkSession:
    """Start a session of one core that knows the REST catalog as `lake`, and paths of Delta."""
    settings = {
        "spark.driver.extraClassPath": class_path(SPARK_READER, DELTA_READER, KAFKA_READER),
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
    """Do the given act with each table; read the topics as well."""
    directory = Path(order["directory"])
    spark = session(order["catalog"], directory)
    for table, place in order["tables"].items():
        if order["act"] == "read":
            name = f"delta.`{place}`" if table.startswith("delta.") else place
            keep(spark.table(name), directory, table)
        elif not table.startswith("delta."):
            tidy(spark, table.partition(".")[2])
    if order["act"] == "read":
        for topic in order["topics"]:
            keep(committed(spark, order["brokers"], topic), directory, topic)
    spark.stop()


def keep(found: DataFrame, directory: Path, name: str) -> None:
    """Write what was read into one file of Parquet."""
    found.coalesce(1).write.mode("overwrite").parquet(str(directory / "by-spark" / name))


def committed(spark: SparkSession, brokers: str, topic: str) -> DataFrame:
    """Read the committed records of a topic by Spark's own source."""
    settings = {
        "kafka.bootstrap.servers": brokers,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "includeHeaders": "true",
    }
    return spark.read.format("kafka").options(**settings).load()


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
