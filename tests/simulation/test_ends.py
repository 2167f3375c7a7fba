"""A run ends by itself once what it found has landed, even if producers go on or partitions give nothing."""

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, World, tables_named

from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.core.events import (
    EpochPlanned,
    KafkaAnswered,
    TableAbandoned,
    TableParked,
    TopicUnrouted,
)

TWO = tables_named("orders", "items")
ITEMS = TWO["items"][0]


@pytest.fixture
def ground():
    return MemoryGround()


class Hiding(MemoryGround):
    """Lists no topic that is hidden, as a pattern lists none that was deleted."""

    def __init__(self):
        super().__init__()
        self.hidden = set()
        self.refusals = []

    def open_log(self, topics):
        log, listed = super().open_log(topics), MemoryLog.partitions

        def partitions(*, without=()):
            if self.refusals:
                raise self.refusals.pop()
            return [at for at in listed(log, without=without) if at.topic not in self.hidden]

        log.partitions = partitions
        return log


@pytest.mark.parametrize("until", ["caught-up", "once"])
def test_a_run_ends_though_producers_never_pause(ground, until):
    world = World(ground)
    world.send("orders", 3)
    life = world.life()
    for passing in range(1, 500):
        life.at(CrashPoint.EPOCH_PLANNED, lambda: world.send("orders", 1), passing=passing)
    life.run(until)

    assert 3 == len(world.rows())
    assert 1 == len(life.of(EpochPlanned))
    world.run()
    assert [] == world.breaks()


def test_a_partition_that_comes_while_it_runs_is_read_to_where_it_ended_then(ground):
    world = World(ground)
    world.send("orders", 3)

    def grow():
        ground.grow("orders", 2)
        world.send("orders", 2, partition=1)

    life = world.life().at(CrashPoint.EPOCH_PLANNED, grow)
    for passing in range(2, 500):
        life.at(
            CrashPoint.EPOCH_PLANNED, lambda: world.send("orders", 1, partition=1), passing=passing
        )
    life.run()

    assert {0: 3, 1: 2} == world.offsets()


def mute(monkeypatch, *partitions, slow=lambda _: None, asked=None):
    """Let partitions give nothing, as those whose broker the workers do not reach."""
    read = MemoryReader.read

    def silent(partition, deadline):
        if partition in partitions:
            slow(deadline)
        return partition in partitions

    def hear(self, at, covered, **given):
        if (asked or silent)(at.partition, given["deadline"]):
            return iter(())
        return read(self, at, covered, **given)

    monkeypatch.setattr(MemoryReader, "read", hear)


@pytest.mark.parametrize("until", ["caught-up", "once"])
def test_a_run_says_that_a_partition_gives_nothing_and_lands_the_others(ground, monkeypatch, until):
    world = World(ground, partitions=2)
    world.send("orders", 2)
    world.run()
    world.send("orders", 3)
    world.run()
    world.send("orders", 3, partition=1)
    with monkeypatch.context() as patch:
        mute(patch, 1)
        assert "P254" == world.life().run(until).code
        world.send("orders", 1)
        assert ("P254" if until == "caught-up" else "") == world.life().run(until).code
        assert {0: 6} == {at: n for at, n in world.offsets().items() if at == 0}

    world.run()
    assert [] == world.breaks()


def test_a_run_without_an_end_waits_for_a_partition_that_gives_nothing(ground, monkeypatch):
    world = World(ground, every_seconds=0.0)
    world.send("orders", 1)
    world.run()
    world.alone()
    life = world.life()
    mute(monkeypatch, 0)
    world.send("orders", 3)
    life.at_listing(100, life.stop.set).run("stopped")

    assert life.error is None
    assert {0: 1} == world.offsets()


def test_an_unresponsive_partition_is_read_last(ground, monkeypatch):
    """It takes all the time that there is: those after it had none."""
    world = World(ground, partitions=2, every_seconds=0.0)
    world.send("orders", 1)
    world.send("orders", 1, partition=1)
    world.run()
    world.alone()
    life = world.life()
    mute(monkeypatch, 0, slow=lambda _: world.clock.advance(1000))
    world.send("orders", 3)
    world.send("orders", 3, partition=1)
    life.at_listing(20, life.stop.set).run("stopped")

    assert {0: 1, 1: 4} == world.offsets()


