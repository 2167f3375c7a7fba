"""Rows that met in one task on a cluster that copies slow tasks, and of whose executors one is killed
in each stage: Spark and DuckDB read partitions as they were sent.
"""

from __future__ import annotations

import os
import random  # noqa: TID251  seeded
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import psutil
import pytest
from pyiceberg.expressions import EqualTo
from tests.integration.cli.shop import Shop
from tests.integration.readers.lakes import Lakes
from tests.integration.spark.test_pipeline_on_cluster import landed, suspended
from tests.processes.broker import Cluster
from tests.processes.process import Driver
from tests.servers.spark import QUICK_JAVA, SparkCluster, running

from penstock.dev.broker import Running
from penstock.testing.sent import Sent

pytestmark = [
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cork", "Nice", "Pune", "Bari")
TABLES = ("lake.shop.met", "delta.shop.met")
RECORDS = 40_000
EAGER = {  # to copy tasks
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}
STOPPING = {"PENSTOCK_FAULTS": "file.closed:1:stop,file.written:1:stop"}
"""Each worker is suspended behind its first exchange file, and in its first file of a table: a
worker that has gone on from the one comes to the other.
"""


@pytest.fixture
def shop(broker: Running, lakes: Lakes, tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, Cluster(broker.bootstrap), f"met{os.urandom(3).hex()}")
    shop.cluster.create(shop.topic, 2)
    rule = {"partition_by": ["city"], "write": {"distribution": "hash"}}
    shop.spec["tables"] = [
        {**each, **rule, "into": table}
        for each, table in zip(shop.spec["tables"], TABLES, strict=True)
    ]
    shop.spec["catalogs"] = {"lake": lakes.iceberg, "delta": lakes.delta}
    shop.spec["slice_bytes"] = "4MB"
    return shop


def send(shop: Shop, numbers: range) -> None:
    """Send records that no compression makes small, to two partitions by turns."""
    notes = random.Random(7)
    for partition in range(2):
        records = [
            f'{{"id": {n}, "city": "{CITIES[n // 2 % 8]}", "note": "{notes.randbytes(250).hex()}"}}'
            for n in numbers[partition::2]
        ]
        shop.cluster.send(shop.topic, partition, [Sent(each.encode()) for each in records])


def files(lakes: Lakes, ending: str) -> set[str]:
    return {path.name for path in lakes.place.rglob(f"met/**/*.{ending}")}


def looked_at(cluster: SparkCluster) -> dict[psutil.Process, psutil.Process]:
    """Return the workers that are suspended; whoever asks all the time leaves them no processor."""
    time.sleep(0.2)
    return suspended(cluster)


def kill_one(cluster: SparkCluster) -> None:
    """Kill the executor of a task that is suspended, and its Python."""
    (worker, executor), *_ = suspended(cluster).items()
    executor.kill()
    with suppress(psutil.NoSuchProcess):  # its executor's end may have taken it along
        worker.kill()


def resume(workers: Iterable[psutil.Process]) -> None:
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.resume()


def by_duckdb(lakes: Lakes, table: str, city: str) -> Sequence[int]:
    """Read one partition: the files that metadata leads to."""
    if table.startswith("lake."):
        rows = lakes.known(table).scan(row_filter=EqualTo("city", city)).to_arrow()
    else:
        rows = lakes.handle(table).to_pyarrow_dataset()
    with duckdb.connect() as session:
        session.register("met", rows)
        found = session.execute("SELECT id FROM met WHERE city = $1 ORDER BY id", [city])
        return [n for (n,) in found.fetchall()]


def test_x1_executors_that_die_in_either_stage_land_all_once(
    shop: Shop, lakes: Lakes, tmp_path: Path
) -> None:
    send(shop, range(16))
    assert 0 == shop.run().code
    conf = EAGER | {
        "spark.pyspark.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
    }
    send(shop, range(16, RECORDS))
    before = files(lakes, "parquet")
    with running(tmp_path / "cluster", environment=os.environ) as cluster:
        at = {"master": cluster.address, "shared_directories": True}
        shop.spec["spark"] = {**at, "conf": conf}
        local = {"SPARK_LOCAL_DIRS": str(tmp_path)}
        with Driver(shop.path, environment=STOPPING | local) as driver:
            driver.wait_until(lambda: looked_at(cluster) != {}, "a first stage", seconds_max=300)
            first = files(lakes, "exchange"), files(lakes, "parquet") - before
            kill_one(cluster)

            def second_stage() -> bool:
                found = looked_at(cluster)  # before the files: a share is suspended in its own
                if files(lakes, "parquet") > before:
                    return found != {}
                resume(found)
                return False

            driver.wait_until(second_stage, "a second stage", seconds_max=300)
            committed = driver.count("TableCommitted")
            kill_one(cluster)

            def all_landed() -> bool:
                resume(looked_at(cluster))
                return landed(driver) == [RECORDS - 16] * 2

            driver.wait_until(all_landed, "all rows", seconds_max=300)
            driver.send(signal.SIGTERM)
            ended = driver.end()

    assert (0, 0, 0) == (ended.code, committed, driver.count("ExchangeGivenUp"))
    assert (True, set()) == (bool(first[0]), first[1])
    shop.prove()
    for table in TABLES:
        for number, city in [*enumerate(CITIES)][::3]:
            sent = [n for n in range(RECORDS) if n // 2 % 8 == number]
            where = f"SELECT id FROM {{t}} WHERE city = '{city}' ORDER BY id"
            assert sent == [each["id"] for each in lakes.sql(where, t=table)]
            assert sent == by_duckdb(lakes, table, city)
