"""The stories of tests/simulation with a real broker, Delta on disk, and a SQLite store.

Those of the log are told on Iceberg: it is the same log.
"""

import pytest
from tests.simulation.stories import (
    OwnerStories,
    PointStories,
    RulesStories,
    TableStories,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def ground(delta):
    return delta


class TestTablesOnDelta(TableStories):
    pass


class TestOwnersOnDelta(OwnerStories):
    pass


class TestRulesOnDelta(RulesStories):
    pass


class TestPointsOnDelta(PointStories):
    pass
