"""Stories of topics that are given partitions, with keys that move between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.keyed import KEYED, SEQUENCED, SOFT, KeyedWorld, gone, put, values
from tests.story.world import ORDERS, PIPELINE
from tests.unit.app.inspect.test_audit import audited

from penstock.commit import land as landing_once
from penstock.commit.attempt import CommitContext
from penstock.commit.creation import begin
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.events import CommitAborted, KeysAcrossPartitions, TableCommitted, TopicsGrew
from penstock.core.offsets import Offset
from penstock.landing import coordinator
from penstock.landing.repair import seek as seeking
from penstock.landing.tables.table_set import TableSet
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.sent import Sent

NAME = catalog_name(ORDERS)
STOPS = frozenset({ORDERS})


@pytest.fixture
def world() -> KeyedWorld:
    return KeyedWorld(MemoryGround())


def grow(world: KeyedWorld, partitions: int = 2) -> None:
    world.ground.grow(world.ground.topic("orders"), partitions)


def ends(world: KeyedWorld) -> list[dict[int, int]]:
    """Return what the ledger says of growths."""
    return [{at.partition: end for at, end in each.items()} for each in world.landed().grown]


def sound(world: KeyedWorld) -> None:
    assert [] == world.breaks()
    assert () == audited(world).breaks


def test_a_key_that_moves_to_a_new_partition_stops_nothing(world: KeyedWorld) -> None:
    put(world, 1, 2, 3)
    world.run(stop_across_partitions=STOPS)
    grow(world)
    put(world, 1, partition=1)
    gone(world, 2, partition=1)
    life = world.run(stop_across_partitions=STOPS)

    assert {} == life.parked
    assert [(ORDERS, 1)] == [(each.table, each.partitions) for each in life.of(TopicsGrew)]
    assert [] == life.of(KeysAcrossPartitions)
    assert {1: 4, 3: 3} == values(world)
    assert [{0: 3}] == ends(world)
    sound(world)


def test_a_new_partition_is_read_after_all_that_the_former_ones_had(world: KeyedWorld) -> None:
    put(world, 9)
    world.run()
    put(world, 1, 2, 3, 1, 2, 3)
    grow(world)
    put(world, 1, partition=1)
    gone(world, 2, partition=1)
    life = world.run(records_max=2, stop_across_partitions=STOPS)

    assert {} == life.parked
    assert {9: 1, 1: 8, 3: 7} == values(world)
    sound(world)


def test_keys_that_move_between_the_former_partitions_stop_nothing() -> None:
    world = KeyedWorld(MemoryGround(), partitions=2)
    put(world, 2, partition=1)
    world.run()
    put(world, 3, 1, 1, 1)
    grow(world, 3)
    world.crash_at(CrashPoint.EPOCH_PLANNED)
    gone(world, 1, partition=1)
    life = world.run(records_max=2, stop_across_partitions=STOPS)

    assert {} == life.parked
    assert {2: 1, 3: 2} == values(world)
    assert [{0: 4, 1: 1}] == ends(world)
    sound(world)


def test_a_producer_that_has_not_heard_stops_a_table_that_says_so(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    grow(world)
    put(world, 1, partition=1)
    world.run(stop_across_partitions=STOPS)
    put(world, 1)
    assert {ORDERS: "P489"} == world.run(stop_across_partitions=STOPS).parked
    assert {1: 3, 2: 2} == values(world)

    life = world.run()
    assert [(0, 1)] == [(each.keys, each.rows) for each in life.of(KeysAcrossPartitions)]
    assert {1: 4, 2: 2} == values(world)
    found = audited(world)
    assert () == found.breaks
    assert any(
        "1 key changed in several partitions" in each for each in found.row_count.not_compared
    )


def test_an_audit_knows_which_change_was_the_last(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    grow(world)
    put(world, 1, partition=1)
    gone(world, 2, partition=1)
    world.run()
    warehouse = world.ground.warehouse
    stale = [{**warehouse.rows(NAME)[0], "_kafka_partition": 0, "_kafka_offset": 0}]
    stale += [{**stale[0], "n": 2, "_kafka_offset": 1}]
    warehouse.foreign_delete(NAME, lambda row: row["n"] == 1)
    warehouse.foreign_append(NAME, stale)

    found = audited(world)
    assert {"stale", "resurrected"} == {each.kind for each in found.breaks}
    assert ("orders:1:0",) == found.row_count.applied_again


@pytest.mark.parametrize(
    "point", [CrashPoint.ANCHOR_BEFORE, CrashPoint.ANCHOR_AFTER, CrashPoint.COMMIT_AFTER]
)
def test_where_a_topic_grew_outlives_the_run_that_found_it(
    world: KeyedWorld, point: CrashPoint
) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1)
    grow(world)
    gone(world, 1, partition=1)
    world.crash_at(point, records_max=1)
    put(world, 3)
    life = world.run(records_max=1, stop_across_partitions=STOPS)

    assert {} == life.parked
    assert {2: 4, 3: 7} == values(world)
    assert [{0: 6 if point is CrashPoint.ANCHOR_BEFORE else 5}] == ends(world)
    sound(world)


@pytest.mark.parametrize("point", [CrashPoint.EPOCH_PLANNED, CrashPoint.RESOLVE_AFTER])
def test_a_topic_may_grow_while_an_epoch_is_under_way(world: KeyedWorld, point: CrashPoint) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1, 2)

    def grown() -> None:
        put(world, 2)
        grow(world)
        gone(world, 2, partition=1)

    life = world.life(records_max=1, stop_across_partitions=STOPS).at(point, grown).run()
    assert {} == life.parked
    assert {} == world.run(records_max=1, stop_across_partitions=STOPS).parked
    assert {1: 5} == values(world)
    assert [{0: 7}] == ends(world)
    sound(world)


def test_a_topic_may_grow_again(world: KeyedWorld) -> None:
    put(world, 1, 2, 3)
    world.run()
    for former, partitions in enumerate((2, 4)):
        put(world, 1, 2, partition=former)
        grow(world, partitions)
        put(world, 1, partition=partitions - 1)
        gone(world, 2, partition=partitions - 1)
        life = world.run(records_max=1, stop_across_partitions=STOPS)
        assert {} == life.parked
        assert {1, 3} == values(world).keys()
    assert [{0: 5}, {0: 5, 1: 4}] == ends(world)
    sound(world)


def test_a_topic_may_grow_before_its_table_is_there(world: KeyedWorld) -> None:
    world.run()
    put(world, 1, 2, 1, 2)
    grow(world)
    gone(world, 1, partition=1)
    life = world.run(records_max=1, stop_across_partitions=STOPS)

    assert {} == life.parked
    assert {2: 4} == values(world)
    assert [{0: 4}] == ends(world)
    sound(world)


def test_a_table_that_becomes_keyed_knows_of_growth_too(world: KeyedWorld) -> None:
    world.change_rules("append")
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1, 2)
    grow(world)
    world.change_rules("keyed", keyed=KEYED)
    gone(world, 1, partition=1)
    put(world, 2, partition=1)
    life = world.run(records_max=1, stop_across_partitions=STOPS)

    assert {} == life.parked
    assert {2: 8} == values(world)
    assert () == audited(world).breaks


def test_what_a_transaction_holds_back_comes_before_what_is_new(world: KeyedWorld) -> None:
    put(world, 1)
    world.run()
    held = world.ground.begin("orders", 0, [Sent(b'{"n": 1, "op": "put", "v": 7}')])
    grow(world)
    gone(world, 1, partition=1)
    world.run(stop_across_partitions=STOPS)
    assert {1: 1} == values(world)

    held.commit()
    assert {} == world.run(stop_across_partitions=STOPS).parked
    assert {} == values(world)
    sound(world)


def test_what_a_log_has_lost_is_not_waited_for(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1)
    grow(world)
    world.crash_at(CrashPoint.EPOCH_PLANNED)
    world.ground.cluster.elect_leader("orders", 0, truncate_to=3)
    gone(world, 2, partition=1)
    world.run()

    assert {1: 3} == values(world)
    assert {0: 3, 1: 1} == world.offsets()


def test_what_comes_where_a_log_has_lost_its_end_is_in_no_order(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1)
    grow(world)
    world.crash_at(CrashPoint.EPOCH_PLANNED)
    world.ground.cluster.elect_leader("orders", 0, truncate_to=3)
    put(world, 2, partition=1)
    world.run(stop_across_partitions=STOPS)
    put(world, 2)

    assert [{0: 5}] == ends(world)
    assert {ORDERS: "P489"} == world.run(stop_across_partitions=STOPS).parked
    assert {1: 3, 2: 6} == values(world)


def growth_of_a_run_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> KeyedWorld:
    """Play the counterexample of the mutant `growth at the commit`: a run lists the ends of the
    partitions that it knows, after a former one has written down where they ended earlier.
    """
    world = KeyedWorld(MemoryGround(), partitions=2)
    put(world, 1)
    world.run()
    put(world, *[1] * 9)
    put(world, 2, partition=1)
    former = CommitContext(world.landed().claim, Quiet(), world.clock, lambda: 0.5, retain=25)
    begun = TableSet.write_start_positions

    def grown_after(self: TableSet, context: CommitContext) -> None:
        begun(self, context)
        monkeypatch.undo()
        grow(world, 3)
        table, chain = world.table(), Chain(PIPELINE, ORDERS)
        there = {at.partition: at for at in world.landed().offsets}
        added = {replace(there[0], partition=2): Offset(0)}
        were = {there[0]: Offset(10), there[1]: Offset(1)}
        given = {"cluster_id": world.landed().cluster_id, "rules_hash": world.rules}
        begin(table, chain, added, **given, context=former, ends=were)
        gone(world, 1, partition=1)

    monkeypatch.setattr(TableSet, "write_start_positions", grown_after)
    return world


def test_a_commit_that_was_planned_without_a_growth_does_not_land_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = growth_of_a_run_that_was_replaced(monkeypatch)
    life = world.run(records_max=4)

    assert {ORDERS} == {each.table for each in life.of(CommitAborted)}
    assert {2: 11} == values(world)
    sound(world)


def test_an_order_is_undone_where_a_commit_does_not_look_for_growth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = growth_of_a_run_that_was_replaced(monkeypatch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing_once, "outgrown", lambda *_: False)
        world.run(records_max=4)

    assert 1 in values(world)


def test_an_order_is_undone_where_all_is_read_at_once(
    world: KeyedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "up_to_growths", lambda positions, *_: (positions, {}))
    put(world, 9)
    world.run()
    put(world, 1, 2, 1, 2)
    grow(world)
    gone(world, 1, partition=1)
    world.run(records_max=2)

    assert 1 in values(world)


@pytest.mark.parametrize("keyed", [SOFT, SEQUENCED], ids=["soft", "sequence"])
def test_it_is_so_where_deletes_leave_a_row(keyed) -> None:
    world = KeyedWorld(MemoryGround(), keyed=keyed)
    for version in range(4):
        world.change("orders", 0, 1, "put", s=version)
    world.run()
    world.change("orders", 0, 1, "put", s=4)
    grow(world)
    world.change("orders", 1, 1, "gone", s=4)
    assert {} == world.run(records_max=1, stop_across_partitions=STOPS).parked
    assert [True] == [row["gone"] for row in world.table()._warehouse.rows(NAME)]
    sound(world)


def test_a_table_that_appends_does_not_wait(world: KeyedWorld) -> None:
    last, every = f"{ORDERS}_last", f"{ORDERS}_every"
    world = KeyedWorld(MemoryGround(), routes={"orders": (last, every)})
    world.appended = {every}
    put(world, 1)
    world.run()
    put(world, 1, 1)
    grow(world)
    put(world, 1, partition=1)
    life = world.run(records_max=2)

    assert [4] == [row["v"] for row in world.ground.warehouse.rows(catalog_name(last))]
    assert 4 == len(world.rows(every))
    assert () == world.landed(every).grown
    first = next(e for e in life.of(TableCommitted) if e.table == every and e.rows)
    assert 2 == first.rows


class TestATableThatIsPutBack:
    @pytest.fixture
    def world(self, world: KeyedWorld) -> KeyedWorld:
        """Return a world whose keys moved when its topic grew, all landed."""
        put(world, 1, 2, 3)
        world.run()
        grow(world)
        put(world, 1, partition=1)
        gone(world, 2, partition=1)
        world.run()
        return world

    def test_takes_what_came_later_with_it(self, world: KeyedWorld) -> None:
        life = world.life().change(lambda held: put_back(held, {0: 1}))
        assert "P270" == life.code
        assert f"penstock seek --reapply {ORDERS} orders:0:1 orders:1:0" in life.error.hint

        world.life().change(lambda held: put_back(held, {0: 1, 1: 0}))
        assert {0: 1, 1: 0} == world.offsets()
        assert {} == world.run(records_max=1, stop_across_partitions=STOPS).parked
        assert {1: 4, 3: 3} == values(world)
        sound(world)

    def test_may_go_back_to_where_its_topic_grew(self, world: KeyedWorld) -> None:
        put(world, 4)
        world.run()
        world.life().change(lambda held: put_back(held, {0: 3}))
        world.life().change(lambda held: put_back(held, {1: 1}))
        assert {0: 3, 1: 1} == world.offsets()
        assert {} == world.run(stop_across_partitions=STOPS).parked
        assert {1: 4, 3: 3, 4: 6} == values(world)
        sound(world)

    @pytest.mark.parametrize(("commits", "reached"), [(1, 1), (2, 0), (3, 0)])
    def test_lands_what_a_rollback_took(
        self, world: KeyedWorld, commits: int, reached: int
    ) -> None:
        put(world, 1, 3, partition=1)
        world.run()
        history = world.table().history(Chain(PIPELINE, ORDERS))
        world.ground.roll_back(NAME, history.commits[-1 - commits].snapshot)
        assert {ORDERS: "P455"} == world.run().parked
        world.life().change(lambda held: put_back(held, {}))

        assert {0: 3, 1: reached} == world.offsets()
        assert {} == world.run(records_max=1, stop_across_partitions=STOPS).parked
        assert {1: 6, 3: 7} == values(world)
        sound(world)


def test_a_topic_that_was_made_again_with_more_partitions_has_not_grown(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    world.delete_topic("orders")
    world.ground.create(world.ground.topic("orders"), 2)
    put(world, 1, 3, partition=1)
    gone(world, 2)
    world.run(accept=["topic"])

    assert [] == ends(world)
    assert {1: 3, 3: 4} == values(world)


def put_back(held, offsets: dict[int, int]) -> None:
    wanted = {("orders", partition): offset for partition, offset in offsets.items()}
    planned = seeking.plan_seek(held.settings, held.environment, ORDERS, wanted, reapply=True)
    seeking.commit_seek(held, planned)


def test_a_table_that_trails_under_former_rules_comes_to_where_its_topic_grew() -> None:
    first, second = f"{ORDERS}_1", f"{ORDERS}_2"
    world = KeyedWorld(MemoryGround(), routes={"orders": (first, second)})
    put(world, 1, 2)
    world.run()
    put(world, 1, 2, 1)
    grow(world)
    gone(world, 1, partition=1)
    world.faults.take_away(catalog_name(second))
    world.run()
    world.faults.give_back(catalog_name(second))
    world.change_rules("later", keyed=KEYED, columns="drop_value")
    assert {} == world.run(records_max=1).parked

    for name in (first, second):
        rows = world.ground.warehouse.rows(catalog_name(name))
        assert [(2, 4)] == [(row["n"], row["v"]) for row in rows]
