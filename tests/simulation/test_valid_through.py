"""Valid-through: through what time all of a table's records have been read (protocol.md 2)."""

import pytest

from penstock.testing.clock import START_MS
from penstock.testing.grounds import MemoryGround
from penstock.testing.world import World


@pytest.fixture
def world():
    world = World(MemoryGround(), partitions=2)
    world.sleep(1000)
    return world


def through(world: World) -> int:
    return world.landed().valid_through_ms


def test_it_is_the_time_of_listing_when_all_was_read_with_an_idle_partition(world):
    world.send("orders", 3)
    before = world.clock.now_ms()
    world.run()

    assert before < through(world) <= world.clock.now_ms()


def test_it_is_the_least_partition_s_newest_record_while_there_is_more_to_read(world):
    world.send("orders", 4)  # stamped START_MS + 1 to 4
    world.send("orders", 4, partition=1)  # and + 5 to 8
    world.life(records_max=4).run("once")

    assert START_MS + 2 == through(world)


def test_an_open_transaction_keeps_it_back(world):
    world.send("orders", 2)
    world.begin("orders", 1)
    world.send("orders", 1, partition=1)
    world.run()

    assert START_MS + 2 == through(world)


def test_it_never_moves_backwards(world):
    world.send("orders", 2)
    world.run()
    first = through(world)
    world.begin("orders", 1)
    world.send("orders", 1, partition=1)  # stamped long before
    world.run()
    assert first <= through(world)

    world.clock.set_wall_clock(START_MS)
    world.send("orders", 1, partition=1)
    world.run()
    assert first <= through(world)


def test_records_stamped_in_the_future_do_not_carry_it_there(world):
    world.clock.set_wall_clock(START_MS - 50_000)
    world.send("orders", 2)
    world.begin("orders", 1)
    world.run()

    assert through(world) <= world.clock.now_ms()
