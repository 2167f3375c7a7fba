"""A stretch is landed again by hand: once, whatever dies when, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.commits import Chain
from penstock.core.offsets import span
from penstock.core.points import Point
from penstock.landing import replaying
from penstock.landing.holding import Hold
from penstock.testing.faults import Fault
from penstock.testing.grounds import MemoryGround
from penstock.testing.world import ORDERS, World

TOPIC = "orders"


def replay(start: int = 0, stop: int | None = None, partition: int | None = 0) -> Any:
    """Give what replays a stretch of the table of orders."""

    def act(held: Hold) -> replaying.Replayed:
        track = held.settled(ORDERS)
        listing = held.world.log.partitions()
        wanted = {(TOPIC, partition): None if stop is None else span(start, stop)}
        planned = replaying.look(track, wanted, held.world.log.bounds(listing))
        return replaying.do(held, track, planned)

    return act


@pytest.fixture
def world() -> World:
    """Give a world whose table holds three files, of 3, 2 and 4 rows."""
    world = World(MemoryGround())
    for count in (3, 2, 4):
        world.send(TOPIC, count)
        world.run()
    return world


def paths(world: World) -> list[str]:
    table = world.catalog().load("bronze.orders")
    return sorted(file.path for file in table._warehouse.get(table.name).contents.files)


def test_a_stretch_is_replaced_by_what_it_is_now(world: World) -> None:
    before = paths(world)
    life = world.life().change(replay(3, 5))

    assert replaying.Replayed(2, 2, {}) == life.changed
    assert 2 == len(set(before) & set(paths(world))), "two files stand as they stood"
    assert [] == world.breaks()


def test_all_that_landed_is_replayed_without_a_range(world: World) -> None:
    life = world.life().change(replay(partition=None))

    assert replaying.Replayed(9, 9, {}) == life.changed
    assert 1 == len(paths(world)), "small files become one"
    assert [] == world.breaks()


def test_files_across_the_edge_are_named_and_nothing_is_changed(world: World) -> None:
    before = paths(world)
    life = world.life().change(replay(1, 5))

    assert "P473" == life.code
    assert any(path in str(life.error) for path in before)
    assert "penstock replay lake.bronze.orders orders:0:0-5" in life.error.hint
    assert before == paths(world)
    assert [] == world.breaks()


@pytest.mark.parametrize(
    "point",
    [
        Point.CLAIM_AFTER,
        Point.FILE_OPENED,
        Point.FILE_CLOSED,
        Point.RESULT_RETURNED,
        Point.COMMIT_BEFORE,
        Point.COMMIT_AFTER,
        Point.READ_BACK,
    ],
)
def test_a_kill_in_between_leaves_the_old_rows_or_the_new_ones(world: World, point: Point) -> None:
    life = world.life(crash=point).change(replay(3, 5))

    assert life.crashed
    assert [] == world.breaks()
    world.send(TOPIC, 2)
    world.run()
    assert replaying.Replayed(2, 2, {}) == world.life().change(replay(3, 5)).changed
    assert [] == world.breaks()


def test_a_lost_answer_is_found_out(world: World) -> None:
    world.faults.queue("bronze.orders", Fault.LOSE_ANSWER)
    life = world.life().change(replay(3, 5))

    assert replaying.Replayed(2, 2, {}) == life.changed
    assert [] == world.breaks()


def test_a_table_that_moved_meanwhile_is_left_as_it_is(world: World) -> None:
    table = world.catalog().load("bronze.orders")
    world.faults.before_commit(
        "bronze.orders",
        lambda: (
            table._warehouse.roll_back(table.name, table.state(_chain()).head)
            or table._warehouse.foreign_append(table.name, [])
        ),
    )
    life = world.life().change(replay(3, 5))

    assert "P471" == life.code
    assert [] == world.breaks()


def _chain() -> Chain:
    return Chain("shop", ORDERS)


def test_what_is_quarantined_stays_there_and_lands_in_no_file(world: World) -> None:
    world.send_raw(TOPIC, b"no json")
    world.send(TOPIC, 1)
    world.run()
    life = world.life().change(replay(9, 11))

    assert 1 == life.changed.landed
    assert [] == world.breaks()


def test_records_that_retention_took_are_not_taken_from_the_table_too(world: World) -> None:
    world.delete_before(TOPIC, 0, 1)
    life = world.life().change(replay(0, 3))

    assert "P478" == life.code
    assert [] == world.breaks()


def test_what_has_not_landed_cannot_be_replayed(world: World) -> None:
    assert "P472" == world.life().change(replay(5, 10)).code
    assert "P472" == world.life().change(replay(0, 1, partition=7)).code
