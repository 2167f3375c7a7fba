"""The Spark engine against a real local Spark: what a run promises, whatever happens to workers."""

import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import SparkConf
from tests.integration.cli.conftest import cluster, shop, shops  # noqa: F401
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land
from tests.unit.app.inspect.test_maintenance import DELTA, fill, pipeline, spec  # noqa: F401
from tests.unit.app.inspect.test_maintenance import LAKE as ICEBERG
from tests.unit.app.test_maintain import rows

from penstock.app.maintain import maintain
from penstock.app.repair import replay_and_seek
from penstock.commit import rearranging
from penstock.core.errors import BugError, DecisionNeededError, InvalidError, UnavailableError
from penstock.core.maintenance import MaintenanceAct
from penstock.engines.spark.engine import SparkEngine, result_bytes_max
from penstock.engines.spark.settings import RESULT_BYTES_KEY
from penstock.engines.spark.versions import versions_here
from penstock.engines.work import COPYING_WORK
from penstock.ports.runtime import JobResult
from penstock.spec.load import load
from penstock.spec.model import Pipeline
from penstock.testing.contracts.table_fixture import Quiet

pytestmark = pytest.mark.spark
LAKE = "lake.shop.orders"
ACT = MaintenanceAct.REARRANGE

Doing = Callable[[str], SparkEngine]
Orders = Callable[..., list[str]]
Eventually = Callable[..., bool]


def test_results_come_in_the_order_of_their_jobs(engine: SparkEngine) -> None:
    jobs = [f"{n:02}" for n in range(11)]

    assert [f"done {job}" for job in jobs] == list(engine.run(jobs))
    assert [] == engine.run([])
    assert 2 == engine.capacity()
    assert () == engine.remarks


def test_a_worker_has_the_libraries_before_its_first_task_and_no_archive_to_search(
    doing: Doing,
) -> None:
    found = json.loads(doing("about").run(["x"])[0])

    assert {"pool": "system", "archives": [], "shared": ["pyiceberg.io.pyarrow"]} == found


def test_an_error_of_ours_arrives_as_it_was_raised_and_is_not_retried(
    doing: Doing, orders: Orders, tmp_path: Path
) -> None:
    with pytest.raises(DecisionNeededError) as raised:
        doing("decide").run(orders(2))

    assert ("P299", "The log starts above us.", "look") == (
        raised.value.code,
        raised.value.message,
        raised.value.hint,
    )
    assert 2 == len(list(tmp_path.glob("attempt-*")))


def test_any_other_exception_of_a_worker_is_our_bug_and_names_its_last_line(
    doing: Doing, orders: Orders, tmp_path: Path
) -> None:
    with pytest.raises(BugError) as raised:
        doing("stumble").run(orders(1))

    assert "P710" == raised.value.code
    assert "A worker failed: ValueError: seven is not a colour" == raised.value.message
    assert 4 == len(list(tmp_path.glob("attempt-*")))


def test_a_killed_worker_is_retried_and_gives_one_result(doing: Doing, orders: Orders) -> None:
    results = doing("die").run(orders(3, deaths=1))

    assert [f"done {n} by True" for n in range(3)] == list(results)


def test_a_run_that_needed_one_attempt_for_each_job_was_seen_to_run_once(doing: Doing) -> None:
    jobs = [f"{n:02}" for n in range(11)]

    assert [JobResult(f"done {job}", ran_once=True) for job in jobs] == doing("echo").run_once(jobs)
    assert [] == doing("echo").run_once([])


def test_runs_of_two_threads_are_told_apart(doing: Doing, tmp_path: Path) -> None:
    """Each waits for the other's job, and was seen to run once."""
    engine = doing("meet")
    jobs = [json.dumps({"own": n, "other": 1 - n, "folder": str(tmp_path)}) for n in range(2)]
    with ThreadPoolExecutor(2) as threads:
        found = [*threads.map(lambda job: engine.run_once([job]), jobs)]

    assert [[JobResult(f"met {1 - n}", ran_once=True)] for n in range(2)] == found


def test_a_second_attempt_at_a_job_that_runs_once_does_no_work_and_says_so(
    doing: Doing, orders: Orders, tmp_path: Path
) -> None:
    results = doing("die").run_once(orders(3, deaths=1))

    assert [None, "done 1 by True", "done 2 by True"] == [result.text for result in results]
    assert not any(result.ran_once for result in results)
    assert 1 == len(list(tmp_path.glob("attempt-0-*")))


def test_a_worker_killed_on_every_attempt_is_a_matter_of_memory(
    doing: Doing, orders: Orders
) -> None:
    with pytest.raises(UnavailableError) as raised:
        doing("die").run(orders(1, deaths=99))

    assert "P606" == raised.value.code


def test_a_run_is_cancelled_from_another_thread_and_the_next_one_works(
    engine: SparkEngine, doing: Doing, orders: Orders, tmp_path: Path, eventually: Eventually
) -> None:
    holding = doing("hold")
    raised: list[UnavailableError] = []

    def run() -> None:
        with pytest.raises(UnavailableError) as caught:
            holding.run(orders(2))
        raised.append(caught.value)

    running = threading.Thread(target=run)
    running.start()
    assert eventually(lambda: 2 == len(list(tmp_path.glob("running-*"))))
    holding.cancel()
    running.join()
    (tmp_path / "released").touch()

    assert ["P605"] == [error.code for error in raised]
    assert ["done next"] == list(engine.run(["next"]))


