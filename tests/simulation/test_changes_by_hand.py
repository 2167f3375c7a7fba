"""A pipeline is changed by hand: never next to a run, and only where nothing is pending."""

from tests.story.backend import MemoryGround
from tests.story.world import ORDERS, PIPELINE, World

from penstock.core.crash_points import CrashPoint


def test_a_change_is_refused_while_another_owner_is_alive() -> None:
    world = World(MemoryGround())
    world.send("orders", 1)
    refused = []
    life = world.life()
    life.at(
        CrashPoint.PREPARE_AFTER,
        lambda: refused.append(world.life().change(lambda _: None, awake=True).code),
    )
    life.run()

    assert ["P510"] == refused
    assert [] == world.breaks()


def test_a_change_settles_what_is_pending_for_its_table_first() -> None:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.crash_at("prepare.after")
    life = world.life().change(lambda held: held.settle_pending(ORDERS).position.expected)

    assert [3] == [int(offset) for offset in life.changed.values()]
    assert [] == world.breaks()


def test_a_change_of_a_table_that_no_topic_is_routed_to_is_refused() -> None:
    world = World(MemoryGround())
    world.send("orders", 1)
    world.run()

    assert "P185" == world.life().change(lambda held: held.settle_pending("lake.bronze.no")).code


def test_a_change_lets_the_pipeline_go_whatever_ends_it() -> None:
    world = World(MemoryGround())
    world.send("orders", 1)
    world.run()
    world.life().change(lambda held: held.settle_pending("lake.bronze.no"))
    world.send("orders", 1)

    assert {} == world.life().run(takeover=False).parked
    assert [] == world.breaks()
    assert 0 == world.store().holding(PIPELINE).alive_until_ms
