"""A table is put back after refused records were retried: those whose rows went are open again.

Offsets 3 and 6 were refused and retried; the table holds 0 to 8, and closings 0 and 1 are followed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.run import Life
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, either

from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.offsets import Offset
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.retry import QuarantineResolver, RetryResult
from penstock.landing.repair.selection import Selection

NAME = catalog_name(ORDERS)


def refused_twice() -> World:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    for count in (2, 2):
        world.send("orders", 1, colour="red")
        world.send("orders", count)
        world.run()
    world.change_rules("rules-2", columns="drop_value")
    return world


def retried(*order: int) -> World:
    """Return a world whose rejected records were retried one by one, in an order of offsets."""
    world = refused_twice()
    topic = world.ground.topic("orders")
    for offset in order or (3, 6):
        choice = Selection(spot=(topic, 0, offset))
        assert RetryResult({ORDERS: 1}) == retry(world, choice)
    return world


def retry(world: World, choice: Selection | None = None) -> object:
    life = world.life().close(lambda closer: closer.retry(choice or Selection()), ORDERS)
    assert life.error is None, life.error
    return life.changed


def seek(world: World, offset: int | None = None, **given: Any) -> Life:
    """Put the table back; what is changed is where to, and how many records are open again."""
    topic = world.ground.topic("orders")
    wanted = {} if offset is None else {(topic, 0): Offset(offset)}

    def act(closer: QuarantineResolver) -> tuple[list[int], int]:
        done = seeking.seek(closer.held, ORDERS, wanted, closer.context)
        return [move.stop for move in done.moves], done.reopened.num_rows

    return world.life(**given).close(act, ORDERS)


def delete(world: World, offsets: Iterable[int], *, partition: int = 0) -> None:
    """Take the files away that hold rows of some offsets, as another writer's commit would."""
    gone = {(partition, offset) for offset in offsets}
    stored = world.table()._warehouse.get(NAME)
    contents = stored.contents
    head, rows_of = contents.snapshots[contents.head], world.table()._warehouse.rows_of
    kept = tuple(
        file
        for file in head.files
        if not gone & {(row["_kafka_partition"], row["_kafka_offset"]) for row in rows_of([file])}
    )
    foreign = replace(head, id=f"after {head.id}", parent=head.id, files=kept, commit=None)
    stored.apply(contents, contents.with_snapshot(foreign))


def offsets(world: World) -> list[int]:
    return [offset for _, _, offset in world.rows()]


@pytest.mark.parametrize("position", [None, 6])
@pytest.mark.parametrize("order", [(3, 6), (6, 3)], ids=str)
def test_of_retried_rows_that_were_deleted_at_the_end_each_lands_again_and_no_other(
    order: tuple[int, int], position: int | None
) -> None:
    world = retried(*order)
    delete(world, [6, 7, 8])
    assert [0, 1, 2, 3, 4, 5] == offsets(world)

    assert ([6], 1) == seek(world, position).changed
    world.run()
    assert [(world.ground.topic("orders"), 0, 6)] == world.rejects()
    assert RetryResult({ORDERS: 1}) == retry(world)
    assert [] == world.breaks(fitting=either)
    assert [] == world.rejects()
    assert RetryResult() == retry(world)


def test_a_partition_that_keeps_its_rows_keeps_its_retries() -> None:
    world = World(MemoryGround(), partitions=2)
    topic = world.ground.topic("orders")
    for partition in (0, 1):
        world.send("orders", 2, partition=partition)
        world.run()
        world.send("orders", 1, partition=partition, colour="red")
    world.run()
    world.change_rules("rules-2", columns="drop_value")
    for partition in (0, 1):
        assert RetryResult({ORDERS: 1}) == retry(world, Selection(spot=(topic, partition, 2)))
    delete(world, [2], partition=0)
    assert ([2], 1) == seek(world).changed
    world.run()

    assert RetryResult({ORDERS: 1}) == retry(world)
    assert [] == world.breaks(fitting=either)


def test_a_retried_row_that_somebody_deleted_in_the_middle_stays_away() -> None:
    world = retried()
    delete(world, [3])
    delete(world, [6, 7, 8])
    assert ([6], 1) == seek(world).changed
    world.run()
    retry(world)
    world.give_up("orders", 0, [3])

    assert [0, 1, 2, 4, 5, 6, 7, 8] == offsets(world)
    assert [] == world.breaks(fitting=either)


def test_what_a_higher_position_gives_up_stays_closed() -> None:
    world = retried()
    delete(world, [6, 7, 8])
    assert ([8], 0) == seek(world, 8).changed
    world.run()
    assert RetryResult() == retry(world)

    assert [0, 1, 2, 3, 4, 5, 8] == offsets(world)


def test_records_that_kafka_no_longer_has_are_opened_again_from_the_quarantine() -> None:
    world = retried()
    delete(world, [6, 7, 8])
    world.delete_before("orders", 0, 8)
    assert ([8], 1) == seek(world).changed
    world.run()
    assert RetryResult({ORDERS: 1}) == retry(world)

    assert [0, 1, 2, 3, 4, 5, 6, 8] == offsets(world)


