"""A table's ledger is put back by hand to where its rows end: what is gone lands again, once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.story.backend import MemoryGround
from tests.story.world import ORDERS, World

from penstock.core.crash_points import CrashPoint
from penstock.core.offsets import Offset
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.access import ExclusiveAccess

NAME = "bronze.orders"
TOPIC = "orders"


def seek(offset: int | None = None) -> Any:
    """Return what puts the table of orders back."""

    def act(held: ExclusiveAccess) -> dict[int, tuple[int, int, int]]:
        wanted = {} if offset is None else {(TOPIC, 0): Offset(offset)}
        planned = seeking.plan_seek(held.settings, held.environment, ORDERS, wanted)
        seeking.commit_seek(held, planned)
        moves = planned.moves
        return {each.at.partition: (each.stop, each.given_up, each.expired) for each in moves}

    return act


@pytest.fixture
def world() -> World:
    """Return a world whose table landed 3, 2 and 4 rows and was rolled back to the first 3."""
    world = World(MemoryGround())
    for count in (3, 2, 4):
        world.send(TOPIC, count)
        world.run()
    roll_back_to_the_first(world)
    return world


def roll_back_to_the_first(world: World) -> None:
    """Roll the table back to the first snapshot that has files."""
    snapshots = world.table()._warehouse.get(NAME).contents.snapshots
    world.ground.roll_back(NAME, next(each.id for each in snapshots.values() if each.files))


def test_a_rolled_back_table_is_put_back_to_where_its_rows_end_and_lands_the_rest(
    world: World,
) -> None:
    assert {ORDERS: "P455"} == world.run().parked
    life = world.life().change(seek())

    assert {0: (3, 0, 0)} == life.changed
    assert {} == world.run().parked
    assert 9 == len(world.rows())
    assert [] == world.breaks()


@pytest.mark.parametrize(
    "point", [CrashPoint.CLAIM_AFTER, CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER]
)
def test_a_kill_in_between_loses_and_doubles_nothing(world: World, point: CrashPoint) -> None:
    assert world.life(crash=point).change(seek()).crashed
    world.life().change(seek())
    world.run()

    assert [] == world.breaks()


def test_commits_that_were_prepared_before_never_land() -> None:
    """The newest commit was prepared and not sent; the table is put back before anyone sends it."""
    healed = World(MemoryGround())
    healed.send(TOPIC, 3)
    healed.run()
    healed.send(TOPIC, 2)
    healed.run()
    healed.send(TOPIC, 4)
    healed.life(crash=CrashPoint.PREPARE_AFTER).run()
    roll_back_to_the_first(healed)
    healed.life().change(seek())

    assert [] == healed.pending()
    healed.run()
    assert 9 == len(healed.rows())
    assert [] == healed.breaks()


def test_positions_before_the_end_of_the_rows_are_refused(world: World) -> None:
    life = world.life().change(seek(2))

    assert "P479" == life.code
    assert "penstock replay" in life.error.hint


def test_positions_are_never_put_forward(world: World) -> None:
    assert "P472" == world.life().change(seek(10)).code


def test_what_a_higher_position_gives_up_is_reported(world: World) -> None:
    life = world.life().change(seek(5))
    world.give_up(TOPIC, 0, range(3, 5))
    world.run()

    assert {0: (5, 2, 0)} == life.changed
    assert 7 == len(world.rows())
    assert [] == world.breaks()


def test_what_kafka_no_longer_has_is_reported(world: World) -> None:
    world.delete_before(TOPIC, 0, 5)
    life = world.life().change(seek())
    world.give_up(TOPIC, 0, range(3, 5))
    world.run()

    assert {0: (5, 2, 2)} == life.changed
    assert [] == world.breaks()


def test_a_seek_of_stop_across_partitions_puts_all_of_a_rolled_back_table_back() -> None:
    both = World(MemoryGround(), partitions=2)
    for count in (3, 2):
        both.send(TOPIC, count)
        both.send(TOPIC, count, partition=1)
        both.run()
    roll_back_to_the_first(both)

    assert {0: (4, 1, 0), 1: (3, 0, 0)} == both.life().change(seek(4)).changed
    both.give_up(TOPIC, 0, [3])
    both.run()
    assert 9 == len(both.rows())
    assert [] == both.breaks()


def test_a_table_that_began_in_the_middle_of_its_topic_goes_back_to_there() -> None:
    late = begun_late()
    assert {0: (5, 0, 0)} == late.life().change(seek()).changed
    late.run()

    assert 2 == len(late.rows())


def test_nothing_goes_back_before_where_the_table_began() -> None:
    assert "P472" == begun_late().life().change(seek(0)).code


def test_where_neither_rows_nor_commits_show_a_beginning_it_must_be_said() -> None:
    late = begun_late()
    late.ground.expire(NAME)
    refused = late.life().change(seek())

    assert "P483" == refused.code
    assert f"{TOPIC}:0:0" in refused.error.hint
    assert {0: (5, 0, 0)} == late.life().change(seek(5)).changed


def begun_late() -> World:
    """Return a world whose table began at offset 5, landed two rows, and lost them."""
    late = World(MemoryGround(), start="latest")
    late.send(TOPIC, 5)
    late.run()
    late.run()
    for _ in range(2):
        late.send(TOPIC, 1)
        late.run()
    without_files(late, 0)
    return late


def without_files(world: World, kept: int) -> None:
    """Take all files away but the first ones, as another writer's commit would."""
    stored = world.table()._warehouse.get(NAME)
    contents = stored.contents
    head = contents.snapshots[contents.head]
    foreign = replace(head, id="foreign", parent=head.id, files=head.files[:kept], commit=None)
    stored.apply(contents, contents.with_snapshot(foreign))


def test_rows_deleted_at_the_end_land_again() -> None:
    """A table that was never rolled back: somebody's commit took its newest file away."""
    sound = World(MemoryGround())
    for count in (3, 2):
        sound.send(TOPIC, count)
        sound.run()
    without_files(sound, 1)
    assert 3 == len(sound.rows())
    assert {0: (3, 0, 0)} == sound.life().change(seek()).changed
    sound.run()

    assert 5 == len(sound.rows())
    assert [] == sound.breaks()
