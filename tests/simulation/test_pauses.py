"""A table that somebody paused gets no commit until that is over; others go on, nothing is lost."""

from __future__ import annotations

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, tables_named

from penstock.app.pause import is_confirmed
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.events import PauseBegan, PauseEnded
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.settings import Until
from penstock.ports.store import Pause

TWO = tables_named("orders", "items")
((ITEMS,),) = [tables for name, tables in TWO.items() if name == "items"]
MINUTE_MS = 60_000
NAME = catalog_name(ORDERS)


@pytest.fixture
def world() -> World:
    world = World(MemoryGround(), routes=TWO, every_seconds=1.0, max_epochs=2)
    world.alone()
    for topic in TWO:
        world.send(topic, 3)
    world.run()
    return world


def pause(world: World, table: str = ORDERS, *, minutes: int = 10) -> Pause:
    now_ms = world.clock.now_ms()
    begun = Pause(table, now_ms, now_ms + minutes * MINUTE_MS)
    world.store().pause(PIPELINE, begun)
    return begun


def confirmed(world: World, begun: Pause) -> bool:
    return is_confirmed(world.store(), PIPELINE, begun, world.clock.now_ms())


def head(world: World, name: str = ORDERS) -> str:
    return world.table(name).state(Chain(PIPELINE, name)).head


def test_a_pause_in_the_middle_of_a_run_holds_back_its_table_alone(world: World) -> None:
    life, played = world.life(), list[str]()
    begun, heads, items = list[Pause](), list[str](), list[int]()

    def both() -> None:
        for topic in TWO:
            world.send(topic)

    def confirm() -> None:
        assert confirmed(world, begun[0])
        heads.append(head(world))
        items.append(len(world.rows(ITEMS)))

    def compare() -> None:
        assert heads == [head(world)]
        assert len(world.rows(ITEMS)) > items[0] + 10
        assert 2 == len([each for each in world.pending() if each.chain.table == ORDERS])
        world.store().resume(PIPELINE, ORDERS)
        played.append("compared")

    for listing in range(2, 300):
        life.at_listing(listing, both)
    life.at_listing(10, lambda: begun.append(pause(world)))
    life.at_listing(60, confirm)
    life.at_listing(200, compare)
    life.at_listing(300, life.stop.set)
    life.run("stopped")

    assert (None, ["compared"]) == (life.error, played)
    assert [] == world.breaks()
    assert [(ORDERS, begun[0].until_ms)] == [(e.table, e.until_ms) for e in life.of(PauseBegan)]
    assert [ORDERS] == [each.table for each in life.of(PauseEnded)]
    assert {} == life.parked


def test_a_pause_ends_by_itself(world: World) -> None:
    life = world.life()
    world.send("orders", 3)
    begun = pause(world, minutes=3)
    landed: list[int] = []
    life.observer.acts[CrashPoint.COMMIT_BEFORE, 1] = lambda: landed.append(world.clock.now_ms())
    life.at_listing(400, life.stop.set)
    life.run("stopped")

    assert [] == world.breaks()
    assert landed[0] >= begun.until_ms


@pytest.mark.parametrize("until", ["once", "caught-up"])
def test_a_run_that_ends_by_itself_does_not_wait_for_a_pause(world: World, until: Until) -> None:
    for topic in TWO:
        world.send(topic, 2)
    begun = pause(world)
    before = head(world)
    life = world.life().run(until)

    assert ({ORDERS: "P445"}, before) == (life.parked, head(world))
    assert 5 == len(world.rows(ITEMS))
    assert confirmed(world, begun), "nobody is alive"
    world.store().resume(PIPELINE, ORDERS)
    world.run()
    assert [] == world.breaks()


def test_what_an_earlier_run_prepared_is_held_back_too(world: World) -> None:
    world.send("orders", 2)
    world.send("items", 2)
    world.crash_at(f"{CrashPoint.PREPARE_AFTER}:1")
    before = head(world)
    pause(world)
    first = world.run()

    assert ({ORDERS: "P445"}, before) == (first.parked, head(world))
    assert 5 == len(world.rows(ITEMS))
    life = world.life()
    life.at_listing(20, lambda: world.store().resume(PIPELINE, ORDERS))
    life.at_listing(200, life.stop.set)
    life.run("stopped")
    assert {} == life.parked
    assert [] == world.breaks()


def test_a_paused_quarantine_holds_back_the_tables_with_rejects(world: World) -> None:
    world.send("items", 2)
    world.send_raw("orders", b"bad")
    pause(world, QUARANTINE)
    life = world.run()

    assert {ORDERS: "P445"} == life.parked
    assert 5 == len(world.rows(ITEMS))
    world.store().resume(PIPELINE, QUARANTINE)
    world.run()
    assert [] == world.breaks()


def test_a_paused_table_is_neither_fenced_nor_put_back(world: World) -> None:
    snapshots = world.table()._warehouse.get(NAME).contents.snapshots
    world.send("orders", 2)
    world.run()
    world.ground.roll_back(NAME, next(each.id for each in snapshots.values() if each.files))
    pause(world)
    before = head(world)

    def put_back(held: ExclusiveAccess) -> None:
        planned = seeking.plan_seek(held.settings, held.environment, ORDERS, {})
        seeking.commit_seek(held, planned)

    assert {ORDERS: "P455"} == world.run().parked
    assert "P445" == world.life().change(put_back).code
    assert before == head(world)

    world.store().resume(PIPELINE, ORDERS)
    assert "" == world.life().change(put_back).code
    world.run()
    assert [] == world.breaks()


def test_new_rules_wait_for_the_pause(world: World) -> None:
    pause(world)
    world.change_rules("rules-2")
    assert {ORDERS: "P445"} == world.run().parked
    world.store().resume(PIPELINE, ORDERS)
    assert {} == world.run().parked
    assert [] == world.breaks()
