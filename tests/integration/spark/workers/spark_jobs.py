"""Bodies of jobs for tests with a real Spark; workers import this module by its name."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from penstock.core.errors import DecisionNeededError


def length(job: str) -> str:
    """Return how many characters a job has."""
    return str(len(job))


def echo(job: str) -> str:
    return f"done {job}"


def about(job: str) -> str:
    """Return what a worker finds around itself."""
    archives = [entry for entry in sys.path if Path(entry).is_file()]
    return json.dumps(
        {
            "pool": os.environ.get("ARROW_DEFAULT_MEMORY_POOL"),
            "archives": archives,
            "shared": [n for n in ("pyiceberg.io.pyarrow", "deltalake") if n in sys.modules],
        }
    )


def decide(job: str) -> str:
    """Count the attempt; job 1 asks for a human."""
    order = json.loads(job)
    _count(order)
    if order["number"] == 1:
        raise DecisionNeededError("The log starts above us.", code="P299", hint="look")
    return "fine"


def stumble(job: str) -> str:
    """Count the attempt and fail with something that is not ours."""
    _count(json.loads(job))
    raise ValueError("seven is not a colour")


def die(job: str) -> str:
    """Be killed in the first `deaths` attempts."""
    order = json.loads(job)
    if order["number"] == 0 and _count(order) <= order["deaths"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"done {order['number']} by {os.getpid() != 0}"


def lose_executor(job: str) -> str:
    """Count the attempt; the first one at job 0 kills the executor that it runs in."""
    order = json.loads(job)
    if _count(order) == 1 and order["number"] == 0:
        next(each for each in psutil.Process().parents() if each.name() == "java").kill()
        time.sleep(60)
    return f"done {order['number']}"


def hold(job: str) -> str:
    """Report that the job runs, then wait until it is released."""
    order = json.loads(job)
    folder = Path(order["folder"])
    running = folder / f"running-{order['number']}-{os.getpid()}"
    running.touch()
    while not (folder / "released").exists():
        time.sleep(0.02)
    running.unlink()
    return "released"


def meet(job: str) -> str:
    """Wait for the job of another run, which waits for this one."""
    order = json.loads(job)
    folder = Path(order["folder"])
    (folder / f"came-{order['own']}").touch()
    while not (folder / f"came-{order['other']}").exists():
        time.sleep(0.02)
    return f"met {order['other']}"


def linger(job: str) -> str:
    """Job 0's first attempt waits for a second one, which only speculation starts."""
    order = json.loads(job)
    if order["number"] == 0 and _count(order) == 1:
        _wait_for_second(order)
    return f"done {order['number']}"


def large(job: str) -> str:
    """Return as many characters as asked for, hard to compress."""
    return os.urandom(int(job) // 2).hex()


def _count(order: dict[str, object]) -> int:
    """Count attempts of a job over processes, by files."""
    folder = Path(str(order["folder"]))
    (folder / f"attempt-{order['number']}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return len(list(folder.glob(f"attempt-{order['number']}-*")))


def _wait_for_second(order: dict[str, object]) -> None:
    folder = Path(str(order["folder"]))
    while len(list(folder.glob(f"attempt-{order['number']}-*"))) < 2:
        time.sleep(0.02)
