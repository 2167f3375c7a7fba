"""A spec changes while something is under way: whatever ends a run, verdicts are those of one spec.

In memory: what is told here are crashes between two changes, and many records that leave no row.
"""

import pytest

from penstock.testing.grounds import MemoryGround
from penstock.testing.world import RULES, World

TOMBSTONES = 120  # enough for a breaker


@pytest.fixture
def world():
    """A pipeline that examined tombstones by rules that skip them, was killed, and has new rules.

    Its table stands before them; what was examined is noted in its store.
    """
    world = World(MemoryGround())
    world.rulebook[RULES] = {"tombstones": "skip"}
    world.send("orders", 3)
    world.run()
    world.send_raw("orders", *[None] * TOMBSTONES)
    world.crash_at("stopping")
    world.change_rules("rules-2", tombstones="quarantine")
    return world


class TestWhatWasExaminedByFormerRules:
    def test_it_is_read_again_by_the_present_ones(self, world):
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_the_first_epoch_by_the_present_ones_did_not_come_to_its_end(
        self, world
    ):
        world.crash_at("epoch.planned")
        assert {0: 3} == world.offsets()
        assert "rules-2" == world.landed().rules_hash
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_the_breaker_ended_the_first_run_by_the_present_ones(self, world):
        assert "P345" == world.run(stop_above_share=0.1).code
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_read_again_when_an_older_store_is_restored(self, world):
        saved = world.ground.save_store("here")
        world.crash_at("epoch.planned")
        world.ground.restore_store("here", saved)
        world.run()

        assert TOMBSTONES == len(world.rejects())

    def test_it_is_not_read_again_when_its_rules_are_back(self, world):
        world.crash_at("epoch.planned")
        world.rules = RULES
        life = world.run()

        assert 0 == life.records_read
        assert {0: 3 + TOMBSTONES} == world.offsets()
