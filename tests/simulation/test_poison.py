"""A record that kills the process that reads it is found, refused by itself, and the rest lands."""

import pytest
from tests.simulation.test_fan_out import BY_KIND, by_kind, table_of
from tests.story.backend import MemoryGround, catalog_name
from tests.story.world import ORDERS, World, either

from penstock.core.crash_points import CrashPoint
from penstock.core.events import ConcurrencyLowered, PoisonFound
from penstock.landing.task.messages import PoisonKind

A = table_of("a")


@pytest.fixture
def world():
    return World(MemoryGround(), partitions=2)


def poisoned(world, *offsets, partition=0, kills=PoisonKind.CONVERTED, **given):
    life = world.life(**given)
    topic = world.ground.topic("orders")
    life.poison |= {(topic, partition, offset): kills for offset in offsets}
    return life


@pytest.mark.parametrize("kills", PoisonKind)
def test_poison_is_found_by_halves_and_refused_alone(world, kills):
    world.send("orders", 300)
    world.send("orders", 40, partition=1)
    life = poisoned(world, 123, kills=kills).run()

    assert [123] == [each.offset for each in life.of(PoisonFound)]
    assert [(world.ground.topic("orders"), 0, 123)] == world.rejects()
    assert [] == world.breaks(fitting=either)
    assert 339 == len(world.rows())
    assert len(life.jobs) < 60


def test_several_records_of_poison_are_all_found(world):
    world.send("orders", 100)
    poisoned(world, 0, 1, 50, 99).run()

    assert [0, 1, 50, 99] == [offset for _, _, offset in world.rejects()]
    assert [] == world.breaks(fitting=either)


@pytest.mark.parametrize("kills", PoisonKind)
def test_poison_that_came_before_the_table_exists_holds_up_nobody(world, kills):
    world.send("orders", 3)
    poisoned(world, 1, kills=kills).run()

    assert [1] == [offset for _, _, offset in world.rejects()]
    assert 2 == len(world.rows())


def test_every_table_of_a_topic_goes_without_the_record():
    world = World(MemoryGround(), routes={"orders": (ORDERS, f"{ORDERS}_too")})
    world.send("orders", 20)
    poisoned(world, 7).run()

    assert [7] == [offset for _, _, offset in world.rejects(f"{ORDERS}_too")]
    assert [] == world.breaks(fitting=either)


def test_a_range_read_again_does_not_refuse_the_record_twice(world):
    world.send("orders", 20)
    assert poisoned(world, 7, crash="quarantine.after:1").run().crashed
    world.ground.lose_store("here")
    poisoned(world, 7).run()

    assert [7] == [offset for _, _, offset in world.rejects()]
    assert [] == world.breaks(fitting=either)


def test_more_poison_than_is_sought_ends_the_run_with_its_own_error(world):
    world.send("orders", 60)

    assert "P606" == poisoned(world, *range(60)).run().code
    assert [] == world.rejects()


def test_slices_that_die_together_only_are_read_one_by_one_from_then_on(world):
    world.send("orders", 9_000)
    world.send("orders", 9_000, partition=1)
    life = world.life()
    life.room = 1
    life.run()

    assert [(2, 1)] == [(each.slices, each.concurrency_max) for each in life.of(ConcurrencyLowered)]
    assert [2] == [len(jobs) for jobs in life.jobs if len(jobs) > 1]
    assert [] == world.rejects()
    assert 18_000 == len(world.rows())
    assert [] == world.breaks(fitting=either)


class TestOfARoute:
    """The route goes on alone when a table of it is away, and the table catches up alone."""

    @pytest.fixture(params=[False, True], ids=["together", "separate"])
    def world(self, request):
        def belongs(table, held):
            return table == (BY_KIND if held.offset in self.looked_at else A)

        self.looked_at = set()
        self.separate = request.param
        world = by_kind(MemoryGround(), belongs=belongs, commits_at_once=1)
        world.send("orders", 2, kind="a")
        world.run()
        world.send("orders", 5, kind="a")
        return world

    def live(self, world, kills):
        life = poisoned(world, 4, kills=kills, records_max=1)
        if self.separate:
            life.at(CrashPoint.COMMIT_BEFORE, lambda: world.faults.take_away(catalog_name(A)))
        life.run()
        world.faults.give_back(catalog_name(A))
        assert None is poisoned(world, 4, kills=kills).run().error

    def test_the_table_refuses_what_kills_where_rows_are_made(self, world):
        self.live(world, PoisonKind.CONVERTED)

        assert [4] == [offset for _, _, offset in world.rejects(A)]
        assert [] == world.rejects(BY_KIND)
        assert [] == world.breaks(fitting=either)

    def test_the_route_refuses_a_record_that_kills_its_worker_and_so_does_its_table(self, world):
        self.looked_at.add(4)
        self.live(world, PoisonKind.READ)

        by_itself = [] if self.separate else [4]  # it leaves out what the route has refused before
        assert by_itself == [offset for _, _, offset in world.rejects(A)]
        assert [4] == [offset for _, _, offset in world.rejects(BY_KIND)]
        self.looked_at -= set(by_itself)
        breaks = world.breaks(fitting=either)
        assert [] == [each for each in breaks if self.separate or not each.startswith(BY_KIND)]
