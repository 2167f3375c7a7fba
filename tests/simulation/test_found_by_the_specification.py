"""What the specification (docs/design/spec) and random histories found in the code, each as the
story that it reported.

Most turn on a record whose verdict changes between two readings, because its table's columns do.
"""

from functools import partial
from itertools import count

import pytest
from tests.simulation.test_fan_out import by_kind, table_of
from tests.story.backend import MemoryGround, catalog_name
from tests.story.run import WatchedLog
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, either, tables_named

from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.serialization import ledger_from_json
from penstock.ports.tables import TableDefinition

NAME = catalog_name(ORDERS)


@pytest.fixture
def world():
    return World(MemoryGround())


def die_unheard(world, times, host="a"):
    """Let lives claim, one after the other, of which no table hears."""
    for _ in range(times):
        world.crash_at("claim.after", host=host)


def require_no_refusal_by_a_zombie(world, unheard):
    """A zombie with a high generation meets an owner with a store of its own."""
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")  # refused by the first life, a row for the second
    die_unheard(world, unheard)

    def another():
        world.ground.widen(NAME)
        assert {} == world.life(host="b").run(takeover=True).parked

    world.life(host="a").at(CrashPoint.PREPARE_AFTER, another).run()
    world.run(host="b")
    world.run(host="a")

    assert [] == world.breaks(fitting=either)
    assert 3 == len(world.rows())


def test_w12_a_zombie_with_another_store_does_not_refuse_what_landed_meanwhile(world):
    require_no_refusal_by_a_zombie(world, unheard=0)


def test_w12_a_zombie_whose_store_was_lost_does_not_refuse_what_landed_meanwhile(world):
    world.send("orders", 2)
    world.run()
    world.send("orders", 1, later="x")

    def another():
        world.ground.widen(NAME)
        world.ground.lose_store("here")
        assert {} == world.life().run(takeover=True).parked

    world.life().at(CrashPoint.PREPARE_AFTER, another).run()
    world.run()

    assert [] == world.breaks(fitting=either)
    assert 3 == len(world.rows())


def test_w15_a_zombie_of_a_higher_number_does_not_refuse_what_another_store_landed(world):
    require_no_refusal_by_a_zombie(world, unheard=2)  # he is number 4, his successor number 2


def test_w15_what_a_life_of_a_higher_number_left_pending_is_not_landed(world):
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")
    die_unheard(world, 2)
    world.life(host="a").prepare_only(1).run()
    world.ground.widen(NAME)
    world.run(host="b")
    world.run(host="a")

    assert [] == world.breaks(fitting=either)
    assert 3 == len(world.rows())


def test_w15_two_owners_with_stores_of_their_own_do_not_play_ping_pong(world):
    world.send("orders", 2)
    world.run(host="a")
    die_unheard(world, 2)
    others = []

    def another():
        others.append(world.life(host="b").run(takeover=True))

    world.send("orders", 1)
    zombie = world.life(host="a").at(CrashPoint.PREPARE_AFTER, another).run()

    assert [] == world.breaks()
    assert [None, None] == [zombie.error, *(each.error for each in others)]
    [owner] = {world.landed().owner}
    assert owner.endswith(f"/owner-{zombie.number}")


def test_w15_a_store_from_yesterday_begins_a_line_of_its_own(world):
    """A zombie of the line that was restored may have a higher number than the life after it."""
    saved = world.ground.save_store("here")
    world.send("orders", 2)
    world.run()
    world.crash_at("claim.after")
    world.send("orders", 1, later="x")

    def another():
        world.ground.widen(NAME)
        world.ground.restore_store("here", saved)
        assert {} == world.life().run(takeover=True).parked

    world.life().at(CrashPoint.QUARANTINE_BEFORE, another).run()
    world.run()

    assert [] == world.breaks(fitting=either)
    assert 3 == len(world.rows())


def test_w15_what_was_pending_before_a_foreign_change_by_hand_is_not_landed_after_it(world):
    world.send("orders", 2)
    world.run(host="a")
    world.send("orders", 1, later="x")
    world.life(host="a").prepare_only(1).run()
    world.ground.widen(NAME)
    world.run(host="b")
    changed = world.life(host="a").change(lambda held: held.claim.foreign).changed
    world.run(host="a")

    assert changed
    assert [] == world.breaks(fitting=either)
    assert 3 == len(world.rows())


def not_created(world, name):
    """Drop a table; give the act that creates it as it was, with its ledger."""
    created = world.ground.warehouse.get(name).contents
    world.ground.drop(name)
    ledger = ledger_from_json(created.ledgers[PIPELINE])
    return lambda: world.catalog().create(name, TableDefinition(created.schema), [ledger])


def test_w15_a_table_that_another_created_is_taken_over_before_it_is_read(world):
    world.send("orders", 1)
    world.life(host="a", crash="create.after:2").run()
    another_was_first = not_created(world, NAME)
    world.send("orders", 1, later="x")
    life = world.life(host="b").at(CrashPoint.CREATE_BEFORE, another_was_first)
    life.at(CrashPoint.PREPARE_AFTER, life.observer.crash_now).run()

    assert life.crashed
    assert world.landed().owner.endswith(f"/owner-{life.number}")


