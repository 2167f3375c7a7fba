"""Something of an epoch fails: a survey in one of its tasks, the listing after its work."""

import pytest
from tests.story.backend import CATALOG, MemoryGround
from tests.story.world import ORDERS, World

from penstock.connectors.memory.log import MemoryReader
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.landing.task import sink

OTHERS = f"{CATALOG}.bronze.others"


@pytest.fixture
def registry_down_once(monkeypatch):
    """No schema registry answers when the first record with a `b` is surveyed."""
    survey, asked = sink.survey, []

    def failing(batch, *given, **named):
        if not asked and any(b'"b"' in value for value in batch.column("value").to_pylist()):
            asked.append(batch)
            raise UnavailableError("the registry does not answer", code="P220", hint="look")
        return survey(batch, *given, **named)

    monkeypatch.setattr(sink, "survey", failing)


@pytest.mark.usefixtures("registry_down_once")
class TestASurveyThatFailsInOneTask:
    def test_its_table_is_created_later_of_all_records(self):
        world = World(MemoryGround(), partitions=2)
        world.send("orders", 3, a=1)
        world.send("orders", 3, partition=1, b=2)
        life = world.run()

        assert {ORDERS: "P220"} == life.parked
        assert [] == world.rows()

        world.run()
        assert [] == world.breaks()
        assert 6 == len(world.rows())

    def test_other_tables_are_created_and_land(self):
        world = World(
            MemoryGround(), routes={"orders": (ORDERS,), "others": (OTHERS,)}, partitions=2
        )
        world.send("orders", 3, a=1)
        world.send("orders", 3, partition=1, b=2)
        world.send("others", 3, a=1)
        world.run()
        assert 3 == len(world.rows(OTHERS))
        world.run()

        assert [] == world.breaks()

    def test_it_is_surveyed_again_in_the_same_run(self):
        world = World(MemoryGround(), partitions=2, every_seconds=1.0)
        world.send("orders", 3, a=1)
        world.send("orders", 3, partition=1, b=2)
        life = world.life()
        life.at(CrashPoint.COMMIT_AFTER, life.stop.set).run("stopped")

        assert {} == life.parked
        assert [] == world.breaks()
        assert 6 == len(world.rows())


def test_a_table_is_not_created_while_a_partition_of_its_records_gives_nothing(monkeypatch):
    """Its leader moves in the middle of the survey: no error comes, and no record."""
    read, silent = MemoryReader.read, [1]

    def once(self, at, covered, **given):
        if at.partition in silent:
            silent.clear()
            return iter(())
        return read(self, at, covered, **given)

    monkeypatch.setattr(MemoryReader, "read", once)
    world = World(MemoryGround(), partitions=2)
    world.send("orders", 3, a=1)
    world.send("orders", 3, partition=1, b=2)
    life = world.run()

    assert {ORDERS: "P250"} == life.parked
    assert [] == world.rows()

    world.run()
    assert [] == world.breaks()
    assert 6 == len(world.rows())


def test_a_table_is_created_though_a_survey_had_no_time_for_a_partition(monkeypatch):
    """Its turn never came: there might be no time for it in the next survey either."""
    read, starved = MemoryReader.read, [1]
    world = World(MemoryGround(), partitions=2)

    def once(self, at, covered, **given):
        if at.partition in starved:
            starved.clear()
            return
        yield from read(self, at, covered, **given)
        if starved:
            world.clock.advance(3600)  # not a moment is left of the task's time

    monkeypatch.setattr(MemoryReader, "read", once)
    world.send("orders", 5, a=1)
    world.send("orders", 5, partition=1, a=2)

    assert {} == world.run().parked
    assert 10 == len(world.rows())
    assert [] == world.breaks()


def test_an_epoch_whose_work_is_thrown_away_is_not_the_one_to_be_landed():
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    world.send("orders", 3)
    life = world.life()

    def down():
        life.listings.clear()
        raise UnavailableError("the brokers do not answer", code="P201", hint="look")

    silence = dict.fromkeys(range(20), down)
    life.at(CrashPoint.EPOCH_PLANNED, lambda: life.listings.update(silence)).run("once")

    assert "one epoch was landed" == life.ended.reason
    assert {0: 6} == world.offsets()
