"""A spec changes while something is under way: whatever ends a run, verdicts are those of one spec.

In memory: what is reported here are crashes between two changes, and many records that leave no row.
"""

import pytest
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.world import ORDERS as ORDERS_TABLE
from tests.story.world import RULES, World

from penstock.core.crash_points import CrashPoint
from penstock.core.schema import Field, Kind, Struct
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression

TOMBSTONES = 120  # enough for a breaker
TABLES = tuple(f"{CATALOG}.bronze.orders_{number}" for number in (1, 2, 3))
AHEAD, TRAILING, LATE = TABLES
OF_KIND = f"{CATALOG}.bronze.of_{{kind}}"
OF_A = f"{CATALOG}.bronze.of_a"
KIND = Struct((Field("kind", Kind.STRING),))
BY_KIND = DynamicRoute(
    OF_KIND, {"kind": SqlExpression("kind", KIND, "tables[0].route.kind")}, unknown="create"
)
ORDERS, RETURNS = {"orders": TABLES}, {"returns": TABLES}


@pytest.fixture
def world():
    """A pipeline that examined tombstones by rules that skip them, was killed, and has new rules.

    Its table is before them; what was examined is noted in its store.
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

    def test_it_is_read_again_when_the_first_epoch_by_the_present_ones_parked_it(self, world):
        assert {ORDERS_TABLE: "P345"} == world.run(stop_above_share=0.1).parked
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


def two_topics():
    """Return a world with three records of each topic landed."""
    world = World(MemoryGround(), routes={**ORDERS, **RETURNS}, commits_at_once=1)
    world.send("orders", 3)
    world.send("returns", 3)
    world.run()
    return world


@pytest.fixture
def unlevel():
    """Two topics, three tables; one did not see the last of the orders, for it was away then."""
    world = two_topics()
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

    def test_a_person_is_asked_each_time_when_their_topic_is_missing(self, unlevel):
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

    def test_a_person_is_asked_no_more_for_a_topic_that_the_accepted_rules_do_not_read(
        self, unlevel
    ):
        unlevel.routes = RETURNS
        unlevel.change_rules("rules-2")
        unlevel.delete_topic("orders")
        unlevel.run(accept=["rules"])
        unlevel.change_rules("rules-3")
        unlevel.send("returns", 2)

        assert "caught up" == unlevel.run().ended.reason
        assert "rules-3" == unlevel.landed(TRAILING).rules_hash

    def test_a_person_is_asked_when_leveling_brings_them_no_further(self, unlevel):
        unlevel.routes = RETURNS
        unlevel.change_rules("rules-2")
        unlevel.delete_topic("orders")
        unlevel.ground.create("orders", 1)
        life = unlevel.run(accept=["topic"])

        assert "P189" == life.code
        assert "can no longer be read" in life.error.message
        assert "[3, 5)" in life.error.message

    def test_one_that_comes_back_after_the_leveling_is_leveled_too(self, unlevel):
        unlevel.send("orders", 1)
        miss(unlevel, LATE, TRAILING)
        unlevel.change_rules("rules-2")
        unlevel.faults.take_away(catalog_name(LATE))
        come_back = lambda: unlevel.faults.give_back(catalog_name(LATE))  # noqa: E731
        life = unlevel.life().at(CrashPoint.RELEASE_AFTER, come_back, passing=2).run()

        assert "caught up" == life.ended.reason
        assert {} == life.parked
        assert [] == unlevel.breaks()

    def test_they_go_on_after_what_retention_took_when_a_person_consents(self, unlevel):
        unlevel.change_rules("rules-2")
        unlevel.delete_before("orders", 0, 4)

        assert "P252" == unlevel.run().code
        assert "caught up" == unlevel.run(accept=["gap"]).ended.reason
        assert [0, 1, 2, 4] == rows_of_orders(unlevel, TRAILING)

    def test_a_person_is_informed_when_several_former_rules_fed_them(self, unlevel):
        unlevel.change_rules("rules-2")
        unlevel.send("orders", 1)
        miss(unlevel, TRAILING)
        unlevel.send("orders", 1)
        miss(unlevel, TRAILING, LATE)
        unlevel.change_rules("rules-3")
        life = unlevel.run()

        assert "P189" == life.code
        assert "fed by several rules" in life.error.message


@pytest.fixture
def narrowed():
    """Two topics, three tables; one of these takes orders no more, and they went on."""
    world = two_topics()
    narrow(world)
    world.send("orders", 2)
    world.send("returns", 1)
    world.run()
    return world


@pytest.fixture
def by_kind():
    """Two topics, each to a table and by a route to another."""
    both = dict.fromkeys(("orders", "returns"), (AHEAD, OF_KIND))
    gates = {OF_KIND: RecordFilter(route=BY_KIND)}
    world = World(MemoryGround(), routes=both, gates=gates, commits_at_once=1)
    world.send("orders", 2, kind="a")
    world.send("returns", 2, kind="a")
    world.run()
    return world


def narrow(world):
    world.routes = {"orders": (AHEAD, LATE), **RETURNS}
    world.change_rules("rules-2")


class TestTopicsThatFormerRulesDidNotGiveATable:
    def test_nobody_is_asked_when_rules_change_again(self, narrowed):
        for rules in ("rules-3", "rules-4"):
            narrowed.change_rules(rules)
            narrowed.send("orders", 1)
            narrowed.send("returns", 1)
            life = narrowed.run()

            assert "caught up" == life.ended.reason
            assert rules == narrowed.landed(TRAILING).rules_hash
        assert [0, 1, 2] == rows_of_orders(narrowed, TRAILING)
        assert 8 + 1 == len(narrowed.rows(TRAILING))
        assert {} == life.parked

    def test_a_topic_that_is_given_back_continues_from_the_tables_position(self, narrowed):
        narrowed.routes = {**ORDERS, **RETURNS}
        narrowed.change_rules("rules-3")
        narrowed.send("orders", 2)
        life = narrowed.run()

        assert "caught up" == life.ended.reason
        assert [] == narrowed.breaks()

    def test_they_are_known_by_the_rules_alone_when_the_topic_is_missing(self, narrowed):
        narrowed.routes = RETURNS
        narrowed.change_rules("rules-3")
        narrowed.delete_topic("orders")
        narrowed.send("returns", 1)

        assert "caught up" == narrowed.run().ended.reason

    def test_a_person_is_asked_when_the_former_rules_are_lost(self, narrowed):
        narrowed.change_rules("rules-3")
        narrowed.ground.lose_store("here")

        assert "P189" == narrowed.run().code

    def test_a_table_that_trails_in_another_topic_is_leveled_in_that_one(self, narrowed):
        narrowed.send("returns", 2)
        miss(narrowed, TRAILING)
        narrowed.change_rules("rules-3")
        life = narrowed.run()

        assert "caught up" == life.ended.reason
        assert [0, 1, 2] == rows_of_orders(narrowed, TRAILING)
        assert 3 + 6 == len(narrowed.rows(TRAILING))

    def test_a_table_that_was_away_when_rules_changed_comes_back_in_the_same_run(self, narrowed):
        narrowed.change_rules("rules-3")
        narrowed.send("orders", 1)
        narrowed.faults.take_away(catalog_name(TRAILING))

        def come_back():
            narrowed.faults.give_back(catalog_name(TRAILING))
            narrowed.sleep(5)
            narrowed.send("orders", 1)

        life = narrowed.life().at(CrashPoint.COMMIT_AFTER, come_back).run()

        assert {} == life.parked
        assert "rules-3" == narrowed.landed(TRAILING).rules_hash

    def test_what_it_missed_while_they_gave_it_is_leveled_though_others_went_on(self):
        world = World(MemoryGround(), routes={**ORDERS, **RETURNS}, commits_at_once=1)
        world.send("orders", 3)
        world.send("returns", 3)
        world.run()
        world.send("orders", 2)
        miss(world, TRAILING)
        narrow(world)
        world.send("orders", 1)
        miss(world, TRAILING)
        world.run()

        assert [0, 1, 2, 3, 4] == rows_of_orders(world, TRAILING)[:5]
        assert "rules-2" == world.landed(TRAILING).rules_hash

    def test_tables_of_a_route_are_checked_by_it(self, by_kind):
        by_kind.routes = {"orders": (AHEAD,), "returns": (AHEAD, OF_KIND)}
        for rules in ("rules-2", "rules-3", "rules-4"):
            by_kind.change_rules(rules)
            by_kind.send("orders", 1, kind="a")
            by_kind.send("returns", 1, kind="a")
            life = by_kind.run()

            assert "caught up" == life.ended.reason
            assert {} == life.parked
        assert 2 + 5 == len(by_kind.rows(OF_A))

    def test_tables_of_a_route_that_trail_in_its_topics_are_leveled(self, by_kind):
        by_kind.send("orders", 2, kind="a")
        miss(by_kind, OF_A)
        by_kind.routes = {"orders": (AHEAD,), "returns": (AHEAD, OF_KIND)}
        by_kind.change_rules("rules-2")
        by_kind.send("orders", 1, kind="a")
        life = by_kind.run()

        assert "caught up" == life.ended.reason
        assert [0, 1, 2, 3] == rows_of_orders(by_kind, OF_A)

    def test_a_person_is_asked_for_tables_of_a_route_whose_topic_is_missing(self, by_kind):
        by_kind.send("orders", 2, kind="a")
        miss(by_kind, OF_A)
        by_kind.routes = {"returns": (AHEAD, OF_KIND)}
        by_kind.change_rules("rules-2")
        by_kind.delete_topic("orders")
        life = by_kind.run()

        assert "P189" == life.code
        assert f"{OF_A} orders[0][2, 4)" in life.error.message
