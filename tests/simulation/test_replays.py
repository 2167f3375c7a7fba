"""A stretch is landed again by hand: once, whatever dies when, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.story.backend import MemoryGround
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, World

from penstock.core.commits import Chain, DataFile
from penstock.core.crash_points import CrashPoint
from penstock.core.events import ReplayProgressed
from penstock.core.offsets import span
from penstock.landing.repair import replay as replaying
from penstock.landing.repair.access import ExclusiveAccess

TOPIC = "orders"


def replay(
    start: int = 0,
    stop: int | None = None,
    partition: int | None = 0,
    *,
    new_rows: bool = False,
) -> Any:
    """Return what replays a stretch of the table of orders."""

    def act(held: ExclusiveAccess) -> replaying.Replayed:
        track = held.settle_pending(ORDERS)
        listing = held.environment.log.partitions()
        wanted = {(TOPIC, partition): None if stop is None else span(start, stop)}
        planned = replaying.plan_replay(track, wanted, held.environment.log.bounds(listing))
        return replaying.land_again(held, track, planned, new_rows=new_rows)

    return act


@pytest.fixture
def world() -> World:
    """Return a world whose table holds three files, of 3, 2 and 4 rows."""
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
    assert 2 == len(set(before) & set(paths(world))), "two files are unchanged"
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
        CrashPoint.CLAIM_AFTER,
        CrashPoint.FILE_OPENED,
        CrashPoint.FILE_CLOSED,
        CrashPoint.RESULT_RETURNED,
        CrashPoint.COMMIT_BEFORE,
        CrashPoint.COMMIT_AFTER,
        CrashPoint.READ_BACK,
    ],
)
def test_a_kill_in_between_leaves_the_old_rows_or_the_new_ones(
    world: World, point: CrashPoint
) -> None:
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


def test_a_change_of_columns_in_between_leaves_the_table_as_it_is(world: World) -> None:
    world.faults.before_commit("bronze.orders", lambda: world.ground.widen("bronze.orders"))

    assert "P471" == world.life().change(replay(3, 5)).code
    assert [] == world.breaks()


def test_all_of_a_table_that_began_later_is_replayed_from_there() -> None:
    late = World(MemoryGround(), start="latest")
    late.send(TOPIC, 5)
    late.run()
    late.run()
    late.send(TOPIC, 2)
    late.run()

    assert replaying.Replayed(2, 2, {}) == late.life().change(replay(partition=None)).changed
    assert "P472" == late.life().change(replay(0, 7)).code


def test_rows_whose_records_were_compacted_away_stay(world: World) -> None:
    world.ground.cluster.compact(world.ground.topic(TOPIC), 0, [3])
    life = world.life().change(replay(3, 5))

    assert "P478" == life.code
    assert 9 == len(world.rows())


def test_rows_that_somebody_deleted_come_back_only_when_asked_for(world: World) -> None:
    """Another writer's commit rewrote the second file, of two rows, to one."""
    table = world.table()
    warehouse = table._warehouse
    contents = warehouse.get(table.name).contents
    first, second, third = contents.files
    rows = warehouse.rows_of([second])[:1]
    warehouse.keep_file("memory:///rewritten", rows, 104)
    rewritten = DataFile("memory:///rewritten", 1, 104, {})
    head = contents.snapshots[contents.head]
    files = (first, rewritten, third)
    foreign = replace(head, id="foreign", parent=head.id, files=files, commit=None)
    warehouse.get(table.name).apply(contents, contents.with_snapshot(foreign))
    life = world.life().change(replay(partition=None))

    assert "P475" == life.code
    assert 8 == len(world.rows())
    again = world.life().change(replay(partition=None, new_rows=True))
    assert replaying.Replayed(8, 9, {}) == again.changed
    assert [] == world.breaks()


def test_a_long_stretch_is_read_epoch_by_epoch_and_reports_how_far_it_is(world: World) -> None:
    """Refused records are in two of the epochs: each is left to the quarantine."""
    world.send_raw(TOPIC, b"no json")
    world.send(TOPIC, 2)
    world.send_raw(TOPIC, b"none either")
    world.run()
    life = world.life(records_max=2).change(replay(partition=None))

    assert replaying.Replayed(11, 11, {}) == life.changed
    assert [] == world.breaks()
    reported = [(each.offsets_read, each.offsets) for each in life.observer.of(ReplayProgressed)]
    assert [(read, 13) for read in (2, 4, 6, 8, 10, 12, 13)] == reported
    assert 7 == len(life.jobs), "no epoch is longer than a run's would be"


def test_a_record_that_would_be_refused_now_stops_it(world: World) -> None:
    world.change_rules("small", record_bytes_max=1)
    life = world.life().change(replay(3, 5))

    assert "P476" == life.code
    assert [] == world.breaks()


def test_brokers_that_give_nothing_stop_it(world: World) -> None:
    life = world.life(timeout_seconds=-1.0).change(replay(3, 5))

    assert "P477" == life.code
    assert [] == world.breaks()


def test_a_table_that_is_not_there_yet_cannot_be_replayed() -> None:
    world = World(MemoryGround())

    assert "P461" == world.life().change(replay()).code


def test_what_has_not_landed_cannot_be_replayed(world: World) -> None:
    assert "P472" == world.life().change(replay(5, 10)).code
    assert "P472" == world.life().change(replay(0, 1, partition=7)).code
