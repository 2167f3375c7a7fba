"""Fixtures that several suites share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.postgresql import Server

    from penstock.dev.broker import Running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real Kafka broker, one for each test process: every test names topics of its own."""
    from penstock.testing.broker import running_broker

    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
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
