"""What is left when processes die: real signals to a real driver, Java and their process group."""

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

    def holding(self, count: int) -> bool:
        return count == len(list(self.folder.glob("running-*")))

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


def test_ctrl_c_reaches_the_handler_of_before_and_neither_java_nor_workers(
    drive: Callable[..., Driver], tmp_path: Path, eventually: Eventually
) -> None:
    driver = drive("hold")
    driver.run()
    assert eventually(lambda: driver.holding(2))

    os.killpg(driver.process.pid, signal.SIGINT)
    assert "signal" == driver.hear()
    os.killpg(driver.process.pid, signal.SIGINT)
    assert "signal" == driver.hear()
    (tmp_path / "released").touch()

    assert "results released released" == driver.hear()
    assert ["java True", "closed False"] == driver.finish()
    assert "" == driver.errors.read_text()
    assert [] == list(driver.scratch.iterdir())


def test_a_handler_may_cancel_and_a_keyboard_interrupt_does(
    drive: Callable[..., Driver], eventually: Eventually
) -> None:
    driver = drive("hold", "cancel")
    driver.run()
    assert eventually(lambda: driver.holding(2))

    os.kill(driver.process.pid, signal.SIGINT)

    assert ["signal", "error P605 75"] == [driver.hear(), driver.hear()]
    assert ["java True", "closed False"] == driver.finish()


def test_a_keyboard_interrupt_in_a_run_cancels_it(
    drive: Callable[..., Driver], tmp_path: Path, eventually: Eventually
) -> None:
    driver = drive("hold", "default")
    driver.run()
    assert eventually(lambda: driver.holding(2))
    workers = [int(path.name.rpartition("-")[2]) for path in tmp_path.glob("running-*")]

    os.kill(driver.process.pid, signal.SIGINT)

    assert "interrupted" == driver.hear()
    assert eventually(lambda: not any(psutil.pid_exists(pid) for pid in workers))
    (tmp_path / "released").touch()
    driver.run()
    assert "results released released" == driver.hear()


def test_a_killed_java_process_is_an_error_that_asks_for_a_restart(
    drive: Callable[..., Driver], tmp_path: Path, eventually: Eventually
) -> None:
    driver = drive("hold")
    driver.run()
    assert eventually(lambda: driver.holding(2))
    family = driver.family()

    os.kill(driver.java, signal.SIGKILL)
    assert "error P601 75" == driver.hear()
    driver.run()
    assert "error P601 75" == driver.hear()

    assert ["java False", "closed False"] == driver.finish()
    assert "" == driver.errors.read_text()
    assert [] == list(driver.scratch.iterdir())
    assert eventually(lambda: not any(map(_lives, family)), DEATH_SECONDS_MAX)


def test_a_killed_driver_takes_java_daemon_and_workers_with_it(
    drive: Callable[..., Driver], eventually: Eventually
) -> None:
    driver = drive("hold")
    driver.run()
    assert eventually(lambda: driver.holding(2))
    family = driver.family()
    assert {"java", "python"} <= {process.name().rstrip("0123456789.") for process in family}

    driver.process.kill()

    assert eventually(lambda: not any(map(_lives, family)), DEATH_SECONDS_MAX)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
