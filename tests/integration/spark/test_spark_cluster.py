"""A real cluster on this machine: a master and two workers that count as two hosts."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from tests.integration.cli.test_publish_own_sources import made
from tests.processes.broker import Cluster
from tests.processes.process import penstock

from penstock.dev.broker import Running
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import SparkSettings

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # six Java processes

Orders = Callable[..., list[str]]
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def master(worker_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a standalone cluster; loopback addresses make two hosts of one machine."""
    folder = tmp_path_factory.mktemp("cluster")
    parts = [_start(folder, MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")]
    address = _told(parts[0], re.compile(r"Starting Spark master at (spark://\S+)"))
    for host in ("127.0.0.2", "127.0.0.3"):
        options = ("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "600m")
        parts.append(_start(folder, WORKER, *options, "--work-dir", str(folder / host), address))
    yield address
    for part in reversed(parts):
        part.terminate()
        part.wait(20)


@pytest.mark.broker
def test_files_a_query_and_a_source_of_ones_own_are_published_by_executors(
    master: str, broker: Running, tmp_path: Path
) -> None:
    """It comes before the session below, which keeps both hosts to itself."""
    cluster = Cluster(broker.bootstrap)
    feds = [made(kind, cluster, tmp_path) for kind in ("own", "files", "sql")]
    spec = feds[0].spec
    whole = {"transaction": {"or_records": 1000}}
    spec["publish"] = [rule | whole for each in feds for rule in each.spec["publish"]]
    conf = {"spark.submit.pyFiles": str(tmp_path / "own_feed.py"), "spark.driver.host": "127.0.0.1"}
    conf |= {"spark.executor.memory": "512m", "spark.pyspark.python": sys.executable}
    spec["spark"] = {"master": master, "conf": conf}

    words = ("publish", "--spec", feds[0].save(), "--until-caught-up")
    run = penstock(*words, directory=tmp_path, seconds_max=300)

    assert 0 == run.code, run.err
    assert [list(range(150))] * 3 == [each.numbers() for each in feds]


@pytest.fixture(scope="module")
def cluster_engine(master: str) -> Iterator[SparkEngine]:
    """An engine on the cluster, with speculation as eager as it can be."""
    conf = SPECULATION | {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    conf |= {"spark.pyspark.python": sys.executable}
    settings = SparkSettings(master=master, conf=conf)
    started = SparkEngine(settings=settings, work="spark_jobs:linger")
    yield started
    started.close()


def test_a_task_that_spark_runs_twice_gives_one_result(
    cluster_engine: SparkEngine, orders: Orders, tmp_path: Path
) -> None:
    results = cluster_engine.run(orders(4))

    assert [f"done {n}" for n in range(4)] == list(results)
    assert 2 == len(list(tmp_path.glob("attempt-0-*")))


def test_a_copy_of_a_job_that_runs_once_does_no_work_and_says_so(
    cluster_engine: SparkEngine, orders: Orders, tmp_path: Path
) -> None:
    results = cluster_engine.run_once(orders(4))

    assert [None, "done 1", "done 2", "done 3"] == [result.text for result in results]
    assert not results[0].ran_once
    assert 1 == len(list(tmp_path.glob("attempt-0-*")))


def test_a_job_whose_executor_was_killed_did_not_run_once(
    cluster_engine: SparkEngine, orders: Orders, tmp_path: Path
) -> None:
    losing = SparkEngine(cluster_engine._spark, work="spark_jobs:lose_executor")
    results = losing.run_once(orders(4))

    assert results[0].text is None
    assert not any(result.ran_once for result in results)
    assert all(1 == len(list(tmp_path.glob(f"attempt-{n}-*"))) for n in range(4))


def _start(folder: Path, name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start one part of the cluster; what it says goes into the pipe of its standard error."""
    home = Path(pyspark.__file__).parent
    return subprocess.Popen(
        [home / "bin" / "spark-class", name, *arguments],
        cwd=folder,
        env=os.environ | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _told(part: subprocess.Popen[str], sentence: re.Pattern[str]) -> str:
    assert part.stderr is not None
    for line in part.stderr:
        found = sentence.search(line)
        if found is not None:
            return found.group(1)
    raise AssertionError(f"{part.args} ended")
