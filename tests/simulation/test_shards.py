"""Stories of shards: where they begin, and how they land beside each other (docs/design/0254)."""

from __future__ import annotations

import pytest
from tests.story.backend import MemoryGround
from tests.story.shards import ShardedWorld
from tests.story.world import ORDERS


@pytest.fixture
def world() -> ShardedWorld:
    return ShardedWorld(MemoryGround(), 2, partitions=4)


def send_all(world: ShardedWorld, count: int = 3, partitions: int = 4) -> None:
    for partition in range(partitions):
        world.send("orders", count, partition=partition)


def test_shards_land_their_own_partitions_in_one_table(world: ShardedWorld) -> None:
    for _ in range(2):
        send_all(world)
        lives = world.run_all()
        assert [{}, {}] == [life.parked for life in lives]
    assert [] == world.breaks()
    assert 24 == len(world.rows())
    own = world.positions(ORDERS)
    assert {0, 1} == own.keys()
    assert {0: 6, 1: 6, 2: 6, 3: 6} == own[0] | own[1]
    assert [] == [at for at in own[0] if at in own[1]]
