"""A record that kills the process that reads it is found, refused by itself, and the rest lands."""

import pytest

from penstock.core.events import PoisonFound
from penstock.testing.grounds import MemoryGround
from penstock.testing.world import ORDERS, World, either


@pytest.fixture
def world():
    return World(MemoryGround(), partitions=2)


def poisoned(world, *offsets, partition=0, **given):
    life = world.life(**given)
    life.poison |= {(world.ground.topic("orders"), partition, offset) for offset in offsets}
    return life


def test_poison_is_found_by_halves_and_refused_alone(world):
    world.send("orders", 300)
    world.send("orders", 40, partition=1)
    life = poisoned(world, 123).run()

    assert [123] == [each.offset for each in life.of(PoisonFound)]
    assert [(world.ground.topic("orders"), 0, 123)] == world.rejects()
    assert [] == world.breaks(judged=either)
    assert 339 == len(world.rows())
    assert len(life.jobs) < 60


def test_several_records_of_poison_are_all_found(world):
    world.send("orders", 100)
    poisoned(world, 0, 1, 50, 99).run()

    assert [0, 1, 50, 99] == [offset for _, _, offset in world.rejects()]
    assert [] == world.breaks(judged=either)


def test_poison_that_came_before_the_table_exists_holds_up_nobody(world):
    world.send("orders", 3)
    poisoned(world, 1).run()

    assert [1] == [offset for _, _, offset in world.rejects()]
    assert 2 == len(world.rows())


def test_every_table_of_a_topic_goes_without_the_record():
    world = World(MemoryGround(), routes={"orders": (ORDERS, f"{ORDERS}_too")})
    world.send("orders", 20)
    poisoned(world, 7).run()

    assert [7] == [offset for _, _, offset in world.rejects(f"{ORDERS}_too")]
    assert [] == world.breaks(judged=either)


def test_a_range_read_again_does_not_refuse_the_record_twice(world):
    world.send("orders", 20)
    assert poisoned(world, 7, crash="quarantine.after:1").run().crashed
    world.ground.lose_store("here")
    poisoned(world, 7).run()

    assert [7] == [offset for _, _, offset in world.rejects()]
    assert [] == world.breaks(judged=either)


def test_more_poison_than_is_sought_ends_the_run_with_its_own_error(world):
    world.send("orders", 60)

    assert "P606" == poisoned(world, *range(60)).run().code
    assert [] == world.rejects()
