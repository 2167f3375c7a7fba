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
