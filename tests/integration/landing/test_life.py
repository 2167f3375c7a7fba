"""The life of real tables: what other writers, backups and renames do to them."""

import shutil

import pytest
from tests.simulation.life_stories import NAME, LifeStories
from tests.story.real_backends import DeltaWithoutBroker, IcebergWithoutBroker
from tests.story.world import ORDERS, World


@pytest.fixture(params=[IcebergWithoutBroker, DeltaWithoutBroker])
def ground(request, tmp_path):
    return request.param(tmp_path)


class TestLife(LifeStories):
    pass


def test_tables_restored_from_a_backup_are_landed_again_from_their_position(ground, tmp_path):
    world = World(ground)
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.run()
    shutil.copytree(ground.directory / "lake", tmp_path / "backup")
    world.send("orders", 3)
    world.send_raw("orders", b"worse")
    world.run()
    shutil.rmtree(ground.directory / "lake")
    shutil.move(tmp_path / "backup", ground.directory / "lake")
    world.run()

    assert [] == world.breaks()
    assert (5, 2) == (len(world.rows()), len(world.rejects()))


def test_a_table_that_was_renamed_keeps_its_rows_and_another_begins_with_all(tmp_path):
    """As one that was dropped: the name is free, and its topics are landed from their start."""
    ground = IcebergWithoutBroker(tmp_path)
    world = World(ground)
    world.send("orders", 2)
    world.run()
    lake = ground.foreign()
    lake.create_namespace("attic")
    lake.rename_table(NAME, "attic.orders")
    world.send("orders", 3)
    world.run()

    assert 2 == lake.load_table("attic.orders").scan().to_arrow().num_rows
    assert 5 == len(world.rows())
    assert [] == world.breaks()


@pytest.mark.parametrize("act", ["branch", "cherry-pick"])
def test_a_branch_put_in_the_place_of_main_is_a_rollback(tmp_path, act):
    """Main is set to a snapshot that ours are not below."""
    ground = IcebergWithoutBroker(tmp_path)
    world = World(ground)
    for _ in range(3):
        world.send("orders", 2)
        world.run()
    table = ground.foreign().load_table(NAME)
    older = [
        each for each in table.snapshots() if each.snapshot_id != table.metadata.current_snapshot_id
    ]
    with table.manage_snapshots() as change:
        if act == "branch":
            change.set_current_snapshot(older[-1].snapshot_id)
        else:
            change.rollback_to_snapshot(older[-2].snapshot_id)
    world.send("orders", 1)

    assert {ORDERS: "P455"} == world.life().run().parked