@pytest.mark.parametrize("shown", [b'{"x": null}', b"{}"])
def test_w15_a_table_is_not_created_after_an_owner_that_refused_records_for_it(monkeypatch, shown):
    """The other starts after us, and before we list how far to read."""
    world = World(MemoryGround())
    world.send_raw("orders", shown)
    life, asked = world.life(host="a"), count(1)

    def bounds(log, partitions):
        if log._life is life and next(asked) == 2:
            assert world.run(host="b").error is None
            world.send("orders", 1, x=5)
        return log._log.bounds(partitions)

    monkeypatch.setattr(WatchedLog, "bounds", bounds)
    life.run()
    world.run(host="b")
    world.run(host="a")

    assert life.error is None
    assert 1 == len(world.rows())
    assert [] == world.breaks(fitting=either)


def test_w15_a_table_of_a_route_that_another_created_is_taken_over_before_it_is_read():
    world = by_kind(MemoryGround())
    world.send("orders", 1, kind="a")
    world.run(host="a")
    name = catalog_name(table_of("b"))
    world.send("orders", 1, kind="b")
    world.life(host="a", crash="create.after").run()
    another_was_first = not_created(world, name)
    die_unheard(world, 2, host="b")
    life = world.life(host="b").at(CrashPoint.CREATE_BEFORE, another_was_first).run()
    chains = [(table_of("b"), PIPELINE), (QUARANTINE, f"{PIPELINE}/{table_of('b')}")]
    ledgers = [world.table(table).state(Chain(chain, table)).landed for table, chain in chains]

    assert life.error is None
    assert [True, True] == [each.owner.endswith(f"/owner-{life.number}") for each in ledgers]
    assert [] == world.breaks()


def test_w15_a_table_of_a_route_is_not_created_after_an_owner_that_refused_its_records():
    world = by_kind(MemoryGround(), tables_max=2)
    world.send("orders", 1, kind="c")
    world.run(host="a")
    world.send("orders", 1, kind="b")

    def another():  # there is room for one table more, and he gives it to another kind
        world.send("orders", 1, kind="a")
        assert world.run(host="b").error is None

    life = world.life(host="a").at(CrashPoint.CREATE_BEFORE, another).run()
    world.run(host="b")
    world.run(host="a")
    route = table_of("{kind}")

    assert life.error is None
    assert [1] == [offset for _, _, offset in (*world.rows(table_of("b")), *world.rejects(route))]


ALL = tables_named("orders", "items", "pays")


@pytest.mark.parametrize("unheard", [0, 2])
def test_w15_tables_that_come_back_one_after_the_other_with_old_owners_end_no_run(unheard):
    world = World(MemoryGround(), routes=ALL)
    items, pays = (catalog_name(ALL[topic][0]) for topic in ("items", "pays"))
    for each in ALL:
        world.send(each, 1)
    world.run()
    for topic in ("items", "pays"):  # each has heard of another claim
        die_unheard(world, unheard, host="here")
        world.send(topic, 1)
        world.run()
    for name in (items, pays):
        world.faults.take_away(name)
    world.ground.lose_store("here")
    world.send("orders", 1)
    world.run()
    world.alone()
    life = world.life()
    life.at_listing(40, life.stop.set)
    for listing in range(2, 12):
        life.at_listing(listing, partial(comes_back, world, {3: items, 8: pays}.get(listing)))

    assert life.run("stopped").error is None
    assert {} == life.ended.parked
    assert [] == world.breaks()


def comes_back(world, name):
    """Let time pass and a record come; a table may be there again."""
    if name:
        world.faults.give_back(name)
    world.clock.advance(40)
    world.send("orders", 1)


def test_w15_a_table_that_waits_for_a_person_makes_one_start_foreign():
    world = World(MemoryGround(), routes=ALL)
    for topic in ALL:
        world.send(topic, 2)
        world.send_raw(topic, b"bad")
    world.run()
    world.send("items", 1)
    world.run()
    items = catalog_name(ALL["items"][0])
    own = [each for each in world.ground.warehouse.get(items).contents.ancestry() if each.commit]
    world.ground.roll_back(items, own[1].id)
    world.ground.lose_store("here")
    owners = []
    for _ in range(3):
        assert {ALL["items"][0]: "P455"} == world.run().parked
        owners.append(world.landed().owner)

    assert 1 == len(set(owners))


def test_w13_a_refusal_whose_file_is_missing_is_read_again_though_it_moved_no_offset(world):
    world.send("orders", 1, extra=1)
    world.run()
    world.send("orders", 1, extra=1)  # a row, until its column is dropped
    world.send_raw("orders", b"bad")
    life = world.life(crash="prepare.after:2")
    life.at(CrashPoint.COMMIT_BEFORE, lambda: world.ground.change_columns(NAME)).run()
    [refusal] = world.pending()
    assert ({}, 1) == (refusal.progress, refusal.rows)
    world.ground.remove_file(refusal.files[0].path)
    world.run()

    assert [] == world.breaks(fitting=either)
    assert [1, 2] == [offset for _, _, offset in world.rejects()]


def test_w14_a_table_made_again_by_hand_refuses_nothing_twice(world):
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.run()
    schema = world.table().state(Chain(PIPELINE, ORDERS)).schema
    world.ground.drop(NAME)
    world.catalog().create(NAME, TableDefinition(schema), [])
    world.run()

    assert [] == world.breaks()
    assert 2 == len(world.rows())
    assert 1 == len(world.rejects())