def test_cancelling_when_nothing_runs_does_nothing(engine: SparkEngine) -> None:
    engine.cancel()

    assert ["done still"] == list(engine.run(["still"]))


def test_results_too_large_for_the_driver_are_refused(doing: Doing) -> None:
    with pytest.raises(InvalidError) as raised:
        doing("large").run(["3000000"])

    assert "P607" == raised.value.code


def test_results_that_only_compress_to_the_limit_are_refused_too(engine: SparkEngine) -> None:
    with pytest.raises(InvalidError) as raised:
        engine.run(["x" * 600_000] * 2)

    assert "P607" == raised.value.code


def test_a_session_that_was_handed_over_takes_what_it_says_itself(doing: Doing) -> None:
    with pytest.raises(InvalidError) as raised:
        doing("echo").run(["x" * 600_000] * 2)

    assert "P607" == raised.value.code


@pytest.mark.parametrize(("size", "expected"), [("0", None), ("2m", 2 << 20), ("", 1 << 30)])
def test_the_limit_of_results_is_the_sessions(
    engine: SparkEngine, size: str, expected: int | None
) -> None:
    conf = SparkConf(loadDefaults=False, _jvm=engine._context._jvm)
    if size:
        conf.set(RESULT_BYTES_KEY, size)

    assert expected == result_bytes_max(conf)


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="there is no other Python to try")
def test_workers_whose_python_lacks_penstock_are_refused(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(sys.base_prefix) / "bin" / "python3"
    monkeypatch.setattr(engine._context, "pythonExec", str(other))
    with pytest.raises(InvalidError) as raised:
        engine.run(["x"])

    assert "P608" == raised.value.code
    assert "No module named" in raised.value.message


def test_workers_that_differ_from_the_driver_do_nothing_and_say_what_differs(doing: Doing) -> None:
    lent = doing("echo")
    lent._versions = {**versions_here(), "pyarrow": "25.0.0"}
    with pytest.raises(InvalidError, match=r"pyarrow 25\.0\.0 here, .* there") as raised:
        lent.run(["x"])

    assert "P608" == raised.value.code


def test_large_jobs_leave_no_files(engine: SparkEngine, doing: Doing) -> None:
    folder = Path(engine._own._folder.name)
    before = sum(1 for path in folder.rglob("*") if path.is_file())
    jobs = ["x" * 1_500_000] * 2

    engine.run(["small"])
    assert ["1500000"] * 2 == list(doing("length").run(jobs))
    assert before == sum(1 for path in folder.rglob("*") if path.is_file())


def test_all_workers_have_the_versions_of_the_driver(engine: SparkEngine) -> None:
    [versions] = engine.versions()

    assert "0.1.0" == versions["penstock"]


def test_another_session_of_our_own_is_refused_while_one_runs(engine: SparkEngine) -> None:
    with pytest.raises(InvalidError) as raised:
        SparkEngine()

    assert "P604" == raised.value.code


def test_a_java_of_the_wrong_version_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidError) as raised:
        SparkEngine()

    assert "P602" == raised.value.code
    assert "use Java 17 or 21" in raised.value.message


@pytest.mark.broker
def test_a_long_replay_is_read_by_workers_epoch_by_epoch(
    engine: SparkEngine,
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop.send(0, 300)
    land(shop)
    shop.spec["spark"]["master"] = "existing"
    shop.spec["commit"]["or_records"] = 100
    monkeypatch.setattr(replay_and_seek, "HERE_MAX", 299)
    replayed, places = load(shop.path), [replay_and_seek.place_of(shop.topic)]
    scheduler = engine._context._jsc.sc().dagScheduler()
    jobs_before = scheduler.numTotalJobs()

    steps = [step.text for step in replay_and_seek.plan_replay(replayed, LAKE, places).steps]
    done = replay_and_seek.replay(replayed, LAKE, places)
    assert f"{LAKE}: 300 positions are read, by the workers of spark.master existing" in steps
    assert (300, 300) == (done.removed, done.landed)
    assert jobs_before + 3 == scheduler.numTotalJobs()
    assert list(range(300)) == shop.ids()[0]


def test_files_are_written_again_by_workers_a_job_for_each_bundle(
    engine: SparkEngine,
    pipeline: Pipeline,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rearranging, "INPUTS_MAX", 2)
    for name in (ICEBERG, DELTA):
        fill(pipeline, name, *"aabbcc")
    workers = SparkEngine(engine._spark, work=COPYING_WORK)
    scheduler = engine._context._jsc.sc().dagScheduler()
    jobs_before = scheduler.numTotalJobs()

    found = maintain(pipeline, {ICEBERG: [ACT], DELTA: [ACT]}, workers, Quiet()).tables

    assert [(3, 6, 3, 2)] * 2 == [
        (each.done.groups, each.done.files_before, each.done.files_after, each.done.commits)
        for each in found
    ]
    assert jobs_before + 4 == scheduler.numTotalJobs(), "two bundles at once, and the third"
    assert [*enumerate("aabbcc")] == rows(pipeline, ICEBERG) == rows(pipeline, DELTA)
