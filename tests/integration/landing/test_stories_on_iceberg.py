"""The stories of tests/simulation with a real broker, Iceberg on SQLite, and a SQLite store.

Crash points are reported without the broker: they are about what comes after it.
"""

import pytest
from tests.simulation.stories import (
    KafkaStories,
    OwnerStories,
    PointStories,
    RulesStories,
    TableStories,
)
from tests.story.real_backends import IcebergGround, IcebergWithoutBroker


@pytest.fixture
def ground(broker, tmp_path):
    with IcebergGround(broker.bootstrap, tmp_path) as ground:
        yield ground


@pytest.mark.broker
class TestKafkaOnIceberg(KafkaStories):
    pass


@pytest.mark.broker
class TestTablesOnIceberg(TableStories):
    pass


@pytest.mark.broker
class TestOwnersOnIceberg(OwnerStories):
    pass


@pytest.mark.broker
class TestRulesOnIceberg(RulesStories):
    pass


class TestPointsOnIceberg(PointStories):
    @pytest.fixture
    def ground(self, tmp_path):
        return IcebergWithoutBroker(tmp_path)
