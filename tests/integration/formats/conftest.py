from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.cli.conftest import cluster, shop, shops
from tests.servers.registry import RegistryServer, running

__all__ = ["cluster", "shop", "shops"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A real registry, one for each test process: every test has subjects of its own."""
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found
