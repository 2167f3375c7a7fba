"""A real Spark cluster on this machine: a master and workers that count as a host each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

REPOSITORY = Path(__file__).parents[2]
START_SECONDS_MAX = 120.0
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What compiles least: for processes that live for a minute."""
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
_ALIVE = re.compile(r"Successfully registered with master")


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster: where its master is, and the folders that its workers work in."""

    address: str
    folders: tuple[Path, ...]
    workers: tuple[int, ...]

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run now, of whatever application."""
        return [
            child
            for worker in self.workers
            for child in psutil.Process(worker).children(recursive=True)
            if EXECUTOR in words_of(child)
        ]

    def launched(self) -> int:
        """Count the executors that were ever launched."""
        return sum(path.is_dir() for folder in self.folders for path in folder.glob("app-*/*"))


@contextmanager
def running(
    directory: Path, *, workers: int = 2, memory: str = "600m", environment: Mapping[str, str]
) -> Iterator[SparkCluster]:
    """Run a master and workers of one core each; `environment` is all that executors inherit.

    What executors keep on disk is below `directory`, and is removed at the end.
    """
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**environment, "SPARK_LOCAL_DIRS": str(directory / "local")}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        reported = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = stack.enter_context(_part(directory, "master", environment, _MASTER, *reported))
        address = _said(master, directory / "master.log", _ADDRESS)
        folders, processes = [], []
        for number in range(workers):
            host = f"127.0.0.{number + 2}"
            folder = directory / host
            reported = ("--host", host, "--webui-port", "0", "--cores", "1", "--memory", memory)
            words = (_WORKER, *reported, "--work-dir", str(folder), address)
            part = stack.enter_context(_part(directory, host, environment, *words))
            folders.append(folder)
            processes.append(part)
        for folder, part in zip(folders, processes, strict=True):
            _said(part, directory / f"{folder.name}.log", _ALIVE)
        yield SparkCluster(address, tuple(folders), tuple(part.pid for part in processes))


@contextmanager
def _part(
    directory: Path, name: str, environment: Mapping[str, str], *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    home = Path(pyspark.__file__).parent
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", *words],
            cwd=directory,
            env={
                **environment,
                "SPARK_HOME": str(home),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            },
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield process
    finally:
        for below in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a worker's end takes others along
                below.kill()
        process.kill()
        process.wait()


def _said(part: subprocess.Popen[bytes], log: Path, sentence: re.Pattern[str]) -> str:
    """Wait until a part has said something; give what its group matched, if any."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        found = sentence.search(log.read_text(errors="replace"))
        if found is not None:
            return found.group(found.re.groups)
        alive = part.poll() is None and time.monotonic() < deadline
        assert alive, f"Spark did not start: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.05)


def words_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing of one that has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def bare_environment(**more: str) -> dict[str, str]:
    """Return this environment without what leads a Python to our packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **more}


def packed_environment(archive: Path) -> Path:
    """Pack this Penstock as the documents say, with the versions that are installed here."""
    programs = Path(sys.executable).parent
    wheels = archive.parent / "wheels"
    built = (programs / "uv", "build", "--quiet", "--wheel", "--no-build-isolation")
    offline = ("--offline", "--python", sys.executable, "--out-dir", wheels, REPOSITORY)
    subprocess.run([*built, *offline], check=True)
    environment = {
        "UV": str(programs / "uv"),
        "UV_OFFLINE": "1",
        "UV_CONSTRAINT": str(REPOSITORY / "requirements" / "runtime.lock"),
        "PYTHON": sys.executable,
        "LEVEL": "0",
    }
    (wheel,) = wheels.glob("*.whl")
    pack = REPOSITORY / "deploy" / "spark" / "pack-environment"
    subprocess.run(
        [pack, archive, f"{wheel}[spark]"], env=bare_environment(**environment), check=True
    )
    return archive
