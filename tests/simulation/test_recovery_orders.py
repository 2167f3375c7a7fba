"""R1: pending commits in every order and state through recovery; it ends exact, never in a loop."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest
from tests.story.backend import MemoryGround
from tests.story.world import World

from penstock.core.commits import EpochNumber
from penstock.core.serialization import committable_to_json

ROWS = 4


def pending_rows(landed: int) -> World:
    """Leave four pending commits, of which the first few are in the table already."""
    world = World(MemoryGround())
    world.send("orders", 2)
    world.run()
    world.send("orders", ROWS)
    world.life(records_max=1).prepare_only(ROWS).run()
    assert ROWS == len(world.pending())
    before = world.ground.save_store("here")
    if landed:
        world.crash_at(f"commit.after:{landed}")
    world.ground.restore_store("here", before)
    return world


def put_in_order(world: World, order: tuple[int, ...]) -> None:
    """Label the pending commits so that recovery checks them in another order."""
    entries = world.ground.store("here").entries
    rows = [each for each in entries if each.state == "PENDING"]
    for entry, place in zip(rows, order, strict=True):
        entry.commit = replace(entry.commit, epoch=EpochNumber(place + 1))
        entry.body = committable_to_json(entry.commit)


@pytest.mark.parametrize("landed", range(ROWS + 1))
@pytest.mark.parametrize("order", list(permutations(range(ROWS))))
def test_r1_pending_commits_in_any_order_with_any_files_missing_recover(order, landed):
    for count in range(ROWS + 1 - landed):
        for gone in combinations(range(landed, ROWS), count):
            world = pending_rows(landed)
            for number in gone:
                world.ground.remove_file(world.pending()[number].files[0].path)
            put_in_order(world, order)
            life = world.run()

            assert {} == life.parked
            assert [] == world.breaks(), f"files of {gone} were gone"
            assert {0: 2 + ROWS} == world.offsets()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_r1_quarantine_and_table_commits_in_any_order_of_epochs_recover(order):
    for count in range(4):
        for gone in combinations(range(3), count):
            world = World(MemoryGround())
            world.send("orders", 2)
            world.run()
            for _ in range(3):
                world.send("orders", 1)
                world.send_raw("orders", b"bad")
            world.life(records_max=2).prepare_only(3).run()
            rejects = [each for each in world.pending() if each.chain.is_quarantine]
            assert 3 == len(rejects)
            for number in gone:
                world.ground.remove_file(rejects[number].files[0].path)
            put_in_order(world, tuple(place for place in order for _ in range(2)))
            world.run()

            assert [] == world.breaks(), f"files of {gone} were gone"
