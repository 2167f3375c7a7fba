"""One table's flood of rejects parks that table: the others land, and a person decides how it goes on.

In memory: what a person does then is reported on real parts in tests/integration/cli/test_bad_records.py.
"""

from dataclasses import replace

import pytest
from tests.story.backend import CATALOG, MemoryGround
from tests.story.world import ORDERS, RULES, World, tables_named

from penstock.core.events import PipelineStopped, TableParked

ITEMS = f"{CATALOG}.bronze.items"
FLOOD = 150


@pytest.fixture
def world():
    """Two tables; the orders came with a flood of what does not fit, the items are well."""
    world = World(MemoryGround(), routes=tables_named("orders", "items"), stop_above_share=0.5)
    world.send("orders", 3)
    world.send("items", 3)
    world.run()
    world.send("orders", 10)
    world.send_raw("orders", *[b"bad"] * FLOOD)
    world.send("items", 4)
    return world


def test_it_is_parked_with_counts_codes_and_what_was_said_and_the_others_land(world):
    life = world.run()

    (parked,) = life.of(TableParked)
    assert (ORDERS, "P345") == (parked.table, parked.code)
    assert f"{FLOOD} of {10 + FLOOD} records do not fit (P302 {FLOOD})" in parked.reason
    assert f"(50.0%): invalid character (byte 0), {FLOOD} times" in parked.reason
    assert {ORDERS: "P345"} == life.parked
    assert "caught up" == life.ended.reason
    assert ["1 of 2 tables is parked"] == [each.reason for each in life.of(PipelineStopped)]
    assert 7 == len(world.rows(ITEMS))
    assert {0: 3} == world.offsets(ORDERS)
    assert [] == world.rejects(ORDERS) == world.pending()


def test_nothing_that_it_did_not_land_counts_as_examined(world):
    world.run()

    known = world.store().examined("shop", ORDERS)
    assert {3} == {offset for each in known.values() for offset in each.reached.values()}


def test_it_stays_parked_while_the_others_go_on(world):
    world.alone()
    life = world.life(every_seconds=0.0).at_listing(20, lambda: world.send("items", 2))
    life.at_listing(200, life.stop.set).run("stopped")

    assert {ORDERS: "P345"} == life.parked
    assert 1 == len(life.of(TableParked))
    assert 9 == len(world.rows(ITEMS))


def test_it_goes_on_with_all_that_came_meanwhile_when_the_share_is_raised(world):
    world.run()
    world.send("orders", 2)
    assert {ORDERS: "P345"} == world.run().parked
    life = world.run(stop_above_share=1.0)

    assert {} == life.parked
    assert FLOOD == len(world.rejects(ORDERS))
    assert [] == world.breaks()


def test_it_goes_on_where_other_records_thin_the_flood_out(world):
    world.run()
    world.send("orders", 2 * FLOOD)

    assert {} == world.run().parked
    assert [] == world.breaks()


def test_a_run_ends_where_every_table_would_be_parked(world):
    world.send_raw("items", *[b"bad"] * FLOOD)
    life = world.life().run("stopped")

    assert {ORDERS: "P345", ITEMS: "P345"} == life.parked
    assert "every table waits for a decision" == life.ended.reason
    (stopped,) = life.of(PipelineStopped)
    assert "every table waits for a decision; 2 of 2 tables are parked" == stopped.reason


def test_changed_rules_count_at_once_where_no_other_table_has_its_topic(world):
    world.rulebook[RULES] = {"tombstones": "quarantine"}
    world.send_raw("orders", *[None] * 2 * FLOOD)
    assert {ORDERS: "P345"} == world.run().parked
    world.change_rules("rules-2", tombstones="skip")

    assert {} == world.run().parked
    assert FLOOD == len(world.rejects(ORDERS))
    assert [] == world.breaks()


class Divided(World):
    """Two tables of one topic; by the first rules one of them refuses tombstones."""

    def _targets(self, rules):
        return {
            topic: tuple(self._minded(rules, target) for target in targets)
            for topic, targets in super()._targets(rules).items()
        }

    def _minded(self, rules, target):
        strict = target.location.table == ITEMS and rules == RULES
        tombstones = "quarantine" if strict else "skip"
        return replace(target, options=replace(target.options, tombstones=tombstones))


@pytest.fixture
def divided():
    """The strict table is parked by a flood of tombstones, the other went on."""
    world = Divided(MemoryGround(), routes={"orders": (ORDERS, ITEMS)}, stop_above_share=0.5)
    world.send("orders", 3)
    world.run()
    world.send_raw("orders", *[None] * FLOOD)
    world.send("orders", 2)
    assert {ITEMS: "P345"} == world.run().parked
    assert {0: 5 + FLOOD} == world.offsets(ORDERS)
    return world


def test_changed_rules_count_for_it_when_a_person_says_so(divided):
    """By the former rules it would be parked again, and they are asked first."""
    divided.change_rules("rules-2")
    divided.send("orders", 1)
    asked = divided.run()
    assert "P189" == asked.code
    assert f"{ITEMS}: {FLOOD} of" in asked.error.message
    assert f"{ITEMS} orders[0][3, {5 + FLOOD})" in asked.error.message
    assert "--accept rules" in asked.error.hint
    assert [5, 3] == [len(divided.rows(name)) for name in (ORDERS, ITEMS)]

    assert {} == divided.run(accept=["rules"]).parked
    assert [6, 6] == [len(divided.rows(name)) for name in (ORDERS, ITEMS)]
    assert [] == divided.rejects(ITEMS)
    assert [] == divided.breaks()


def test_changed_rules_count_after_the_former_ones_when_the_share_is_raised_as_well(divided):
    divided.change_rules("rules-2")
    divided.send_raw("orders", *[None] * FLOOD)
    life = divided.run(stop_above_share=1.0)

    assert {} == life.parked
    assert "rules-2" == divided.landed(ITEMS).rules_hash
    assert FLOOD == len(divided.rejects(ITEMS))
    assert [5, 5] == [len(divided.rows(name)) for name in (ORDERS, ITEMS)]


def test_a_table_that_is_flooded_in_its_first_epoch_is_parked_and_begins_later():
    world = World(MemoryGround(), routes=tables_named("orders", "items"), stop_above_share=0.5)
    world.send_raw("orders", *[b"bad"] * FLOOD)
    world.send("items", 4)
    life = world.run()

    assert {ORDERS: "P345"} == life.parked
    assert 4 == len(world.rows(ITEMS))
    world.send("orders", 2)
    world.run(stop_above_share=1.0)
    assert [] == world.breaks()


def test_a_crash_after_the_others_were_prepared_takes_nothing_from_it(world):
    world.crash_at("prepare.after")
    world.run(stop_above_share=1.0)

    assert [] == world.breaks()
