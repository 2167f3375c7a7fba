"""The bound path's driver: Spark, one job and one commit per epoch, a line for each commit."""

from __future__ import annotations

import json
import pickle
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog

from benchmarks import records, reference
from penstock.engines.spark.session import start_session
from penstock.engines.spark.settings import SparkSettings


def main(order: dict[str, Any]) -> None:
    """Land `epochs` epochs of `epoch_records` each; report each commit by a line."""
    folder, partitions = Path(order["folder"]), order["partitions"]
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/lake"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.events", records.ARROW)
    place = table.location().removeprefix("file://")
    Path(place, "data").mkdir(parents=True)
    session = start_session(SparkSettings())
    each = order["epoch_records"] // partitions
    try:
        for epoch in range(order["epochs"]):
            began = time.monotonic()
            span = (epoch * each, (epoch + 1) * each)
            job = reference.Job(
                order["brokers"], order["topic"], *span, place, table.schema(), table.properties
            )
            numbers = session.spark.range(0, partitions, 1, partitions)
            rows = numbers.mapInArrow(partial(reference.land, job), "file binary").collect()
            written = time.monotonic()
            _commit(table, [pickle.loads(row.file) for row in rows], epoch)
            _report(epoch, each * partitions, written - began, time.monotonic() - written)
    finally:
        session.stop()


def _commit(table: Any, files: list[Any], epoch: int) -> None:
    with (
        table.transaction() as transaction,
        transaction.update_snapshot({"epoch": str(epoch)}).fast_append() as append,
    ):
        for file in files:
            append.append_data_file(file)


def _report(epoch: int, rows: int, job_seconds: float, commit_seconds: float) -> None:
    line = {
        "event": "TableCommitted",
        "epoch": epoch,
        "rows": rows,
        "job_seconds": job_seconds,
        "commit_seconds": commit_seconds,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
