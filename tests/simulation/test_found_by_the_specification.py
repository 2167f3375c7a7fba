"""What the specification (docs/design/spec) found in the code, each as the story that it told.

All turn on a record whose verdict changes between two readings, because its table's columns do.
"""

import pytest

from penstock.core.commits import Chain
from penstock.core.points import Point
from penstock.ports.tables import TableDefinition
from penstock.testing.grounds import MemoryGround, catalog_name
from penstock.testing.world import ORDERS, PIPELINE, World, either

NAME = catalog_name(ORDERS)


@pytest.fixture
def world():
    return World(MemoryGround())


def test_w12_a_zombie_with_another_store_does_not_refuse_what_landed_meanwhile(world):
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")  # refused by the first life, a row for the second

    def another():
        world.ground.widen(NAME)
        assert {} == world.life(host="b").run(takeover=True).parked

    world.life(host="a").at(Point.PREPARE_AFTER, another).run()
    world.run(host="b")
    world.run(host="a")

    assert [] == world.breaks(judged=either)
    assert 3 == len(world.rows())


def test_w12_a_zombie_whose_store_was_lost_does_not_refuse_what_landed_meanwhile(world):
    world.send("orders", 2)
    world.run()
    world.send("orders", 1, later="x")

    def another():
        world.ground.widen(NAME)
        world.ground.lose_store("here")
        assert {} == world.life().run(takeover=True).parked

    world.life().at(Point.PREPARE_AFTER, another).run()
    world.run()

    assert [] == world.breaks(judged=either)
    assert 3 == len(world.rows())


def die_unheard(world, times):
    """Let lives claim, one after the other, of which no table hears."""
    for _ in range(times):
        world.crash_at("claim.after", host="a")


def test_w15_a_zombie_of_a_higher_number_does_not_refuse_what_another_store_landed(world):
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")
    die_unheard(world, 2)  # the zombie is number 4, its successor, who cannot know, number 2

    def another():
        world.ground.widen(NAME)
        assert {} == world.life(host="b").run(takeover=True).parked

    world.life(host="a").at(Point.PREPARE_AFTER, another).run()
    world.run(host="b")
    world.run(host="a")

    assert [] == world.breaks(judged=either)
    assert 3 == len(world.rows())


def test_w15_what_a_life_of_a_higher_number_left_pending_is_not_landed(world):
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")
    die_unheard(world, 2)
    world.life(host="a").prepare_only(1).run()
    world.ground.widen(NAME)
    world.run(host="b")
    world.run(host="a")

    assert [] == world.breaks(judged=either)
    assert 3 == len(world.rows())


def test_w15_two_owners_with_stores_of_their_own_do_not_play_ping_pong(world):
    world.send("orders", 2)
    world.run(host="a")
    die_unheard(world, 2)
    others = []

    def another():
        others.append(world.life(host="b").run(takeover=True))

    world.send("orders", 1)
    zombie = world.life(host="a").at(Point.PREPARE_AFTER, another).run()

    assert [] == world.breaks()
    assert [None, None] == [zombie.error, *(each.error for each in others)]
    [owner] = {world.landed().owner}
    assert owner == f"owner-1/owner-{zombie.number}"


def test_w15_a_store_from_yesterday_begins_a_line_of_its_own(world):
    """A zombie of the line that was restored may have a higher number than who came after it."""
    saved = world.ground.save_store("here")
    world.send("orders", 2)
    world.run()
    world.crash_at("claim.after")
    world.send("orders", 1, later="x")

    def another():
        world.ground.widen(NAME)
        world.ground.restore_store("here", saved)
        assert {} == world.life().run(takeover=True).parked

    world.life().at(Point.QUARANTINE_BEFORE, another).run()
    world.run()

    assert [] == world.breaks(judged=either)
    assert 3 == len(world.rows())


def test_w13_a_refusal_whose_file_is_gone_is_read_again_though_it_moved_no_offset(world):
    world.send("orders", 1, extra=1)
    world.run()
    world.send("orders", 1, extra=1)  # a row, until its column is dropped
    world.send_raw("orders", b"bad")
    life = world.life(crash="prepare.after:2")
    life.at(Point.COMMIT_BEFORE, lambda: world.ground.change_columns(NAME)).run()
    [refusal] = world.pending()
    assert ({}, 1) == (refusal.progress, refusal.rows)
    world.ground.remove_file(refusal.files[0].path)
    world.run()

    assert [] == world.breaks(judged=either)
    assert [1, 2] == [offset for _, _, offset in world.rejects()]


def test_w14_a_table_made_again_by_hand_refuses_nothing_twice(world):
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.run()
    schema = world.table().state(Chain(PIPELINE, ORDERS)).schema
    world.ground.drop(NAME)
    world.catalog().create(NAME, TableDefinition(schema), [])
    world.run()

    assert [] == world.breaks()
    assert 2 == len(world.rows())
    assert 1 == len(world.rejects())
