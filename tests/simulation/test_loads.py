"""Partitions and whole tables are loaded in place of what stands there: once, whatever dies when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.story.backend import MemoryGround
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, World

from penstock.connectors.memory.tables import MemoryTable
from penstock.core.crash_points import CrashPoint
from penstock.core.maintenance import Layout
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.load import plan_load
from penstock.landing.repair.replay import Replayed, land_again

TOPIC = "orders"


def load(*partitions: str) -> Any:
    """Return what loads partitions of the table of orders, or all of it."""

    def act(held: ExclusiveAccess) -> Replayed:
        progress = held.settle_pending(ORDERS)
        bounds = held.environment.log.bounds(held.environment.log.partitions())
        planned = plan_load(progress, [{"part": each} for each in partitions], bounds)
        return land_again(held, progress, planned.replacement)

    return act


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world with files of 3, 2 and 4 rows; those at even places are of partition 0."""
    world = World(MemoryGround())
    for count in (3, 2, 4):
        world.send(TOPIC, count)
        world.run()
    first = paths(world)
    layout = MemoryTable.layout

    def partitioned(table: MemoryTable, state: Any) -> Layout:
        found = layout(table, state)
        parts = {path: {"part": str(at % 2)} for at, path in enumerate(first)}
        files = [replace(each, values=parts.get(each.path, {"part": "2"})) for each in found.files]
        return replace(found, files=files)

    monkeypatch.setattr(MemoryTable, "layout", partitioned)
    return world


def paths(world: World) -> list[str]:
    table = world.catalog().load("bronze.orders")
    return [file.path for file in table._warehouse.get(table.name).contents.files]


def test_files_of_a_partition_are_replaced_by_the_records_of_their_rows(world: World) -> None:
    """Both ends of the range are in the partition, and what lies between is not."""
    before = paths(world)
    life = world.life(records_max=2).change(load("0"))

    assert Replayed(7, 7, {}) == life.changed
    assert {before[1]} == set(before) & set(paths(world))
    assert [] == world.breaks()
    assert Replayed(0, 0, {}) == world.life().change(load("0")).changed, "it has no file now"
    assert Replayed(9, 9, {}) == world.life().change(load()).changed
    assert [] == world.breaks()


@pytest.mark.parametrize("partitions", [("0",), ()])
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.CLAIM_AFTER,
        CrashPoint.FILE_CLOSED,
        CrashPoint.RESULT_RETURNED,
        CrashPoint.COMMIT_BEFORE,
        CrashPoint.COMMIT_AFTER,
        CrashPoint.READ_BACK,
    ],
)
def test_a_kill_in_between_leaves_the_former_rows_or_the_present_ones(
    world: World, point: CrashPoint, partitions: tuple[str, ...]
) -> None:
    life = world.life(crash=point).change(load(*partitions))

    assert life.crashed
    assert [] == world.breaks()
    world.send(TOPIC, 2)
    world.run()
    assert [] == world.breaks()
    again = world.life().change(load())
    assert Replayed(11, 11, {}) == again.changed
    assert [] == world.breaks()


@pytest.mark.parametrize("partitions", [("0",), ()])
def test_a_lost_answer_is_found_out_and_a_second_load_doubles_nothing(
    world: World, partitions: tuple[str, ...]
) -> None:
    world.faults.queue("bronze.orders", Fault.LOSE_ANSWER)
    life = world.life().change(load(*partitions))

    rows = 7 if partitions else 9
    assert Replayed(rows, rows, {}) == life.changed
    assert [] == world.breaks()
    assert Replayed(9, 9, {}) == world.life().change(load()).changed
    assert [] == world.breaks()


def test_a_table_that_moved_since_its_rows_were_read_is_left_as_it_is(world: World) -> None:
    table = world.catalog().load("bronze.orders")
    append = table._warehouse.foreign_append
    world.faults.before_commit("bronze.orders", lambda: append(table.name, []))
    life = world.life().change(load("0"))

    assert "P471" == life.code
    assert [] == world.breaks()


def test_a_record_of_a_row_that_kafka_has_no_longer_stops_it(world: World) -> None:
    """Those between the partition's rows are not asked for."""
    world.ground.cluster.compact(world.ground.topic(TOPIC), 0, [4])
    assert Replayed(7, 7, {}) == world.life().change(load("0")).changed
    world.ground.cluster.compact(world.ground.topic(TOPIC), 0, [6])
    life = world.life().change(load("2"))

    assert "P478" == life.code
    assert 9 == len(world.rows())


def delete(world: World, file: int, *rows: int) -> None:
    """Let another writer delete rows of a file."""
    warehouse, name = world.table()._warehouse, "bronze.orders"
    contents = warehouse.get(name).contents
    head, gone = contents.snapshots[contents.head], {contents.files[file].path: frozenset(rows)}
    foreign = replace(head, id="foreign", parent=head.id, commit=None, deleted=gone)
    warehouse.get(name).apply(contents, contents.with_snapshot(foreign))


def test_rows_whose_records_retention_took_stop_it_and_deleted_ones_do_not(world: World) -> None:
    world.delete_before(TOPIC, 0, 3)
    assert ["P478", "P478"] == [world.life().change(load(*at)).code for at in (("0",), ())]
    assert Replayed(2, 2, {}) == world.life().change(load("1")).changed
    delete(world, 0, 0, 1, 2)

    assert Replayed(6, 6, {}) == world.life().change(load()).changed
    assert 6 == len(world.rows())


def test_a_table_is_rebuilt_though_kafka_has_holes_and_rows_were_deleted(world: World) -> None:
    """The hole had no row; the row that somebody deleted comes again."""
    world.send_raw(TOPIC, b"no json")
    world.send(TOPIC, 1)
    world.run()
    world.ground.cluster.compact(world.ground.topic(TOPIC), 0, [9])
    delete(world, 1, 0)
    assert 9 == len(world.rows())

    assert Replayed(9, 10, {}) == world.life().change(load()).changed
    assert 10 == len(world.rows())


def test_what_is_quarantined_stays_there(world: World) -> None:
    world.send_raw(TOPIC, b"no json")
    world.send(TOPIC, 1)
    world.run()

    assert Replayed(1, 1, {}) == world.life().change(load("2")).changed
    assert Replayed(10, 10, {}) == world.life().change(load()).changed
    assert [] == world.breaks()


def test_a_record_that_would_be_refused_now_stops_it(world: World) -> None:
    world.change_rules("small", record_bytes_max=1)

    assert "P476" == world.life().change(load("0")).code
    assert [] == world.breaks()
