"""Stories of shards: where they begin, and how they land beside each other (docs/design/0254)."""

from __future__ import annotations

import threading

import pytest
from tests.proof.shards_models import MUTANTS
from tests.simulation import histories
from tests.simulation.sharded_histories import ShardedPlay
from tests.story.backend import MemoryGround, catalog_name
from tests.story.shards import ShardedWorld
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, RULES

from penstock.commit import land as landing_once
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.shards import shard_name
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.tables import start_positions
from penstock.landing.tables.opening import TableOpener, route_topics
from penstock.landing.tables.route_tables import expand_routes


@pytest.fixture
def world() -> ShardedWorld:
    return ShardedWorld(MemoryGround(), 2, partitions=4)


def send_all(world: ShardedWorld, count: int = 3, partitions: int = 4) -> None:
    for partition in range(partitions):
        world.send("orders", count, partition=partition)


def begun(world: ShardedWorld) -> dict[int, int]:
    """Return the positions of all shards, in the table or in its quarantine while it is not there."""
    there = world.catalog().load(catalog_name(ORDERS)) is not None
    table = world.table(ORDERS if there else QUARANTINE)
    found: dict[int, int] = {}
    for number in range(world.count):
        name = shard_name(PIPELINE, number)
        chain = Chain(name, ORDERS) if there else Chain(f"{name}/{ORDERS}", QUARANTINE)
        landed = table.state(chain).landed
        assert landed is not None, chain
        found |= {at.partition: int(offset) for at, offset in landed.offsets.items()}
    return dict(sorted(found.items()))


def test_shards_land_their_own_partitions_in_one_table(world: ShardedWorld) -> None:
    for _ in range(2):
        send_all(world)
        lives = world.run_all()
        assert [{}, {}] == [life.parked for life in lives]
    assert [] == world.breaks()
    own = world.positions(ORDERS)
    assert {0: 6, 1: 6, 2: 6, 3: 6} == own[0] | own[1]
    assert [] == [at for at in own[0] if at in own[1]]


def test_refusals_go_to_chains_of_their_own(world: ShardedWorld) -> None:
    send_all(world)
    for partition in range(4):
        world.send_raw("orders", b"no JSON", partition=partition)
    assert [{}, {}] == [life.parked for life in world.run_all()]

    assert [] == world.breaks()
    assert [0, 1, 2, 3] == sorted(partition for _, partition, _ in world.rejects(ORDERS))


