"""A table with very many small files makes epochs wider, or is parked; no record is ever lost."""

from __future__ import annotations

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.maintenance import maintained
from tests.story.run import Life
from tests.story.world import ORDERS, PIPELINE, World, tables_named

from penstock.core.commits import Chain
from penstock.core.events import TableCommitted, TableParked, TableResumed
from penstock.core.hold import HELD, Hold, HoldAct
from penstock.core.maintenance import TableHealth, groups_of, health_of
from penstock.core.maintenance_events import EpochsNarrowed, EpochsWidened, HoldExceeded

TWO = tables_named("orders", "items")
A_LOOK = 120
"""A minute, in listings: in it 60 files of one record land, until epochs are wider."""


@pytest.fixture
def world() -> World:
    world = World(MemoryGround(), routes=TWO, every_seconds=1.0)
    world.alone()
    for topic in TWO:
        world.send(topic, 3)
    world.run()
    world.health = lambda: {ORDERS: looked_at(world)}
    return world


def looked_at(world: World) -> TableHealth:
    table = world.table(catalog_name(ORDERS))
    layout = table.layout(table.state(Chain(PIPELINE, ORDERS)))
    return health_of(layout, groups_of(layout))


def lived(
    world: World, hold: Hold, *, maintained_at: int, until: int, sent: int | None = None
) -> Life:
    """Live with records before each epoch up to a listing, and a table that is maintained once."""
    life = world.life(hold=hold)

    def send() -> None:
        for topic in TWO:
            world.send(topic)

    def maintain() -> None:
        _, error = maintained(world, ORDERS)
        assert None is error

    for listing in range(2, sent or until):
        life.at_listing(listing, send)
    life.at_listing(maintained_at, maintain)
    life.at_listing(until, life.stop.set)
    return life.run("stopped")


def test_epochs_widen_while_a_table_is_sick_and_come_back_when_it_is_maintained(
    world: World,
) -> None:
    hold = Hold(excess_files=80, every_most_seconds=5.0)
    life = lived(world, hold, sent=5 * A_LOOK, maintained_at=5 * A_LOOK + 60, until=9 * A_LOOK)

    assert None is life.error
    assert [2.0, 4.0, 5.0] == [each.every_seconds for each in life.of(EpochsWidened)]
    assert {(ORDERS, 1.0)} == {(e.table, e.usual_seconds) for e in life.of(EpochsWidened)}
    assert [2.5, 1.25, 1.0] == [each.every_seconds for each in life.of(EpochsNarrowed)]
    assert [] == world.breaks()


def test_wide_epochs_make_fewer_files(world: World) -> None:
    files = []
    for then in (HoldAct.NOTHING, HoldAct.WIDEN):
        hold = Hold(excess_files=20, then=then)
        life = lived(world, hold, maintained_at=2, until=5 * A_LOOK)
        files.append(sum(each.files for each in life.of(TableCommitted)))
        expected = [ORDERS] if then is HoldAct.NOTHING else []
        assert expected == [each.table for each in life.of(HoldExceeded)]

    assert files[1] < files[0] / 2
    world.run()
    assert [] == world.breaks()


def test_a_sick_table_is_parked_where_the_spec_says_so_and_goes_on_when_it_is_well(
    world: World,
) -> None:
    hold = Hold(excess_files=80, then=HoldAct.STOP)
    life = lived(world, hold, maintained_at=3 * A_LOOK + 60, until=5 * A_LOOK)

    assert None is life.error
    assert [(ORDERS, HELD)] == [(each.table, each.code) for each in life.of(TableParked)]
    assert [ORDERS] == [each.table for each in life.of(TableResumed)]
    assert [] == life.of(EpochsWidened)
    world.run()
    assert [] == world.breaks()


def test_a_table_that_stays_sick_stays_parked_and_the_run_ends_with_its_code(
    world: World,
) -> None:
    life = lived(world, Hold(excess_files=40, then=HoldAct.STOP), maintained_at=2, until=4 * A_LOOK)

    assert {ORDERS: HELD} == life.parked
    world.run()
    assert [] == world.breaks()
