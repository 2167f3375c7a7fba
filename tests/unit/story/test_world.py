"""A checker counts only if it was shown a planted fault: `Environment.breaks` finds each of these."""

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.world import ORDERS, QUARANTINE, World

NAME = catalog_name(ORDERS)


@pytest.fixture
def world():
    world = World(MemoryGround())
    world.send("orders", 3)
    world.send_raw("orders", b"bad")
    world.run()
    assert [] == world.breaks()
    return world


def test_a_duplicate_row_is_found(world):
    warehouse = world.ground.warehouse
    warehouse.foreign_append(NAME, warehouse.rows(NAME)[:1])

    assert [f"{ORDERS} ('orders', 0, 0): 1 times too many"] == world.breaks()


def test_a_record_that_is_nowhere_is_found(world):
    world.send("orders", 1)

    assert [f"{ORDERS} ('orders', 0, 4): 1 times too few"] == world.breaks()


def test_a_refused_record_that_is_lost_is_found(world):
    warehouse = world.ground.warehouse
    (file,) = warehouse.get(catalog_name(QUARANTINE)).contents.files
    warehouse.keep_file(file.path, [], file.size_bytes)

    assert [
        f"{ORDERS} ('orders', 0, 3): 1 times too few",
        f"{ORDERS} ('orders', 0, 3): should be refused",
    ] == world.breaks()


def test_a_file_that_is_referenced_twice_is_found(world):
    stored = world.ground.warehouse.get(NAME)
    base = stored.contents
    head = base.snapshots[base.head]
    doubled = type(head)("twice", head.id, head.timestamp_ms, head.files * 2)
    stored.apply(base, base.with_snapshot(doubled))

    assert any("is referenced 2 times" in each for each in world.breaks())


def test_a_rollback_is_found(world):
    first = world.ground.warehouse.get(NAME).contents.head
    world.send("orders", 1)
    world.run()
    world.ground.roll_back(NAME, first)

    assert any("rolled back" in each for each in world.breaks())


def test_a_commit_that_was_left_pending_is_found(world):
    world.send("orders", 1)
    world.crash_at("prepare.after")

    assert any("pending on here" in each for each in world.breaks())


def test_a_crash_that_does_not_come_fails_the_story(world):
    with pytest.raises(AssertionError, match="was not reached"):
        world.crash_at("fence.after")
