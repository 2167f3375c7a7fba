"""A record that raises what nobody foresaw is refused by those for whom it does, whatever else is
read with it; nobody else goes without it.
"""

import pytest
from tests.simulation.test_fan_out import BY_KIND, by_kind, table_of

from penstock.core.events import RecordsQuarantined
from penstock.core.points import Point
from penstock.landing import converting
from penstock.landing.closing import Choice, Retried
from penstock.rows import convert as conversion
from penstock.testing.grounds import MemoryGround, catalog_name
from penstock.testing.world import ORDERS, World, either

pytestmark = pytest.mark.usefixtures("fence")
A = table_of("a")


@pytest.fixture
def stumble(monkeypatch):
    """Let records raise at some offsets: where gates look at them, where tables take them."""

    def arm(*offsets, gates=True, tables=True):
        whole, opened, taking = converting.convert, conversion.open_values, [False]

        def convert(batch, **given):
            taking[0] = True
            try:
                return whole(batch, **given)
            finally:
                taking[0] = False

        def open_values(batch, *given, **named):
            armed = tables if taking[0] else gates
            assert not armed or not {*offsets} & {*batch.column("offset").to_pylist()}
            return opened(batch, *given, **named)

        monkeypatch.setattr(converting, "convert", convert)
        monkeypatch.setattr(conversion, "open_values", open_values)

    return arm


def test_it_is_refused_alone_and_retried_like_any_other(stumble, monkeypatch):
    world = World(MemoryGround())
    stumble(123)
    world.send("orders", 300)
    life = world.run()
    assert [{"P344": 1}] == [each.codes for each in life.of(RecordsQuarantined)]
    assert [(world.ground.topic("orders"), 0, 123)] == world.rejects()
    assert 299 == len(world.rows())

    assert Retried({}, {"P344": 1}) == retried(world)
    monkeypatch.undo()  # a version that mends it
    assert Retried({ORDERS: 1}, {}) == retried(world)
    assert [] == world.breaks()


def retried(world):
    return world.life().close(lambda closer: closer.retry(Choice()), ORDERS).changed


def test_a_table_of_a_route_refuses_what_raises_there_also_when_it_is_read_alone(stumble):
    world = by_kind(MemoryGround(), commit_threads=1)
    world.send("orders", 2, kind="a")
    world.send("orders", 1, kind="b")
    world.run()
    stumble(5, gates=False)
    world.send("orders", 4, kind="a")
    away = world.life(records_max=1)
    away.at(Point.COMMIT_BEFORE, lambda: world.faults.take_away(catalog_name(A))).run()
    world.faults.give_back(catalog_name(A))
    world.run()

    assert [5] == [offset for _, _, offset in world.rejects(A)]
    assert [] == world.rejects(BY_KIND)
    assert [] == world.breaks(judged=either)


def test_a_route_refuses_what_raises_where_it_looks(stumble):
    def belongs(table, held):
        return table == (BY_KIND if held.offset == 1 else A)

    world = by_kind(MemoryGround(), belongs=belongs, commit_threads=1)
    stumble(1)
    world.send("orders", 3, kind="a")
    world.run()

    assert [1] == [offset for _, _, offset in world.rejects(BY_KIND)]
    assert [] == world.rejects(A)
    assert [] == world.breaks(judged=either)
