from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.processes.broker import Cluster, running_broker

from penstock.dev.broker import Running

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster(broker: Running) -> Cluster:
    return Cluster(broker.bootstrap)


@pytest.fixture
def shops(cluster: Cluster, tmp_path: Path) -> Callable[[], Shop]:
    """Open shops with a topic each, of two partitions."""

    def open_shop() -> Shop:
        number = next(NUMBERS)
        directory = tmp_path / f"shop{number}"
        directory.mkdir()
        shop = Shop(directory, cluster, f"shop{number}")
        cluster.create(shop.topic, 2)
        return shop

    return open_shop


@pytest.fixture
def shop(shops: Callable[[], Shop]) -> Shop:
    return shops()


@pytest.fixture
def other_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Another broker, with no topics."""
    with running_broker(tmp_path / "other") as running:
        yield Cluster(running.bootstrap)
