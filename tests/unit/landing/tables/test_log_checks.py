"""What a table says of records that Kafka no longer has."""

from __future__ import annotations

from tests.story.backend import MemoryGround
from tests.story.world import ORDERS, World


def test_a_retention_gap_names_all_partitions_and_how_much_would_be_given_up() -> None:
    world = World(MemoryGround(), partitions=7)
    world.run()
    for number in range(7):
        world.send("orders", 1200, partition=number)
        world.delete_before("orders", number, 1100)

    life = world.run()

    assert {ORDERS: "P252"} == life.parked
    message = life.ended.parked[ORDERS].message
    assert "orders[0] offsets 0 to 1,100, orders[1] offsets 0 to 1,100" in message
    assert "orders[4] offsets 0 to 1,100, and 2 more partitions are gone" in message
    assert message.endswith(": 7,700 offsets would be given up")


def test_a_retention_gap_of_stop_across_partitions_names_no_other() -> None:
    world = World(MemoryGround(), partitions=2)
    world.send("orders", 3)
    world.run()
    world.send("orders", 3)
    world.delete_before("orders", 0, 5)

    (error,) = world.run().ended.parked.values()

    assert (
        f"{ORDERS}: orders[0] offsets 3 to 5 are gone from Kafka (retention): "
        "2 offsets would be given up"
    ) == error.message
