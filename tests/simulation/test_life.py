"""The life of a table, in memory."""

import pytest
from tests.simulation.life_stories import LifeStories
from tests.story.backend import MemoryGround


class TestLifeInMemory(LifeStories):
    @pytest.fixture
    def ground(self):
        return MemoryGround()
