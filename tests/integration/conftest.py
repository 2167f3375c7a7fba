"""The order of tests: workers begin with those that share what is dear to start."""

from __future__ import annotations

import os

import pytest

DEAR = ("readers", "spark")
"""Rooms whose tests share a session of Spark, which each worker that runs one of them starts."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a worker begin with each of these rooms: nobody takes from it what it does first."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    rest = [each for each in items if each.path.parent.name not in DEAR]
    ordered: list[pytest.Item] = []
    for room in DEAR:
        own = [each for each in items if each.path.parent.name == room]
        after = max(len(items) // workers - len(own), 0)
        ordered += own + rest[:after]
        rest = rest[after:]
    items[:] = ordered + rest
