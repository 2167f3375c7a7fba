"""Records that are too slow for a route in one attempt only are counted by their table.

Each story has an attempt that is too slow, whose outcome does not last for the
route, and then a quick one. A record is in the rows or the rejects of its table, whatever the route says.
"""

from dataclasses import replace

import pytest
from tests.simulation.test_fan_out import BY_KIND, by_kind, table_of, value
from tests.story.backend import MemoryGround, catalog_name
from tests.story.world import QUARANTINE, either

from penstock.core.crash_points import CrashPoint
from penstock.landing.repair.selection import Selection
from penstock.rows.route import sql_values
from penstock.rows.route.router import Router

A, B = table_of("a"), table_of("b")


@pytest.fixture
def slow(monkeypatch):
    """Offsets of records that every expression is too slow for, as long as they are in here."""
    column, offsets = sql_values._column, set()

    def timed(connection, sql, records, seconds):
        if offsets & set(records.column("_kafka_offset").to_pylist()):
            raise sql_values.TimedOutError
        return column(connection, sql, records, seconds)

    monkeypatch.setattr(sql_values, "_column", timed)
    return offsets


@pytest.fixture
def world():
    def belongs(table, held):
        return table == table_of(value(held, "kind"))

    world = by_kind(MemoryGround(), belongs=belongs, commits_at_once=1)
    world.send("orders", 2, kind="a")
    world.run()
    return world


def counted(world):
    """Return what is wrong, but for records of a route in quarantine that are counted elsewhere."""
    return [each for each in world.breaks(fitting=either) if not each.startswith(BY_KIND)]


def offsets_of(coordinates):
    return [offset for _, _, offset in coordinates]


def retried(world, name):
    """Retry all that is refused for a table, or a route."""
    life = world.life().close(lambda closer: closer.retry(Selection()), name)
    assert None is life.error
    return life.changed


def quick_after(life, slow, *, attempts=1):
    """Have every record quick enough after so many results."""
    return life.at(CrashPoint.RESULT_RETURNED, slow.clear, passing=attempts)


def test_a_route_that_reads_again_for_a_new_table_loses_no_slow_record(world, slow):
    world.send("orders", 4, kind="a")
    world.send("orders", 1, kind="b")
    slow.add(5)
    quick_after(world.life(records_max=3), slow, attempts=2).run()

    assert [] == counted(world)


def test_a_route_that_is_parked_for_a_flood_loses_no_slow_record(world, slow):
    world.send("orders", 150, kind="a")
    slow.update(range(2, 152))
    quick_after(world.life(stop_above_share=0.5), slow).run()
    world.run(accept=["rules"])

    assert [] == counted(world)


def test_records_are_lost_where_a_table_passes_by_what_its_route_is_too_slow_for(
    world, slow, monkeypatch
):
    share = Router.route

    def relying(sorter, gate, *given, **named):
        found = share(sorter, gate, *given, **named)
        return replace(found, rejected={}) if gate.share else found

    monkeypatch.setattr(Router, "route", relying)
    world.send("orders", 4, kind="a")
    world.send("orders", 1, kind="b")
    slow.add(5)
    quick_after(world.life(records_max=3), slow, attempts=2).run()

    assert [f"{A} ('orders', 0, 5): 1 times too few"] == counted(world)


def test_a_route_whose_refusal_is_lost_with_the_store_loses_no_slow_record(world, slow):
    world.send("orders", 3, kind="a")
    slow.add(3)
    life = quick_after(world.life(), slow)
    life.at(CrashPoint.QUARANTINE_BEFORE, lambda: world.faults.take_away(catalog_name(QUARANTINE)))
    life.at(CrashPoint.COMMIT_AFTER, life.observer.crash_now)
    life.run()
    world.faults.give_back(catalog_name(QUARANTINE))
    world.ground.lose_store("here")
    world.run()

    assert [] == counted(world)


def test_a_slow_record_is_refused_by_its_table_and_by_its_route_and_landed_once(world, slow):
    world.send("orders", 3, kind="a")
    slow.add(3)
    world.run()
    assert [3] == offsets_of(world.rejects(A)) == offsets_of(world.rejects(BY_KIND))

    slow.clear()
    assert {A: 1} == retried(world, A).landed
    assert {} == retried(world, BY_KIND).landed
    assert [0, 1, 2, 3, 4] == offsets_of(world.rows(A))
    assert [] == counted(world)


def test_a_retry_of_the_route_lands_no_record_that_its_table_refused_itself(world, slow):
    world.send("orders", 3, kind="a")
    slow.add(3)
    world.run()

    slow.clear()
    found = retried(world, BY_KIND)
    assert ({}, {"P314": 1}) == (found.landed, found.rejected)
    assert [0, 1, 2, 4] == offsets_of(world.rows(A))


def test_a_retry_of_the_route_lands_no_record_that_its_table_was_quick_enough_for(world, slow):
    world.send("orders", 3, kind="a")
    life = world.life()
    assert life.at(CrashPoint.COMMIT_AFTER, life.observer.crash_now).run().crashed
    world.ground.lose_store("here")
    slow.add(3)
    world.run()
    assert ([], [3]) == (world.rejects(A), offsets_of(world.rejects(BY_KIND)))

    slow.clear()
    assert {} == retried(world, BY_KIND).landed
    assert 1 == offsets_of(world.rows(A)).count(3)


def test_a_retry_of_the_route_lands_a_record_from_before_its_table_was_there(world, slow):
    world.send("orders", 1, kind="b")
    world.send("orders", 1, kind="a")
    slow.add(2)
    world.run()
    slow.clear()
    world.send("orders", 1, kind="b")
    world.run()
    assert [4] == offsets_of(world.rows(B))

    assert {B: 1} == retried(world, BY_KIND).landed
    assert [2, 4] == offsets_of(world.rows(B))
    assert {} == retried(world, BY_KIND).landed


def test_a_table_that_was_away_leaves_to_its_route_what_that_has_refused(world, slow):
    world.send("orders", 3, kind="a")
    slow.add(3)
    life = world.life(records_max=1)
    life.at(CrashPoint.COMMIT_BEFORE, lambda: world.faults.take_away(catalog_name(A)))
    life.run()
    world.faults.give_back(catalog_name(A))
    slow.clear()
    world.run()
    assert ([], [3]) == (world.rejects(A), offsets_of(world.rejects(BY_KIND)))

    assert {A: 1} == retried(world, BY_KIND).landed
    assert [] == counted(world)
