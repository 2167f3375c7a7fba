"""Tables that fail again and again are tried less and less; no run waits for them for ever."""

from itertools import count

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.single_thread import SeededCommits
from tests.story.world import ORDERS, World, tables_named

from penstock.core.crash_points import CrashPoint
from penstock.core.events import TableCreated, TableParked, TableResumed
from penstock.landing.tables.parking import RETRY_SECONDS_MAX, TRIES_MAX, retry_delay_seconds

TWO = tables_named("orders", "items")
NAMES = {catalog_name(name) for (name,) in TWO.values()}


@pytest.fixture
def world():
    """Records wait for two tables, neither of which can be created."""
    world = World(MemoryGround(), routes=TWO)
    world.alone()
    world.send("orders", 3)
    world.send("items", 3)
    for name in NAMES:
        world.faults.take_away(name)
    return world


def test_the_pause_doubles_to_half_a_minute_and_stays_there_for_years():
    assert [1, 2, 4, 8, 16, 30, 30] == [retry_delay_seconds(tries) for tries in range(1, 8)]
    assert RETRY_SECONDS_MAX == retry_delay_seconds(1_000_000)


@pytest.mark.parametrize("seconds", [0, 3, 100])
def test_a_run_ends_though_two_tables_that_cannot_be_created_take_turns(world, seconds):
    """While one is surveyed, the other's pause is over."""
    life = world.life()
    for passing in range(1, 1000):
        life.at(CrashPoint.EPOCH_PLANNED, lambda: world.clock.advance(seconds), passing=passing)
    life.run()

    assert {"P402"} == set(life.parked.values())
    assert 2 == len(life.parked)
    assert 2 * TRIES_MAX >= len(life.of(TableParked))

    for name in NAMES:
        world.faults.give_back(name)
    world.run()
    assert [] == world.breaks()


def test_a_run_without_an_end_tries_them_again_every_half_minute_at_most(world):
    life = world.life()
    surveys = []

    def come_back():
        surveys.append(len(life.of(TableParked)))
        for name in NAMES:
            world.faults.give_back(name)

    life.at_listing(1200, come_back).at_listing(1300, life.stop.set)
    began = world.clock.monotonic()
    life.run("stopped")

    seconds = world.clock.monotonic() - began
    assert seconds > 20 * RETRY_SECONDS_MAX
    assert 2 * 15 < surveys[0] <= 2 * (6 + seconds / RETRY_SECONDS_MAX)
    assert NAMES < {event.table.partition(".")[2] for event in life.of(TableCreated)}
    assert [] == world.breaks()


def test_a_table_that_landed_something_is_tried_again_at_once(world):
    (orders,) = TWO["orders"]
    life = world.life()

    def come_back():
        for name in NAMES:
            world.faults.give_back(name)

    def fall_back():
        world.send("orders", 1)
        nth = life.points.count(CrashPoint.PREPARE_AFTER) + 1
        life.at(
            CrashPoint.PREPARE_AFTER,
            lambda: world.faults.take_away(catalog_name(orders)),
            passing=nth,
        )

    life.at_listing(200, come_back).at_listing(400, fall_back)
    for number in range(401, 600):
        life.at_listing(number, come_back)
    life.at_listing(600, life.stop.set).run("stopped")

    *before, last = life.of(TableResumed)
    assert orders == last.table
    assert 2 > last.seconds
    assert len(before) > 5
    assert [] == world.breaks()


def test_what_recovery_lands_counts_as_well():
    """The first try of each commit is refused, the second lands it."""
    world = World(MemoryGround(), every_seconds=0.0)
    world.alone()
    world.send("orders", 1)
    world.run()
    life = world.life(every_seconds=0.0)
    for passing in range(1, 500):
        life.at(
            CrashPoint.PREPARE_AFTER,
            lambda: world.faults.queue(catalog_name(ORDERS), Fault.REFUSE),
            passing=passing,
        )
    for listing in range(2, 600, 2):
        life.at_listing(listing, lambda: world.send("orders", 1))
    life.at_listing(600, life.stop.set).run("stopped")

    seconds = [event.seconds for event in life.of(TableResumed)]
    assert len(seconds) > 30
    assert RETRY_SECONDS_MAX > max(seconds)
    world.run()
    assert [] == world.breaks()


def test_what_only_quarantine_gets_does_not_count():
    """Two epochs are prepared before the first is committed, and somebody changes the columns."""
    ground = MemoryGround()
    world = World(ground, every_seconds=0.0)
    world.alone()
    world.send("orders", 1)
    world.run()
    life, work, turns = world.life(every_seconds=0.0, max_epochs=4), SeededCommits._work, count()
    for passing in range(1, 500):
        life.at(
            CrashPoint.PREPARE_AFTER,
            lambda: ground.change_columns(catalog_name(ORDERS)),
            passing=passing,
        )

    def send():
        world.send("orders", 1)
        world.send_raw("orders", b"bad")

    for listing in range(2, 600):
        life.at_listing(listing, send)
    life.at_listing(600, life.stop.set)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SeededCommits, "_work", lambda self: next(turns) % 6 or work(self))
        life.run("stopped")

    assert {0: 1} == world.offsets()
    assert len(life.of(TableParked)) > 5
    assert {"P460"} == {event.code for event in life.of(TableParked)}
    world.run()
    assert [] == world.breaks()
