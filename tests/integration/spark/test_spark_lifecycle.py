"""What is left when processes die: real signals to a real driver, Java and their process group."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.spark

Eventually = Callable[..., bool]
DEATH_SECONDS_MAX = 10.0


class Driver:
    """A driver in a process group of its own, spoken to line by line."""

    def __init__(self, workers: Path, folder: Path, work: str, handler: str) -> None:
        scratch = folder / "t"
        scratch.mkdir()
        self.folder = folder
        self.scratch = scratch
        self.errors = folder / "stderr"
        with self.errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, workers / "driver.py", folder, f"spark_jobs:{work}", handler],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
                cwd=scratch,
                env=os.environ | {"TMPDIR": str(scratch)},
            )
        self.java = int(self.hear().removeprefix("ready "))

    def run(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def finish(self) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        rest = self.process.stdout.read().splitlines()
        self.process.wait(30)
        return rest

    def workers(self) -> list[int]:
        """List the workers that hold a job now."""
        held = [int(path.name.rpartition("-")[2]) for path in self.folder.glob("running-*")]
        return [pid for pid in held if psutil.pid_exists(pid)]

    def holding(self, count: int) -> bool:
        return count == len(self.workers())

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def drive(worker_path: Path, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def start(work: str, handler: str = "note") -> Driver:
        drivers.append(Driver(worker_path, tmp_path, work, handler))
        return drivers[-1]

    yield start
    for driver in drivers:
        (tmp_path / "released").touch()
        driver.process.kill()
        driver.process.wait()


def test_ctrl_c_spares_java_and_workers_and_our_handler_decides(
    drive: Callable[..., Driver], tmp_path: Path, eventually: Eventually
) -> None:
    driver = drive("hold")
    driver.run()
    assert eventually(lambda: driver.holding(2))

    os.killpg(driver.process.pid, signal.SIGINT)
    assert "signal 1" == driver.hear()
    (tmp_path / "released").touch()
    assert "results released released" == driver.hear()

    (tmp_path / "released").unlink()
    driver.run()
    assert eventually(lambda: driver.holding(2))
    os.killpg(driver.process.pid, signal.SIGINT)
    assert ["signal 2", "error P605 75"] == [driver.hear(), driver.hear()]

    assert ["java True", "closed"] == driver.finish()
    assert "" == driver.errors.read_text()
    assert [] == list(driver.scratch.iterdir())


def test_a_keyboard_interrupt_ends_the_workers_and_a_killed_driver_leaves_no_process(
    drive: Callable[..., Driver], tmp_path: Path, eventually: Eventually
) -> None:
    driver = drive("hold", "default")
    driver.run()
    assert eventually(lambda: driver.holding(2))
    workers = driver.workers()

    os.kill(driver.process.pid, signal.SIGINT)
    assert "interrupted" == driver.hear()
    assert eventually(lambda: not any(map(psutil.pid_exists, workers)), DEATH_SECONDS_MAX)

    driver.run()
    assert eventually(lambda: driver.holding(2))
    family = driver.family()
    assert {"java", "python"} <= {process.name().rstrip("0123456789.") for process in family}
    driver.process.kill()
    assert eventually(lambda: not any(map(_lives, family)), DEATH_SECONDS_MAX)
    assert [] == list(driver.scratch.iterdir())


def test_a_killed_java_process_is_an_error_that_asks_for_a_restart(
    drive: Callable[..., Driver], eventually: Eventually
) -> None:
    driver = drive("hold")
    driver.run()
    assert eventually(lambda: driver.holding(2))
    family = driver.family()

    os.kill(driver.java, signal.SIGKILL)
    assert "error P601 75" == driver.hear()
    driver.run()
    assert "error P601 75" == driver.hear()

    assert ["java False", "closed"] == driver.finish()
    assert "" == driver.errors.read_text()
    assert [] == list(driver.scratch.iterdir())
    assert eventually(lambda: not any(map(_lives, family)), DEATH_SECONDS_MAX)


KILLED_AT_THE_START = """
from penstock.core.errors import PenstockError
from penstock.engines.spark.session import start_session
from penstock.engines.spark.settings import SparkSettings

try:
    start_session(SparkSettings(master="local[1]", conf={}), launched=lambda kill: kill())
except PenstockError as error:
    print(error.code, error.exit_code)
"""


def test_a_java_that_is_killed_while_spark_starts_asks_for_a_restart_too(tmp_path: Path) -> None:
    program = [sys.executable, "-c", KILLED_AT_THE_START]
    done = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=280
    )

    assert "P601 75\n" == done.stdout


def test_a_session_that_is_lent_works_with_its_own_daemon_and_is_left_as_it_was(
    worker_path: Path, tmp_path: Path
) -> None:
    output = subprocess.run(
        [sys.executable, worker_path / "guest.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    ).stdout

    assert {
        "results": ["done a", "done b"],
        "remarks": 1,
        "large results": ["1500000"] * 2,
        "files left": 0,
        "changed": False,
        "rows after close": 3,
        "stopped": "P601",
        "not a session": "P604",
        "wrong master": "P603",
    } == json.loads(output)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
