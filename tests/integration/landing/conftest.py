"""Grounds of real parts: the session's broker, a catalog and stores of each test's own."""

import pytest

from penstock.testing.real_grounds import DeltaGround, IcebergGround

pytest.register_assert_rewrite("tests.simulation.stories")


@pytest.fixture
def iceberg(broker, tmp_path):
    with IcebergGround(broker.bootstrap, tmp_path) as ground:
        yield ground


@pytest.fixture
def delta(broker, tmp_path):
    with DeltaGround(broker.bootstrap, tmp_path) as ground:
        yield ground
