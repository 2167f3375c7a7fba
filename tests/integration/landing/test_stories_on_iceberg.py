"""The stories of tests/simulation with a real broker, Iceberg on SQLite, and a SQLite store."""

import pytest
from tests.simulation.stories import (
    KafkaStories,
    OwnerStories,
    PointStories,
    RulesStories,
    TableStories,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def ground(iceberg):
    return iceberg


class TestKafkaOnIceberg(KafkaStories):
    pass


class TestTablesOnIceberg(TableStories):
    pass


class TestOwnersOnIceberg(OwnerStories):
    pass


class TestRulesOnIceberg(RulesStories):
    pass


class TestPointsOnIceberg(PointStories):
    pass
