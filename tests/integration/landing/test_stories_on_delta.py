"""The stories of tests/simulation with a real broker, Delta on disk, and a SQLite store."""

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
def ground(delta):
    return delta


class TestKafkaOnDelta(KafkaStories):
    pass


class TestTablesOnDelta(TableStories):
    pass


class TestOwnersOnDelta(OwnerStories):
    pass


class TestRulesOnDelta(RulesStories):
    pass


class TestPointsOnDelta(PointStories):
    pass
