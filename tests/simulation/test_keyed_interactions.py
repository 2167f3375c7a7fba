"""Keyed tables next to what tables have anyway: refused records, filters, seeks, lost files."""

from __future__ import annotations

import pytest
from tests.simulation.test_keyed_tables import gone, put, sought, values
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.keyed import SEQUENCED, KeyedWorld
from tests.story.world import ORDERS, PIPELINE

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import FencedError
from penstock.core.events import CommitFoundLanded
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.store import Pause
from penstock.rows.route.filters import RecordFilter, SqlExpression

NAME = catalog_name(ORDERS)


@pytest.fixture
def world() -> KeyedWorld:
    return KeyedWorld(MemoryGround())


@pytest.mark.parametrize("lost", [0, 1])
def test_of_two_prepared_commits_one_may_lose_a_file(world: KeyedWorld, lost: int) -> None:
    put(world, 1, 2, 3)
    world.run()
    put(world, 1, 4)
    gone(world, 2, 3)
    put(world, 2, 1)
    world.life(records_max=4).prepare_only(2).run()
    pending = world.pending()
    assert [1, 1] == [len(each.files) for each in pending]
    world.ground.remove_file(pending[lost].files[0].path)
    world.ground.warehouse.foreign_compaction(NAME)
    world.run()

    assert {1: 9, 2: 8, 4: 5} == values(world)
    assert [] == world.breaks()


def test_what_waits_for_a_pause_lands_on_the_table_that_others_left() -> None:
    world = KeyedWorld(MemoryGround(), max_epochs=2, records_max=2)
    put(world, 1, 2, 3)
    world.run()
    put(world, 1, 2)
    gone(world, 3, 3)
    world.life().prepare_only(2).run()
    put(world, 1, 4)
    begun = Pause(ORDERS, world.clock.now_ms(), world.clock.now_ms() + 3_600_000)
    world.store().pause(PIPELINE, begun)
    assert {ORDERS: "P445"} == world.run().parked
    assert 2 == len(world.pending())
    warehouse = world.ground.warehouse
    warehouse.foreign_delete(NAME, lambda row: row["n"] == 2)
    warehouse.foreign_compaction(NAME)
    world.store().resume(PIPELINE, ORDERS)
    world.run()

    assert {1: 8, 2: 5, 4: 9} == values(world)
    assert [] == world.breaks()


def test_a_delete_that_is_refused_leaves_the_row_until_the_next_change(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    world.change("orders", 0, 1, "drop")
    put(world, 2)
    world.run()
    assert {1: 1, 2: 4} == values(world)
    assert 1 == len(world.rejects())

    gone(world, 1)
    world.run()
    assert {2: 4} == values(world)


def test_a_flood_of_records_that_do_not_fit_parks_the_table_as_it_was() -> None:
    world = KeyedWorld(MemoryGround(), stop_above_share=0.5)
    put(world, 1, 2)
    world.run()
    gone(world, 1)
    world.send_raw("orders", *[b"bad"] * 150)

    assert {ORDERS: "P345"} == world.run().parked
    assert {1: 1, 2: 2} == values(world)

    world.run(stop_above_share=1.0)
    assert {2: 2} == values(world)
    assert [] == world.breaks()


def test_a_row_stays_as_it_was_where_a_filter_leaves_out_its_later_change() -> None:
    where = SqlExpression("v <> 3", Struct((Field("v", Kind.LONG),)), "where")
    world = KeyedWorld(MemoryGround(), gates={ORDERS: RecordFilter(where=where)})
    put(world, 1, 2)
    world.run()
    put(world, 1)
    put(world, 2)
    world.run()

    assert {1: 1, 2: 4} == values(world)


def test_a_position_is_never_put_forward(world: KeyedWorld) -> None:
    put(world, 1, 1, 1)
    world.run()

    assert "P472" == world.life().change(lambda held: sought(held, 5)).code


def test_long_texts_of_a_sequence_are_compared_to_their_end() -> None:
    world = KeyedWorld(MemoryGround(), keyed=SEQUENCED)
    length = "s" * 10_000
    world.change("orders", 0, 1, "put", s=f"{length}b")
    world.run()
    world.change("orders", 0, 1, "put", s=f"{length}a")
    world.run()
    assert {1: 1} == values(world)

    world.change("orders", 0, 1, "put", s=f"{length}c")
    world.run()
    assert {1: 3} == values(world)


class TestStoriesOfFailureModes:
    """Those that tables that append have; here a second application would bring rows back."""

    @pytest.fixture
    def world(self) -> KeyedWorld:
        world = KeyedWorld(MemoryGround())
        put(world, 1, 2, 3)
        return world

    def test_a_range_that_begins_below_what_landed_is_read_again_from_there(
        self, world: KeyedWorld
    ) -> None:
        """C3."""
        world.run()
        put(world, 1, 2, 1)
        gone(world, 1, 3)
        world.crash_at("prepare.after")
        rewound = world.ground.save_store("here")
        world.run(host="there", records_max=2)
        put(world, 1)
        gone(world, 2)
        world.crash_at("commit.after:1", host="there", records_max=2)
        world.ground.restore_store("here", rewound)
        assert 1 == len(world.pending())
        world.run()
        world.run(host="there")

        assert {1: 9} == values(world)
        assert [] == world.breaks()

    def test_a_file_that_comes_late_joins_no_later_epoch(self, world: KeyedWorld) -> None:
        """C5."""

        def another() -> None:
            world.life().run(takeover=True)
            gone(world, 1, 2)
            world.life().run(takeover=True)

        first = world.life().at(CrashPoint.FILE_CLOSED, another).run()

        assert isinstance(first.error, FencedError)
        assert {3: 3} == values(world)
        assert [] == world.breaks()

    def test_a_source_that_goes_back_is_not_applied_twice(self, world: KeyedWorld) -> None:
        """F2."""
        world.run(host="a")
        put(world, 1, 2)
        world.crash_at("prepare.after", host="a")
        gone(world, 1)
        world.run(host="b")
        put(world, 3)
        world.run(host="a")

        assert {2: 5, 3: 7} == values(world)
        assert [] == world.breaks()

    def test_an_aborted_commit_cannot_land_later(self, world: KeyedWorld) -> None:
        """W4."""
        world.run()
        put(world, 1)
        gone(world, 2)
        world.faults.queue(NAME, Fault.CRASH_DELAYED)
        assert world.run().crashed
        world.ground.remove_file(world.pending()[0].files[0].path)
        world.run()

        assert ["ConflictError"] == world.faults.release()
        assert {1: 4, 3: 3} == values(world)
        assert [] == world.breaks()

    def test_a_store_from_yesterday_brings_nothing_back(self, world: KeyedWorld) -> None:
        """W6."""
        world.run()
        put(world, 1, 4)
        world.crash_at("prepare.after")
        yesterday = world.ground.save_store("here")
        world.run()
        gone(world, 1)
        world.run()
        world.ground.restore_store("here", yesterday)
        life = world.run()

        assert [True] == [each.as_prepared for each in life.of(CommitFoundLanded)]
        assert {2: 2, 3: 3, 4: 5} == values(world)
        assert [] == world.breaks()
