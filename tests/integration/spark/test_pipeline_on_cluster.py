"""A whole pipeline on a real cluster: another environment, tables in S3, an executor that dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop
from tests.processes.broker import Cluster, wait_until
from tests.processes.process import Driver, Finished, penstock
from tests.servers.s3 import KEY, REGION, SECRET, S3Server
from tests.servers.spark import (
    EXECUTOR,
    QUICK_JAVA,
    REPOSITORY,
    SparkCluster,
    bare_environment,
    packed_environment,
    running,
    words_of,
)

from penstock.app.inspect.audit import audit
from penstock.dev.broker import Running
from penstock.spec.load import load
from penstock.testing.sent import Sent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(600)]

RECORDS = 40_000
KEYS = {"LAKE_KEY": KEY, "LAKE_SECRET": SECRET}
DRIVER = {**KEYS, "PYTHONPATH": ""}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment of executors, packed; it is large, and goes when it is not needed."""
    packed = packed_environment(tmp_path_factory.mktemp("packed") / "environment.tar.gz")
    yield packed
    packed.unlink()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two hosts that know nothing of this Python; keys are in their environment."""
    environment = bare_environment(**KEYS)
    with running(tmp_path_factory.mktemp("cluster"), environment=environment) as started:
        yield started


@pytest.fixture
def shop(
    broker: Running, s3: S3Server, cluster: SparkCluster, archive: Path, tmp_path: Path
) -> Shop:
    shop = Shop(tmp_path, Cluster(broker.bootstrap), f"cluster{os.urandom(3).hex()}")
    shop.cluster.create(shop.topic, 2)
    bucket = s3.bucket()
    lake = {
        "type": "sql",
        "uri": "sqlite:///./catalog.db",
        "warehouse": f"s3://{bucket}/lake",
        "s3.endpoint": s3.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": "${env:LAKE_KEY}",
        "s3.secret-access-key": "${env:LAKE_SECRET}",
    }
    options = {
        "endpoint_url": s3.endpoint,
        "region": REGION,
        "allow_http": "true",
        "access_key_id": "${env:LAKE_KEY}",
        "secret_access_key": "${env:LAKE_SECRET}",
    }
    delta = {"type": "delta", "root": f"s3://{bucket}/delta", "storage_options": options}
    shop.spec["catalogs"] = {"lake": lake, "delta": delta}
    shop.spec["slice_bytes"] = "4MB"
    shop.spec["spark"] = {
        "master": cluster.address,
        "conf": {
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JAVA,
            "spark.speculation": "true",
            "spark.files.useFetchCache": "false",
        },
    }
    return shop


def test_a_pipeline_on_a_cluster_loses_and_doubles_nothing_when_an_executor_is_killed(
    shop: Shop, cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker is suspended in its first task, so that none is done when the executor dies."""
    for partition in range(2):
        numbers = range(partition, RECORDS, 2)
        orders = [json.dumps({"id": n, "note": "x" * 500}) for n in numbers]
        shop.cluster.send(shop.topic, partition, [Sent(order.encode()) for order in orders])
    local = {"SPARK_LOCAL_DIRS": str(tmp_path), "PENSTOCK_FAULTS": "file.closed:1:stop"}
    configured = spark_configuration(shop, tmp_path / "configuration")
    with Driver(shop.path, environment={**DRIVER, **local}) as driver:
        driver.wait_until(lambda: suspended(cluster) != {}, "a task under way", seconds_max=300)
        before = cluster.launched()
        arguments = arguments_of(driver, cluster)
        (worker, executor), *_ = suspended(cluster).items()
        executor.kill()
        with suppress(psutil.NoSuchProcess):  # its executor's end may have taken it along
            worker.kill()
        committed = driver.count("TableCommitted")
        shop.send(RECORDS, 1000)
        driver.wait_until(lambda: gone_on(cluster, driver) == [RECORDS + 1000] * 2, "all rows")
        wait_until(lambda: cluster.launched() > before, "another executor")
        driver.send(signal.SIGTERM)
        ended = driver.end()

    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    found = audit(load(shop.path), rows=True)
    written = ended.err + "".join(path.read_text() for path in [*said_by(cluster), *configured()])
    assert (0, ()) == (found.exit_code, tuple(b for each in found.tables for b in each.breaks))
    assert (0, 0) == (committed, ended.code)
    assert ("spark.pyspark.python" in written, EXECUTOR in arguments) == (True, True)
    assert not any(secret in written + arguments for secret in (KEY, SECRET))
    assert all(list(folder.glob(f"app-*/*/{OWN}")) for folder in cluster.folders)