def test_a_retried_row_ahead_of_the_position_keeps_nothing_from_being_put_back() -> None:
    world = World(MemoryGround())
    world.send("orders", 2)
    world.run()
    world.send("orders", 1, colour="red")
    world.crash_at("quarantine.after")
    world.change_rules("rules-2", columns="drop_value")
    assert RetryResult({ORDERS: 1}) == retry(world)
    assert ({0: 2}, [0, 1, 2]) == (world.offsets(), offsets(world))

    assert ([], 0) == seek(world).changed
    delete(world, [2])
    assert ([], 1) == seek(world).changed
    assert RetryResult({ORDERS: 1}) == retry(world)
    world.run()
    assert [] == world.breaks(fitting=either)


def head(world: World) -> str:
    return world.table().state(Chain(PIPELINE, ORDERS)).head


def rolled_back() -> World:
    """Return a world whose table was rolled back after the retry of 3, when 6 was landed."""
    world = retried(6)
    before = head(world)
    retry(world)
    world.send("orders", 2)
    world.run()
    world.ground.roll_back(NAME, before)
    assert [0, 1, 2, 4, 5, 6, 7, 8] == offsets(world)
    return world


@pytest.mark.parametrize("position", [None, 9])
def test_after_a_rollback_what_it_removed_is_open_again_and_the_rest_is_not(
    position: int | None,
) -> None:
    world = rolled_back()
    assert ([9], 1) == seek(world, position).changed
    world.run()
    assert RetryResult({ORDERS: 1}) == retry(world)

    assert [*range(11)] == offsets(world)
    assert [] == world.breaks(fitting=either)


POINTS = (
    *(
        CrashPoint.CLAIM_AFTER,
        CrashPoint.FENCE_BEFORE,
        CrashPoint.FENCE_AFTER,
        CrashPoint.FILE_WRITTEN,
    ),
    *(
        CrashPoint.FILE_CLOSED,
        CrashPoint.PREPARE_BEFORE,
        CrashPoint.PREPARE_AFTER,
        CrashPoint.QUARANTINE_BEFORE,
    ),
    *(CrashPoint.QUARANTINE_AFTER, CrashPoint.SETTLE_BEFORE, CrashPoint.SETTLE_AFTER),
    *(CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER),
)


@pytest.mark.parametrize("lost", [False, True], ids=["store kept", "store lost"])
@pytest.mark.parametrize("between", ["seek", "retry"])
def test_a_seek_that_is_killed_anywhere_loses_and_doubles_nothing(lost: bool, between: str) -> None:
    for point in POINTS:
        world = rolled_back()
        assert seek(world, crash=f"{point}:1").crashed, point
        if lost:
            world.ground.lose_store("here")
        if between == "retry":
            world.life().close(lambda closer: closer.retry(Selection()), ORDERS)
        assert seek(world).error is None, point
        world.run()
        retry(world)

        assert [*range(11)] == offsets(world), point
        assert [] == world.breaks(fitting=either), point


@pytest.mark.parametrize("table", [ORDERS, QUARANTINE])
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.CONFLICT])
def test_a_seek_whose_answer_is_lost_loses_and_doubles_nothing(table: str, fault: Fault) -> None:
    world = retried()
    delete(world, [6, 7, 8])
    world.faults.queue(catalog_name(table), fault)
    seek(world)
    seek(world)
    world.run()
    retry(world)

    assert [*range(9)] == offsets(world)
    assert [] == world.breaks(fitting=either)


def test_a_retry_that_lands_before_the_seek_does_hides_nothing_that_went() -> None:
    """The seek dies when 6 is open again; its retry lands alone, after 4 and 5 that are gone."""
    world = retried()
    delete(world, [4, 6, 7, 8])
    assert seek(world, crash=f"{CrashPoint.COMMIT_BEFORE}:1").crashed
    assert RetryResult({ORDERS: 1}) == retry(world)
    assert [0, 1, 2, 3, 6] == offsets(world)

    assert ([4], 0) == seek(world).changed
    world.run()
    assert [] == world.breaks(fitting=either)


def test_a_rollback_to_where_only_a_retry_had_landed_hides_nothing_that_went() -> None:
    world = retried()
    delete(world, [4, 6, 7, 8])
    assert ([4], 1) == seek(world).changed
    assert RetryResult({ORDERS: 1}) == retry(world)
    before = world.ground.warehouse.get(NAME).contents.head
    world.run()
    world.ground.roll_back(NAME, before)

    assert ([4], 0) == seek(world).changed
    world.run()
    retry(world)
    assert [] == world.breaks(fitting=either)


def test_a_retried_row_at_the_end_is_no_reason_to_go_back() -> None:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    world.send("orders", 2, colour="red")
    world.run()
    world.change_rules("rules-2", columns="drop_value")
    assert RetryResult({ORDERS: 2}) == retry(world)
    assert [0, 1, 2, 3, 4] == offsets(world)

    assert ([], 0) == seek(world).changed
    assert [] == world.breaks(fitting=either)
