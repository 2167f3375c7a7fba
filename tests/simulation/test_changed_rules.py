"""A spec changes while something is under way: whatever ends a run, verdicts are those of one spec.

In memory: what is told here are crashes between two changes, and many records that leave no row.
"""

import pytest

from penstock.core.points import Point
from penstock.testing.grounds import CATALOG, MemoryGround, catalog_name
from penstock.testing.world import RULES, World

TOMBSTONES = 120  # enough for a breaker
TABLES = tuple(f"{CATALOG}.bronze.orders_{number}" for number in (1, 2, 3))
AHEAD, TRAILING, LATE = TABLES
ORDERS, RETURNS = {"orders": TABLES}, {"returns": TABLES}


@pytest.fixture
def world():
    """A pipeline that examined tombstones by rules that skip them, was killed, and has new rules.

    Its table stands before them; what was examined is noted in its store.
    """
    world = World(MemoryGround())
    world.rulebook[RULES] = {"tombstones": "skip"}
    world.send("orders", 3)
    world.run()
    world.send_raw("orders", *[None] * TOMBSTONES)
    world.crash_at("stopping")
    world.change_rules("rules-2", tombstones="quarantine")
    return world


class TestWhatWasExaminedByFormerRules:
    def test_it_is_read_again_by_the_present_ones(self, world):
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_the_first_epoch_by_the_present_ones_did_not_come_to_its_end(
        self, world
    ):
        world.crash_at("epoch.planned")
        assert {0: 3} == world.offsets()
        assert "rules-2" == world.landed().rules_hash
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_the_breaker_ended_the_first_run_by_the_present_ones(self, world):
        assert "P345" == world.run(stop_above_share=0.1).code
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_an_older_store_is_restored(self, world):
        saved = world.ground.save_store("here")
        world.crash_at("epoch.planned")
        world.ground.restore_store("here", saved)
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_not_read_again_when_its_rules_are_back(self, world):
        world.crash_at("epoch.planned")
        world.rules = RULES
        life = world.run()

        assert 0 == life.records_read
        assert {0: 3 + TOMBSTONES} == world.offsets()


@pytest.fixture
def unlevel():
    """Two topics, three tables; one did not see the last of the orders, for it was away then."""
    world = World(MemoryGround(), routes={**ORDERS, **RETURNS}, commit_threads=1)
    world.send("orders", 3)
    world.send("returns", 3)
    world.run()
    world.send("orders", 2)
    miss(world, TRAILING)
    return world


def miss(world, *tables):
    """Let tables be away while the others land."""
    for table in tables:
        world.faults.take_away(catalog_name(table))
    world.run()
    for table in tables:
        world.faults.give_back(catalog_name(table))


def rows_of_orders(world, table):
    return [offset for topic, _, offset in world.rows(table) if topic == "orders"]


class TestTablesThatAreNotLevel:
    def test_they_are_leveled_in_a_topic_that_the_spec_no_longer_reads(self, unlevel):
        unlevel.routes = RETURNS
        unlevel.change_rules("rules-2")
        unlevel.send("orders", 4)
        unlevel.send("returns", 2)
        life = unlevel.run()

        assert "caught up" == life.ended.reason
        for table in TABLES:
            assert [0, 1, 2, 3, 4] == rows_of_orders(unlevel, table)
            assert 10 == len(unlevel.rows(table))
            assert "rules-2" == unlevel.landed(table).rules_hash

    def test_a_human_is_asked_each_time_when_their_topic_is_gone(self, unlevel):
        unlevel.routes = RETURNS
        unlevel.change_rules("rules-2")
        unlevel.delete_topic("orders")
        unlevel.send("returns", 2)
        lives = [unlevel.run(), unlevel.run()]

        assert ["P189", "P189"] == [life.code for life in lives]
        assert f"{TRAILING} orders[0][3, 5)" in lives[0].error.message
        assert 6 == len(unlevel.rows(TRAILING))

        assert "caught up" == unlevel.run(accept=["rules"]).ended.reason
        assert 8 == len(unlevel.rows(TRAILING))

    def test_a_human_is_asked_when_leveling_brings_them_no_further(self, unlevel):
        unlevel.routes = RETURNS
        unlevel.change_rules("rules-2")
        unlevel.delete_topic("orders")
        unlevel.ground.create("orders", 1)
        life = unlevel.run(accept=["topic"])

        assert "P189" == life.code
        assert "can be read no more" in life.error.message
        assert "[3, 5)" in life.error.message

    def test_one_that_comes_back_behind_the_leveling_is_leveled_too(self, unlevel):
        unlevel.send("orders", 1)
        miss(unlevel, LATE, TRAILING)
        unlevel.change_rules("rules-2")
        unlevel.faults.take_away(catalog_name(LATE))
        come_back = lambda: unlevel.faults.give_back(catalog_name(LATE))  # noqa: E731
        life = unlevel.life().at(Point.RELEASE_AFTER, come_back, passing=2).run()

        assert "caught up" == life.ended.reason
        assert {} == life.parked
        assert [] == unlevel.breaks()

    def test_they_go_on_behind_what_retention_took_when_a_human_consents(self, unlevel):
        unlevel.change_rules("rules-2")
        unlevel.delete_before("orders", 0, 4)

        assert "P252" == unlevel.run().code
        assert "caught up" == unlevel.run(accept=["gap"]).ended.reason
        assert [0, 1, 2, 4] == rows_of_orders(unlevel, TRAILING)

    def test_a_human_is_told_when_several_former_rules_fed_them(self, unlevel):
        unlevel.change_rules("rules-2")
        unlevel.send("orders", 1)
        miss(unlevel, TRAILING)
        unlevel.send("orders", 1)
        miss(unlevel, TRAILING, LATE)
        unlevel.change_rules("rules-3")
        life = unlevel.run()

        assert "P189" == life.code
        assert "fed by several rules" in life.error.message