def wait_for(world, deadline):
    """Wait as the reader of a broker that gives nothing."""
    world.clock.advance(max(0.0, deadline + 0.001 - world.clock.monotonic()))


@pytest.mark.parametrize("until", ["caught-up", "stopped"])
def test_two_unresponsive_partitions_leave_time_for_a_third(ground, monkeypatch, until):
    world = World(ground, partitions=3, every_seconds=0.0)
    for partition in range(3):
        world.send("orders", 1, partition=partition)
    world.run()
    world.alone()
    life = world.life()
    mute(monkeypatch, 0, 1, slow=lambda deadline: wait_for(world, deadline))
    for partition in range(3):
        world.send("orders", 3, partition=partition)
    life.at_listing(60, life.stop.set).run(until)

    assert {0: 1, 1: 1, 2: 4} == world.offsets()
    assert ("P254" if until == "caught-up" else "") == life.code


def test_the_unresponsive_partition_read_most_recently_is_read_last(ground, monkeypatch):
    """One of them is well again, and would have no time after the other."""
    world = World(ground, partitions=2, every_seconds=0.0)
    for partition in range(2):
        world.send("orders", 1, partition=partition)
    world.run()
    world.alone()
    life = world.life()
    ill = {0, 1}

    def asked(partition, deadline):
        if partition in ill:
            wait_for(world, deadline)
        return partition in ill or world.clock.monotonic() > deadline

    mute(monkeypatch, asked=asked)
    for partition in range(2):
        world.send("orders", 3, partition=partition)
    life.at_listing(7, lambda: ill.discard(1))
    life.at_listing(20, life.stop.set).run("stopped")

    assert {0: 1, 1: 4} == world.offsets()


def test_a_partition_unresponsive_once_is_read_again_though_another_takes_all_the_time(
    ground, monkeypatch
):
    world = World(ground, partitions=2, every_seconds=0.0)
    for partition in range(2):
        world.send("orders", 1, partition=partition)
    world.run()
    world.alone()
    life, ill, read = world.life(), [0], MemoryReader.read

    def hear(self, at, covered, **given):
        if world.clock.monotonic() >= given["deadline"]:
            return
        if at.partition not in ill:
            yield from read(self, at, covered, **given)
        if at.partition in (1, *ill):
            ill.clear()
            wait_for(world, given["deadline"])

    monkeypatch.setattr(MemoryReader, "read", hear)
    world.send("orders", 3)
    for listing in range(2, 60):
        life.at_listing(listing, lambda: world.send("orders", 1, partition=1))
    life.at_listing(60, life.stop.set).run("stopped")

    assert [] == ill
    assert 4 == world.offsets()[0]


@pytest.mark.parametrize("until", ["caught-up", "once"])
def test_a_partition_that_gives_nothing_is_reported_though_tasks_are_short(
    ground, monkeypatch, until
):
    world = World(ground, timeout_seconds=5.0)
    world.alone()
    world.send("orders", 1)
    world.run()
    mute(monkeypatch, 0, slow=lambda deadline: wait_for(world, deadline))
    world.send("orders", 3)

    assert "P254" == world.life().run(until).code


def test_a_topic_that_is_deleted_while_its_table_is_parked_ends_nothing():
    ground = Hiding()
    world = World(ground, routes=TWO)
    world.alone()
    for topic in TWO:
        world.send(topic, 2)
    world.run()
    world.send("items", 1)
    life = world.life(every_seconds=0.0)
    life.at(CrashPoint.PREPARE_AFTER, lambda: world.faults.take_away(catalog_name(ITEMS)))
    life.at_listing(20, lambda: ground.hidden.add(ground.topic("items")))
    life.at_listing(21, lambda: world.send("orders", 2))
    life.at_listing(40, life.stop.set).run("stopped")

    assert {ITEMS} == {event.table for event in life.of(TableParked)}
    assert [ITEMS] == [event.table for event in life.of(TableAbandoned)]
    assert {ITEMS: "P459"} == life.parked
    assert 4 == len(world.rows())

    ground.hidden.clear()
    world.faults.give_back(catalog_name(ITEMS))
    world.run()
    assert [] == world.breaks()


