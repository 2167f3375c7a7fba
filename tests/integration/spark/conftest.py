"""Real Spark for tests: one session per module, workers that find the test's jobs."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.settings import RESULT_BYTES_KEY, SparkSettings

WORKERS = Path(__file__).parent / "workers"
SETTLE_SECONDS_MAX = 90.0

Eventually = Callable[..., bool]
Orders = Callable[..., list[str]]


@pytest.fixture(scope="session")
def worker_path() -> Iterator[Path]:
    """Let workers import the jobs of these tests: Java hands its environment on to them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(WORKERS), prepend=os.pathsep)
        yield WORKERS


@pytest.fixture(scope="module")
def engine(worker_path: Path) -> Iterator[SparkEngine]:
    """An engine of two cores with a session of its own; its work is `echo`."""
    settings = SparkSettings(master="local[2]", conf={RESULT_BYTES_KEY: "1000000"})
    started = SparkEngine(settings=settings, work="spark_jobs:echo")
    yield started
    started.close()


@pytest.fixture
def doing(engine: SparkEngine) -> Callable[[str], SparkEngine]:
    """Return an engine with other work on the module's session."""
    return lambda name: SparkEngine(engine._spark, work=f"spark_jobs:{name}")


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Wait until a fact holds; return whether it did in time."""

    def wait(fact: Callable[[], bool], seconds: float = SETTLE_SECONDS_MAX) -> bool:
        pause = threading.Event()
        return any(fact() or pause.wait(0.05) for _ in range(int(seconds / 0.05))) or fact()

    return wait


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    """Describe jobs for the bodies that count or hold."""

    def describe(count: int, **more: object) -> list[str]:
        return [json.dumps({"number": n, "folder": str(tmp_path), **more}) for n in range(count)]

    return describe
