"""The life of a table: other writers, zombies, clocks and counters; on any ground.

Ids are those of failure-modes.md.
"""

import pytest
from tests.story.backend import catalog_name
from tests.story.world import ORDERS, World

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import FencedError
from penstock.core.events import EpochPlanned

NAME = catalog_name(ORDERS)
MINUTES_10 = 600_000


class LifeStories:
    """What happens to tables besides our own commits."""

    @pytest.mark.parametrize(
        "point", [CrashPoint.RESULT_RETURNED, CrashPoint.PREPARE_AFTER, CrashPoint.COMMIT_BEFORE]
    )
    def test_c1_the_first_of_two_coordinators_is_held_and_then_fenced(self, ground, point):
        world = World(ground)
        world.send("orders", 3)
        first = world.life().at(point, lambda: world.life().run(takeover=True)).run()

        assert isinstance(first.error, FencedError)
        assert [] == world.breaks()

    def test_c5_a_file_that_comes_late_joins_no_later_epoch(self, ground):
        """The first's file is written, and reported only when the second has landed its range."""
        world = World(ground)
        world.send("orders", 3)

        def another() -> None:
            world.life().run(takeover=True)
            world.send("orders", 2)
            world.life().run(takeover=True)

        first = world.life().at(CrashPoint.FILE_CLOSED, another).run()

        assert isinstance(first.error, FencedError)
        assert [] == world.breaks()
        assert 5 == len(world.rows())

    def test_f3_a_counter_that_starts_again_lands_all_the_same(self, ground):
        """The store is lost, so epochs are counted from 1 again."""
        world = World(ground)
        for _ in range(3):
            world.send("orders", 2)
            life = world.run()
            ground.lose_store("here")

        assert 1 == life.of(EpochPlanned)[0].epoch
        assert [] == world.breaks()
        assert 6 == len(world.rows())

    @pytest.mark.parametrize("commits", [1, 12])
    def test_commits_of_other_writers_between_ours_change_nothing(self, ground, commits):
        world = World(ground)
        for _ in range(2):
            world.send("orders", 2)
            world.run()
            for _ in range(commits):
                ground.append(NAME)
        world.send("orders", 1)
        world.run()

        assert [] == world.breaks()

    def test_another_writer_that_commits_all_the_time_does_not_keep_us_from_landing(self, ground):
        world = World(ground)
        world.send("orders", 2)
        world.run()
        world.send("orders", 2)
        turns = iter(range(8))

        def other_writer() -> None:
            if next(turns, None) is not None:
                ground.append(NAME)
                world.faults.before_commit(NAME, other_writer)

        world.faults.before_commit(NAME, other_writer)
        world.run()

        assert next(turns, None) is None
        assert [] == world.breaks()

    @pytest.mark.parametrize("skew_ms", [-MINUTES_10, MINUTES_10])
    def test_a_clock_that_is_set_ten_minutes_off_loses_and_doubles_nothing(self, ground, skew_ms):
        world = World(ground)

        def set_clock() -> None:
            world.clock.set_wall_clock(world.clock.now_ms() + skew_ms)

        world.send("orders", 2)
        world.life(crash="commit.after:1").at(CrashPoint.PREPARE_AFTER, set_clock).run()
        world.send("orders", 2)
        world.life().at(CrashPoint.COMMIT_BEFORE, set_clock).run(takeover=True)

        assert [] == world.breaks()
