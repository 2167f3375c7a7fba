"""Fixtures that several suites share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.story.unexpected_errors import without_fence

from penstock.rows import bisection

without_fence()
# A deadline, or a bound on how long examples take to make, would make a timed test of each property.
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI"
    in os.environ,  # a change is judged by itself; elsewhere new examples are drawn
)
settings.load_profile("untimed")

if TYPE_CHECKING:
    from tests.servers.azurite import Azurite
    from tests.servers.gcs import Gcs
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.s3 import S3Server

    from penstock.dev.broker import Running


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from going through modules and tests again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """Let it have all in the end: libraries report what is left as leaks."""
    gc.unfreeze()


@pytest.fixture
def fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the handler that rejects a record on an unexpected error; it is off in tests."""
    monkeypatch.setattr(bisection, "UNEXPECTED_ERRORS", bisection.KINDS)
    monkeypatch.setattr(bisection, "FOREIGN", (Exception,))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real Kafka broker, one for each test process: every test names topics of its own."""
    from tests.processes.broker import running_broker

    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A real PostgreSQL, one for each test process: every test makes databases of its own."""
    from tests.servers.postgresql import running

    with running() as server:
        yield server


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real REST catalog over a directory of this machine; tests drop what they made."""
    from tests.servers.rest import running

    with running(tmp_path_factory.mktemp("rest")) as address:
        yield address


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3, one for each test process: every test makes buckets of its own."""
    from tests.servers.s3 import running

    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """Azure's blob storage, for slow tests: the first one fetches it."""
    from tests.servers.azurite import running

    with running(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcs]:
    """Google's cloud storage, for slow tests: the first one fetches it."""
    from tests.servers.gcs import running

    with running(tmp_path_factory.mktemp("gcs")) as server:
        yield server