def test_a_table_is_known_to_a_shard_that_no_partition_is_of(world: ShardedWorld) -> None:
    """Status, audit, doctor and validate ask for what is whose of each table."""
    topic = world.ground.topic("orders")
    listing = world.ground.open_log([topic]).partitions()[:1]
    none = 1 - world.shard_of(listing[0].partition)
    settings = world.shard(none).settings
    targets, wanted, _ = route_topics(settings, listing)

    assert {ORDERS: []} == wanted == expand_routes(settings, {}, targets, wanted)[1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_co_g6_all_begin_where_the_first_says_and_what_is_added_at_0(order) -> None:
    world = ShardedWorld(MemoryGround(), 8, partitions=4, start="latest")
    send_all(world, 5)
    numbers = sorted(range(8), key=lambda number: order[number % 3])
    first, *later = sorted(numbers, key=lambda n: n not in map(world.shard_of, range(4)))
    world.shard(first).run()
    assert {0: 5, 1: 5, 2: 5, 3: 5} == begun(world)

    send_all(world, 2)
    world.ground.grow(world.ground.topic("orders"), 8)
    send_all(world, 3, partitions=8)
    for number in (*later, first):
        assert {} == world.shard(number).run().parked
    assert {0: 10, 1: 10, 2: 10, 3: 10, 4: 3, 5: 3, 6: 3, 7: 3} == begun(world)
    for partition in range(4):
        world.give_up("orders", partition, range(5))
    assert [] == world.breaks()


def test_a_topic_that_is_found_later_begins_once_for_all_shards(world: ShardedWorld) -> None:
    send_all(world)
    world.run_all()
    world.routes = {**world.routes, "more": (ORDERS,)}
    world.ground.create(world.ground.topic("more"), 4)
    for partition in range(4):
        world.send("more", 3, partition=partition)
        world.delete_before("more", partition, 2)
        world.give_up("more", partition, range(2))
    world.shard(0).run()
    for partition in range(4):
        world.delete_before("more", partition, 2)

    assert {} == world.shard(1).run().parked
    assert [] == world.breaks()


def test_a_topic_that_was_created_again_waits_for_consent_in_shards_that_had_none_of_it() -> None:
    world = ShardedWorld(MemoryGround(), 4, partitions=2)
    send_all(world, 3, 2)
    world.run_all()
    world.delete_topic("orders")
    world.ground.create(world.ground.topic("orders"), 2)
    send_all(world, 2, 2)
    landed = world.positions(ORDERS)
    for number in map(world.shard_of, range(2)):
        assert {} == landed[number]
        assert {ORDERS: "P251"} == world.shard(number).run().parked
    assert landed == world.positions(ORDERS)
    assert [{}] * 4 == [life.parked for life in world.run_all(accept=["topic"])]
    assert [] == world.breaks()


def grown_between(world: ShardedWorld) -> None:
    """Let shard 1 list a topic, then shard 0 after it grew; shard 1 is first, shard 0 was decided.

    It is the counterexample of *examined*.
    """
    chosen, written = threading.Event(), threading.Event()

    def decided() -> None:
        chosen.set()
        assert written.wait(60)

    def run_slow() -> None:
        world.shard(0).at(CrashPoint.ANCHOR_BEFORE, decided).run()

    slow = threading.Thread(target=run_slow)

    def overtaken() -> None:
        world.ground.grow(world.ground.topic("orders"), 4)
        send_all(world, 2)
        slow.start()
        assert chosen.wait(60)

    quick = world.shard(1)
    quick.at(CrashPoint.ANCHOR_BEFORE, overtaken).at(CrashPoint.ANCHOR_AFTER, written.set).run()
    slow.join(60)
    assert [{}, {}] == [life.parked for life in world.run_all()]


def late(partitions: int) -> ShardedWorld:
    """Return a world of records before the beginning, which nobody wants."""
    world = ShardedWorld(MemoryGround(), 2, partitions=partitions, start="latest")
    send_all(world, 5, partitions)
    for partition in range(partitions):
        world.give_up("orders", partition, range(5))
    return world


def one_after_the_other(world: ShardedWorld) -> None:
    """Let a shard begin, then the other when there is more: as in *all beginnings*."""
    world.shard(1).run()
    send_all(world, 2)
    assert [{}, {}] == [life.parked for life in world.run_all()]


def grown_later(world: ShardedWorld) -> None:
    """Give a topic that was begun further partitions: as in *added at 0*."""
    world.run_all()
    world.ground.grow(world.ground.topic("orders"), 4)
    send_all(world, 2)
    assert [{}, {}] == [life.parked for life in world.run_all()]


def created_by_one(world: ShardedWorld) -> None:
    """Let one shard create the table, and the other begin in it: as in *created with all*."""
    world.run_all()
    send_all(world, 2)
    world.shard(1).run()
    assert [{}, {}] == [life.parked for life in world.run_all()]


STORIES = {
    "all beginnings": (4, one_after_the_other, (start_positions, "_beside", lambda *_: {})),
    "added at 0": (1, grown_later, (start_positions, "family_positions", lambda *_: {})),
    "examined": (2, grown_between, (landing_once, "begun_count", lambda *_: 0)),
    "created with all": (
        4,
        created_by_one,
        (TableOpener, "_ledgers_of_siblings", lambda *_: iter(())),
    ),
}
"""The counterexamples of Shards.tla: partitions at first, the story, and what takes the defence
out of the code.
"""


def test_every_mutant_of_the_specification_has_its_story() -> None:
    assert {each.name for each in MUTANTS} == STORIES.keys()


@pytest.mark.parametrize("name", STORIES)
def test_where_shards_begin_nothing_is_lost_and_nothing_twice(name: str) -> None:
    partitions, story, _ = STORIES[name]
    world = late(partitions)
    story(world)

    assert [] == world.breaks()


@pytest.mark.parametrize("name", STORIES)
def test_without_its_defence_the_code_goes_wrong(name: str, monkeypatch) -> None:
    partitions, story, undefended = STORIES[name]
    monkeypatch.setattr(*undefended)
    world = late(partitions)
    try:
        story(world)
    except AssertionError:
        return

    assert [] != world.breaks()


def test_co_g2_two_shards_create_and_evolve_a_table_at_once(world: ShardedWorld) -> None:
    world.rulebook[RULES] = {"columns": "evolve", "types": "evolve"}
    send_all(world)
    first = world.shard(0).at(CrashPoint.CREATE_BEFORE, lambda: world.shard(1).run()).run()
    assert {} == first.parked
    for partition in range(4):
        world.send("orders", 2, partition=partition, more=1)
    second = world.shard(0).at(CrashPoint.EVOLVE_BEFORE, lambda: world.shard(1).run()).run()
    assert {} == second.parked
    for partition in range(4):
        world.send("orders", 1, partition=partition, other="a", another=2)

    def evolved() -> None:
        assert {} == world.shard(1).run().parked

    assert {} == world.shard(0).at(CrashPoint.COMMIT_BEFORE, evolved).run().parked
    assert [{}, {}] == [life.parked for life in world.run_all()]
    assert [] == world.breaks()
    names = [each.name for each in world.table().state(Chain(PIPELINE, ORDERS)).schema.fields]
    assert len(names) == len({*names})
    assert {"more", "other", "another"} < {*names}


@pytest.mark.parametrize("point", [*CrashPoint])
def test_co_g1_a_shard_that_is_killed_waits_for_its_next_life(point: CrashPoint) -> None:
    world = ShardedWorld(MemoryGround(), 2, partitions=4)
    for turn in range(2):
        send_all(world)
        for partition in range(4):
            world.send_raw("orders", b"no JSON", partition=partition)
        world.shard(turn, crash=f"{point}").run()
        assert {} == world.shard(1 - turn).run().parked
    world.sleep()
    assert [{}, {}] == [life.parked for life in world.run_all()]

    assert [] == world.breaks()


def test_co_g3_another_number_of_shards_is_refused_with_both_numbers(world: ShardedWorld) -> None:
    send_all(world)
    world.run_all()
    for given, said in (
        ({"shards": 3}, "3 shards"),
        ({"shards": 1, "pipeline": PIPELINE}, "without"),
    ):
        [error] = world.shard(0, **given).run().ended.parked.values()
        assert "P527" == error.code
        assert "begun by 2 shards" in error.message
        assert said in error.message


def test_co_g3_a_pipeline_with_ledgers_is_not_made_into_shards(world: ShardedWorld) -> None:
    send_all(world)
    world.run()
    [error] = world.shard(1).run().ended.parked.values()

    assert "begun by a pipeline without shards" in error.message


@pytest.mark.parametrize("shards", [1, 3])
def test_co_g3_nor_where_the_table_is_not_there_yet(world: ShardedWorld, shards: int) -> None:
    world.shard(0).run()
    name = PIPELINE if shards == 1 else shard_name(PIPELINE, 0)
    [error] = world.shard(0, shards=shards, pipeline=name).run().ended.parked.values()

    assert "P527" == error.code


def test_after_a_rollback_each_shard_is_put_back_to_where_its_own_rows_end(
    world: ShardedWorld,
) -> None:
    for _ in range(2):
        send_all(world)
        world.run_all()
    name = catalog_name(ORDERS)
    snapshots = world.table()._warehouse.get(name).contents.snapshots
    world.ground.roll_back(name, next(each.id for each in snapshots.values() if each.files))
    assert [{ORDERS: "P455"}] * 2 == [life.parked for life in world.run_all()]

    def put_back(held: ExclusiveAccess) -> set[int]:
        planned = seeking.plan_seek(held.settings, held.environment, ORDERS, {})
        seeking.commit_seek(held, planned)
        return {each.at.partition for each in planned.moves}

    for number, others in ((0, 1), (1, 0)):
        moved = world.shard(number).change(put_back).changed
        assert moved
        assert not moved & world.positions(ORDERS)[others].keys()
    assert [{}, {}] == [life.parked for life in world.run_all()]
    assert 24 == len({*world.rows()}) == len(world.rows())


def test_a_changed_spec_is_each_shards_own_consent_and_each_levels_its_own(
    world: ShardedWorld,
) -> None:
    """One shard was killed with commits prepared; the other examined what it skipped."""
    world.rulebook[RULES] = {"tombstones": "skip"}
    send_all(world)
    for partition in range(4):
        world.send_raw("orders", None, partition=partition)
    world.shard(0, crash="prepare.after").run()
    world.shard(1).run()
    world.change_rules("rules-2", tombstones="quarantine")
    send_all(world)
    assert [{}, {}] == [life.parked for life in world.run_all(accept=["rules"])]
    send_all(world)
    assert [{}, {}] == [life.parked for life in world.run_all()]

    assert [] == world.breaks()
    assert {"rules-2"} == {
        each.rules_hash
        for each in world.table().ledgers(world.table().state(Chain(PIPELINE, ORDERS)))
    }


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_whatever_happens_to_shards_every_record_ends_in_one_place(first: int) -> None:
    texts = [histories.reported(seed, None, ShardedPlay) for seed in range(first, first + 40)]

    assert [] == [*filter(None, texts)]


def test_histories_go_wrong_where_each_shard_begins_by_itself(monkeypatch) -> None:
    monkeypatch.setattr(start_positions, "_beside", lambda *_: {})

    assert histories.fails(0, histories.history_of(0, ShardedPlay.acts), kind=ShardedPlay)