@pytest.mark.slow
def test_files_are_written_again_by_workers_though_an_executor_is_killed(
    shop: Shop, cluster: SparkCluster, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job is suspended behind its file, so that none is done when the executor dies."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    spark, shop.spec["spark"] = shop.spec["spark"], {"master": "inline"}
    for first in range(0, 3000, 1000):
        shop.send(first, 1000)
        assert 0 == shop.run().code
    faults = {"spark.executorEnv.PENSTOCK_FAULTS": "file.closed:1:stop"}
    shop.spec["spark"] = spark | {"conf": spark["conf"] | faults}
    for table in ("lake.shop.orders", "delta.shop.orders"):
        ended = maintained_while_an_executor_dies(shop, cluster, table)
        assert 0 == ended.code, ended.json["done"]
        (done,) = ended.json["done"]
        counts = [done["done"][name] for name in ("groups", "files_before", "files_after")]
        assert [1, 3, 1] == counts

    ids, live = zip(read_by_pyiceberg(shop), read_by_deltalake(shop), strict=True)
    assert ([*range(3000)],) * 2 == ids
    written = {Path(key).name for key in s3.keys(bucket_of(shop)) if MAINTAINED.search(key)}
    assert (4, 2) == (len(written), len({*live} & written))  # two are of attempts that were lost
    found = audit(load(shop.path), rows=True)
    assert (0, ()) == (found.exit_code, tuple(b for each in found.tables for b in each.breaks))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A module of the user's that is next to the driver, and nowhere else."""
    path = tmp_path / "rules" / "shop_rules.py"
    path.parent.mkdir()
    path.write_text(RULES)
    return path


@pytest.mark.slow
def test_spark_submit_lands_with_its_own_session_and_ends_with_our_exit_code(
    shop: Shop, cluster: SparkCluster, archive: Path, rules: Path
) -> None:
    shop.spec["spark"] = {"master": "existing"}
    shop.spec["tables"][1] |= DOUBLED
    shop.send(0, 1000)
    words = ("run", shop.path, "--until-caught-up", "--json")
    first = submitted(cluster, archive, *words, files=[rules])
    shop.spec["tables"][0]["into"] = "lake.shop.other"
    shop.spec["tables"][0]["schema"] = {"create": False}
    second = submitted(cluster, archive, *words[:1], shop.path, *words[2:], files=[rules])

    assert (0, {}) == (first.returncode, result(first)["parked"])
    assert (2, {"lake.shop.other"}) == (second.returncode, set(result(second)["parked"]))
    assert 2 == (first.stdout + first.stderr).count('"rows": 1000')
    assert [2 * n for n in range(1000)] == doubles(shop)


@pytest.mark.slow
def test_a_function_reaches_executors_as_a_file_that_the_spec_names(
    shop: Shop, rules: Path
) -> None:
    shop.spec["tables"] = [shop.spec["tables"][1] | DOUBLED]
    shop.spec["spark"]["conf"]["spark.submit.pyFiles"] = str(rules)
    shop.send(0, 100)

    ran = penstock(
        *("run", shop.path, "--until-caught-up", "--json"),
        environment={**DRIVER, "PYTHONPATH": str(rules.parent)},
        seconds_max=500,
    )

    assert 0 == ran.code, ran.err
    assert [2 * n for n in range(100)] == doubles(shop)


def maintained_while_an_executor_dies(shop: Shop, cluster: SparkCluster, table: str) -> Finished:
    """Let workers maintain a table, and kill the executor of the first job under way."""
    words = (table, "--workers", "--only", "rearrange", "--yes", "shop")
    with Driver(shop.path, *words, environment=DRIVER, verb=("maintain",)) as driver:
        driver.wait_until(lambda: suspended(cluster) != {}, "a job under way", seconds_max=300)
        (worker, executor), *_ = suspended(cluster).items()
        executor.kill()
        with suppress(psutil.NoSuchProcess):  # its executor's end may have taken it along
            worker.kill()
        wait_until(lambda: not gone_on(cluster, driver) and not driver.running, "its end")
        return driver.end()


def bucket_of(shop: Shop) -> str:
    bucket: str = shop.spec["catalogs"]["delta"]["root"].split("/")[2]
    return bucket


def read_by_pyiceberg(shop: Shop) -> tuple[list[int], str]:
    """Read the ids in the Iceberg table, sorted, and the name of its only file."""
    settings = {
        **shop.spec["catalogs"]["lake"],
        "uri": f"sqlite:///{shop.directory}/catalog.db",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
    }
    scan = load_catalog("lake", **settings).load_table("shop.orders").scan()
    (task,) = scan.plan_files()
    return sorted(scan.to_arrow()["id"].to_pylist()), Path(task.file.file_path).name


def read_by_deltalake(shop: Shop) -> tuple[list[int], str]:
    """Read the ids in the Delta table, sorted, and the name of its only file."""
    table = delta_table(shop)
    (path,) = table.file_uris()
    return sorted(table.to_pyarrow_table()["id"].to_pylist()), Path(path).name


def result(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what a run printed in the end: spark-submit mixes our two streams."""
    (line,) = [line for line in ended.stdout.splitlines() if '"exit_code"' in line]
    found: dict[str, Any] = json.loads(line)
    return found


def doubles(shop: Shop) -> list[int]:
    """Read what the function computed from the Delta table on S3, sorted."""
    rows: list[int] = delta_table(shop).to_pyarrow_table(columns=["twice"]).column(0).to_pylist()
    return sorted(rows)


def delta_table(shop: Shop) -> DeltaTable:
    """Open the Delta table on S3 with its own library."""
    delta = shop.spec["catalogs"]["delta"]
    options = delta["storage_options"] | {"access_key_id": KEY, "secret_access_key": SECRET}
    return DeltaTable(f"{delta['root']}/shop/orders", storage_options=options)


def submitted(
    cluster: SparkCluster, archive: Path, *words: str | Path, files: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours as docs/how-to/run-on-a-cluster.md says."""
    conf = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    deploy = REPOSITORY / "deploy" / "spark"
    command: list[str | Path] = [Path(sys.executable).parent / "spark-submit"]
    command += ["--master", cluster.address, "--properties-file", deploy / "submit.conf"]
    command += ["--archives", f"{archive}#environment"]
    command += ["--py-files", ",".join(map(str, files))] if files else []
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.run(
        [*command, deploy / "submit.py", *words],
        env=bare_environment(**DRIVER, SPARK_HOME=str(Path(pyspark.__file__).parent)),
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


DOUBLED = {
    "schema": {"create": True, "hints": {"id": "long"}},
    "transform": {"function": {"call": "shop_rules:doubled", "columns": {"twice": "long"}}},
}
RULES = """\
import pyarrow as pa
import pyarrow.compute as pc


def doubled(rows):
    return pa.record_batch({"twice": pc.multiply(rows.column("id"), 2)})
"""
OWN = "environment/lib/python3.*/site-packages/penstock/landing/__pycache__"
"""What is there when a worker has imported Penstock from the archive."""
MAINTAINED = re.compile(r"-maintenance-.*\.parquet$")


def suspended(cluster: SparkCluster) -> dict[psutil.Process, psutil.Process]:
    """Return the workers that are suspended in a task, each with its executor."""
    found = {}
    for executor in cluster.executors():
        with suppress(psutil.NoSuchProcess):
            for worker in executor.children(recursive=True):
                if worker.status() == psutil.STATUS_STOPPED:
                    found[worker] = executor
    return found


def gone_on(cluster: SparkCluster, driver: Driver) -> list[int]:
    """Resume every suspended worker; count what has landed."""
    for worker in suspended(cluster):
        with suppress(psutil.NoSuchProcess):
            worker.resume()
    return landed(driver)


def landed(driver: Driver) -> list[int]:
    """Count the rows that commits have reported so far, by table."""
    rows: dict[str, int] = {}
    for each in list(driver.reported):
        if each.event == "TableCommitted":
            rows[each.data["table"]] = rows.get(each.data["table"], 0) + each.data["rows"]
    return [*rows.values()]


def spark_configuration(shop: Shop, folder: Path) -> Callable[[], list[Path]]:
    """Let Spark write its whole configuration, unredacted, to files; return what lists them."""
    folder.mkdir()
    shop.spec["spark"]["conf"] |= {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.redaction.regex": "nothing",
    }
    return lambda: [path for path in folder.rglob("[!.]*") if path.is_file()]  # no checksums


def arguments_of(driver: Driver, cluster: SparkCluster) -> str:
    """Return the command lines of the driver, what it started, and the executors."""
    root = psutil.Process(driver.pid)
    started = [root, *root.children(recursive=True), *cluster.executors()]
    return "\n".join(word for each in started for word in words_of(each))


def said_by(cluster: SparkCluster) -> list[Path]:
    return [path for folder in cluster.folders for path in folder.glob("app-*/*/std*")]
