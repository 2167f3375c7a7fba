"""Rows of deleted keys are purged beside a pipeline: what lands meanwhile stays, and audits agree."""

from __future__ import annotations

import pytest
from tests.simulation.keyed_histories import PurgedPlay
from tests.simulation.test_keyed_audits import AuditedPlay, played
from tests.story.backend import MemoryGround, catalog_name
from tests.story.keyed import SEQUENCED, SOFT, KeyedWorld, gone, put
from tests.story.world import ORDERS, PIPELINE
from tests.unit.app.inspect.test_audit import audited

from penstock.commit.purge import PurgedRows
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.ports.store import Pause

NAME = catalog_name(ORDERS)


class AuditedPurges(AuditedPlay, PurgedPlay):
    """Histories with purges whose tables are audited after each life."""


@pytest.fixture
def world() -> KeyedWorld:
    return KeyedWorld(MemoryGround(), keyed=SOFT)


def keys(world: KeyedWorld) -> list[int]:
    return sorted(row["n"] for row in world.ground.warehouse.rows(NAME))


def not_compared(world: KeyedWorld) -> tuple[str, ...]:
    found = audited(world).row_count
    assert found is not None
    assert () == found.breaks
    return tuple(found.not_compared)


def test_an_audit_says_what_was_purged_and_finds_what_was_lost(world: KeyedWorld) -> None:
    put(world, 1, 2, 3)
    gone(world, 1, 2)
    world.run()

    assert (2, 1) == ((done := world.purge(ORDERS)).rows, done.files)
    assert [3] == keys(world)
    assert ("2 deleted keys whose flagged row was purged",) == not_compared(world)
    assert world.clock.now_ms() == world.landed().purged_through_ms
    assert [] == world.breaks()

    world.ground.warehouse.foreign_delete(NAME, lambda row: row["n"] == 3)
    assert ["lost"] == [each.kind for each in audited(world).breaks]


def test_a_key_that_gets_a_row_while_it_is_purged_keeps_it(world: KeyedWorld) -> None:
    put(world, 1, 2, 3)
    gone(world, 1, 2)
    world.run()

    def meanwhile() -> None:
        put(world, 1)
        world.run()

    assert 1 == world.purge(ORDERS, meanwhile).rows
    assert [1, 3] == keys(world)
    assert [] == world.breaks()


def test_a_purge_before_a_commit_lets_it_look_again(world: KeyedWorld) -> None:
    put(world, 1, 2)
    gone(world, 1)
    world.run()
    put(world, 1, 2)
    world.faults.before_commit(NAME, lambda: world.purge(ORDERS))
    life = world.run()

    assert life.error is None
    assert [1, 2] == keys(world)
    assert [] == world.breaks()


def test_a_purge_that_is_rolled_back_is_a_rollback(world: KeyedWorld) -> None:
    put(world, 1)
    gone(world, 1)
    world.run()
    before = world.ground.warehouse.get(NAME).contents.head
    world.purge(ORDERS)
    world.ground.roll_back(NAME, before)
    put(world, 2)

    assert {ORDERS: "P455"} == world.run().parked
    with pytest.raises(DecisionNeededError) as raised:
        world.purge(ORDERS)
    assert "P455" == raised.value.code


def test_a_change_of_a_lower_sequence_brings_a_purged_key_back_and_an_audit_says_so() -> None:
    world = KeyedWorld(MemoryGround(), keyed=SEQUENCED)
    put(world, 1, s=1)
    gone(world, 1, s=3)
    world.run()
    world.purge(ORDERS)
    put(world, 1, s=2)
    world.run()

    assert [1] == keys(world)
    assert ["stale"] == [each.kind for each in audited(world).breaks]


def test_nothing_is_purged_of_a_table_that_is_paused(world: KeyedWorld) -> None:
    put(world, 1)
    gone(world, 1)
    world.run()
    now_ms = world.clock.now_ms()
    world.store().pause(PIPELINE, Pause(ORDERS, now_ms, now_ms + 60_000))

    with pytest.raises(UnavailableError) as raised:
        world.purge(ORDERS)
    assert "P445" == raised.value.code
    assert [1] == keys(world)


def test_a_table_without_changes_has_nothing_to_purge(world: KeyedWorld) -> None:
    world.appended.add(ORDERS)
    world.send("orders", 1)
    world.run()

    with pytest.raises(InvalidError) as raised:
        world.purge(ORDERS)
    assert "P461" == raised.value.code


def test_where_no_row_is_old_enough_nothing_is_committed(world: KeyedWorld) -> None:
    put(world, 1)
    world.run()
    head = world.ground.warehouse.get(NAME).contents.head

    assert PurgedRows(0, 0) == world.purge(ORDERS)
    assert head == world.ground.warehouse.get(NAME).contents.head


def test_an_audit_agrees_with_the_truth_while_rows_are_purged() -> None:
    wrong, compared = played(range(10), AuditedPurges)

    assert [] == wrong
    assert compared > 80
