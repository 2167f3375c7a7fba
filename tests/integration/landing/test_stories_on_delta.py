"""The stories of tests/simulation that are about tables, with Delta on disk and a SQLite store."""

import pytest
from tests.simulation.stories import OwnerStories, PointStories, RulesStories, TableStories
from tests.story.real_backends import DeltaWithoutBroker


@pytest.fixture
def ground(tmp_path):
    return DeltaWithoutBroker(tmp_path)


class TestTablesOnDelta(TableStories):
    pass


class TestOwnersOnDelta(OwnerStories):
    pass


class TestRulesOnDelta(RulesStories):
    pass


class TestPointsOnDelta(PointStories):
    pass
