"""A topic that one listing misses, as one whose permission comes back: its tables go on."""

import threading

import pytest
from tests.simulation.test_ends import Hiding
from tests.simulation.test_fan_out import by_kind, table_of
from tests.story.backend import catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.world import QUARANTINE, World, tables_named

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.core.events import TableAbandoned, TableParked, TableResumed
from penstock.landing.settings import ThreadPoolCommits

TWO = tables_named("orders", "items")
ITEMS = TWO["items"][0]


@pytest.fixture
def ground():
    return Hiding()


@pytest.fixture
def routed(ground):
    """A route with the tables a and b."""
    world = by_kind(ground, every_seconds=0.0)
    world.alone()
    world.send("orders", 2, kind="a")
    world.send("orders", 2, kind="b")
    world.run()
    return world


@pytest.mark.parametrize("listing", [7, 12, 40])
def test_a_parked_table_of_a_route_comes_back(ground, routed, listing):
    name = catalog_name(table_of("a"))
    routed.send("orders", 2, kind="a")
    life = routed.life(every_seconds=0.0)
    life.at(CrashPoint.PREPARE_AFTER, lambda: routed.faults.take_away(name))

    def show():
        ground.hidden.clear()
        routed.faults.give_back(name)
        routed.send("orders", 5, kind="a")
        routed.send("orders", 5, kind="b")

    life.at_listing(listing, lambda: ground.hidden.add("orders")).at_listing(listing + 1, show)
    life.at_listing(300, life.stop.set).run("stopped")

    assert [table_of("a")] == [event.table for event in life.of(TableAbandoned)]
    assert [table_of("a")] == [event.table for event in life.of(TableResumed)]
    assert {} == life.parked
    assert 2 + 2 + 5 == len(routed.rows(table_of("a")))
    assert [] == routed.breaks()


def test_a_table_that_is_still_away_when_its_topic_is_back_is_reported_again(ground, routed):
    name = catalog_name(table_of("a"))
    routed.send("orders", 2, kind="a")
    life = routed.life(every_seconds=0.0)
    life.at(CrashPoint.PREPARE_AFTER, lambda: routed.faults.take_away(name))
    life.at_listing(80, lambda: ground.hidden.add("orders"))
    life.at_listing(81, ground.hidden.clear).at_listing(82, life.stop.set).run("stopped")

    reported = [
        type(event)
        for event in life.observer.events
        if isinstance(event, TableParked | TableAbandoned)
    ]
    assert [TableAbandoned, TableParked] == reported[-2:]
    assert {table_of("a"): "P459"} == life.parked


@pytest.mark.parametrize("back", [30, 60, 99])
def test_tables_of_a_route_that_is_parked_itself_come_back(ground, routed, back):
    routed.send_raw("orders", b'{"n": 1}')  # the route refuses it
    life = routed.life(every_seconds=0.0)
    life.at(CrashPoint.PREPARE_AFTER, lambda: routed.faults.take_away(catalog_name(QUARANTINE)))
    life.at_listing(20, lambda: ground.hidden.add("orders"))
    life.at_listing(21, ground.hidden.clear)

    def step_aside():
        routed.send("orders", 1, kind="a")
        routed.faults.queue(catalog_name(table_of("a")), Fault.REFUSE)

    life.at_listing(24, step_aside)
    life.at_listing(back, lambda: routed.faults.give_back(catalog_name(QUARANTINE)))
    life.at_listing(back + 120, life.stop.set).run("stopped")

    assert life.error is None
    assert {} == life.parked
    assert 3 == len(routed.rows(table_of("a")))


class ShortWaits(ThreadPoolCommits):
    """Threads that commit; the coordinator never waits long for them."""

    def before_wait(self, seconds):
        return min(seconds, 0.02)


def test_a_table_is_opened_once_though_its_recovery_still_keeps_house(ground):
    """Opened twice, it was taken to wait for a commit, and got no column ever after."""
    world = World(ground, routes=TWO, every_seconds=0.0)
    world.hands = ShortWaits
    world.change_rules("wide", columns="evolve")
    for topic in TWO:
        world.send(topic, 2)
    world.run()
    world.send("items", 1)
    world.crash_at("commit.before")
    life = world.life(every_seconds=0.0)
    armed, held, let_go = threading.Event(), threading.Event(), threading.Event()
    turns = iter(range(300))
    acts = {}

    def hold():
        if armed.is_set() and not let_go.is_set():
            held.set()
            assert let_go.wait(20)

    def refuse():
        world.send("items", 1)
        world.faults.queue(catalog_name(ITEMS), Fault.REFUSE)

    def show():
        ground.hidden.clear()
        world.send("items", 2)

    def follow():
        if held.wait(0.02):
            acts.get(next(turns), lambda: None)()

    acts[0] = lambda: ground.hidden.add("items")
    acts[1] = show
    acts[7] = let_go.set
    acts[60] = lambda: world.send("items", 2, novel=1)
    for passing in range(1, 60):
        life.at(CrashPoint.HOUSEKEEP_BEFORE, hold, passing=passing)
    life.at_listing(8, refuse).at_listing(9, armed.set)
    for listing in range(10, 200):
        life.at_listing(listing, follow)
    life.at_listing(200, life.stop.set).run("stopped")

    assert next(turns) > 61
    assert life.error is None
    assert [] == world.breaks()


def test_brokers_that_refuse_us_after_an_epoch_are_waited_for(ground):
    world = World(ground, every_seconds=0.0)
    world.alone()
    world.send("orders", 2)
    world.run()
    world.send("orders", 2)
    life = world.life(every_seconds=0.0)
    refused = InvalidError("the brokers refused user p", code="P202", hint="check it")
    life.at(CrashPoint.EPOCH_PLANNED, lambda: ground.refusals.append(refused))
    life.at_listing(40, life.stop.set).run("stopped")

    assert life.error is None
    assert 4 == len(world.rows())