@pytest.mark.parametrize("listing", range(6, 16))
def test_a_topic_that_goes_while_its_table_comes_back_ends_nothing(listing):
    """At one of these listings what is pending for it is just being settled."""
    ground = Hiding()
    world = World(ground, routes=TWO)
    world.alone()
    for topic in TWO:
        world.send(topic, 2)
    world.run()
    world.send("items", 1)
    life = world.life(every_seconds=0.0)
    life.at(CrashPoint.PREPARE_AFTER, lambda: world.faults.take_away(catalog_name(ITEMS)))
    life.at_listing(5, lambda: world.faults.give_back(catalog_name(ITEMS)))
    life.at_listing(listing, lambda: ground.hidden.add(ground.topic("items")))
    life.at_listing(40, life.stop.set).run("stopped")

    assert life.error is None
    ground.hidden.clear()
    world.run()
    assert [] == world.breaks()


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.OK_UNAPPLIED, Fault.REFUSE])
@pytest.mark.parametrize(
    "point", [CrashPoint.PREPARE_AFTER, CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER]
)
def test_a_topic_that_goes_while_its_table_is_recovered_ends_nothing(point, fault):
    ground = Hiding()
    world = World(ground, routes=TWO)
    for topic in TWO:
        world.send(topic, 2)
    world.run()
    for topic in TWO:
        world.send(topic, 1)
    world.crash_at("commit.before")
    world.faults.queue(catalog_name(ITEMS), fault)
    life = world.life().at(point, lambda: ground.hidden.add(ground.topic("items"))).run()

    assert life.error is None
    assert 3 == len(world.rows())
    ground.hidden.clear()
    world.run()
    assert [] == world.breaks()


def test_a_topic_that_comes_later_and_has_no_place_is_listed_and_stops_nobody(ground):
    world = World(ground, routes=TWO)
    ground = world.ground
    for topic in TWO:
        world.send(topic, 2)
    hiding = Hiding()
    world = World(hiding, routes=TWO)
    world.send("orders", 2)
    hiding.hidden.add("items")
    life = world.life(every_seconds=0.0)
    routes = life.settings.routes

    def crowded(topics):
        if "items" in topics:
            raise InvalidError("more tables than limits.tables", code="P142", hint="raise it")
        return routes(topics)

    object.__setattr__(life.settings, "routes", crowded)
    world.alone()
    life.at_listing(5, hiding.hidden.clear).at_listing(9, lambda: world.send("orders", 1))
    life.at_listing(30, life.stop.set).run("stopped")

    assert life.error is None
    assert [("items", "more tables than limits.tables")] == [
        (event.topic, event.reason) for event in life.of(TopicUnrouted)
    ]
    assert 3 == len(world.rows())


def test_brokers_that_refuse_us_for_a_moment_are_waited_for():
    """Their own directory of users was away."""
    ground = Hiding()
    world = World(ground)
    world.alone()
    world.send("orders", 2)
    life = world.life(every_seconds=0.0)
    refused = InvalidError("the brokers refused user p", code="P202", hint="check it")
    life.at_listing(5, lambda: ground.refusals.extend([refused] * 9))
    life.at_listing(6, lambda: world.send("orders", 1))
    life.at_listing(40, life.stop.set).run("stopped")

    assert life.error is None
    assert 1 == len(life.of(KafkaAnswered))
    assert 3 == len(world.rows())


def test_a_table_whose_commits_no_longer_fit_is_tried_less_and_less(ground):
    """Somebody changes its columns all the time."""
    world = World(ground, every_seconds=0.0)
    world.alone()
    world.send("orders", 1)
    world.run()
    world.send("orders", 1)
    life = world.life(every_seconds=0.0)
    name = catalog_name(ORDERS)
    for passing in range(1, 500):
        life.at(CrashPoint.PREPARE_AFTER, lambda: ground.change_columns(name), passing=passing)
    life.at_listing(300, life.stop.set).run("stopped")

    assert 4 < life.points.count(CrashPoint.PREPARE_AFTER) < 20
    assert {"P460"} == {event.code for event in life.of(TableParked)}
    world.run()
    assert [] == world.breaks()
