"""The stories of `stories.py` in memory: fast, and with all the faults of the fakes."""

import pytest
from tests.simulation.stories import (
    KafkaStories,
    OwnerStories,
    PointStories,
    RulesStories,
    TableStories,
)
from tests.story.backend import MemoryGround


@pytest.fixture
def ground():
    return MemoryGround()


class TestKafkaInMemory(KafkaStories):
    pass


class TestTablesInMemory(TableStories):
    pass


class TestOwnersInMemory(OwnerStories):
    pass


class TestRulesInMemory(RulesStories):
    pass


class TestPointsInMemory(PointStories):
    pass
