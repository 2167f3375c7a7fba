"""Many tables, many partitions, long silences: nobody holds up anybody, and little is read twice."""

import pytest
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, tables_named

from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.events import EpochPlanned, TableCommitted, TableParked
from penstock.landing.task.message_json import job_from_json

NAMES = tuple(f"{CATALOG}.bronze.orders_{n}" for n in (1, 2, 3))
TWO = tables_named("orders", "items")
ITEMS = TWO["items"][0]


@pytest.fixture
def ground():
    return MemoryGround()


def commits_of(world: World, name: str = ORDERS):
    return world.table(name).history(Chain(PIPELINE, name)).commits


def test_a_table_dropped_for_twenty_epochs_catches_up_alone_with_the_others(ground):
    world = World(ground, routes={"orders": NAMES}, retain=100)
    world.send("orders", 5)
    world.run()
    away = NAMES[1]
    world.send("orders", 2)
    world.life().at(
        CrashPoint.PREPARE_AFTER, lambda: world.faults.take_away(catalog_name(away))
    ).run()
    for _ in range(20):
        world.send("orders", 2)
        assert [away] == [*world.run().parked]
    assert {0: 47} == world.offsets(NAMES[0]) == world.offsets(NAMES[2])
    assert 1 == len(world.pending())

    world.faults.give_back(catalog_name(away))
    world.send("orders", 1)
    life = world.run()

    assert [] == world.breaks()
    read = [
        (lane.tables, lane.covered.count)
        for jobs in life.jobs
        for text in jobs
        for lane in job_from_json(text).lanes
    ]
    assert ((away,), 40) in read
    assert not any(count > 3 for tables, count in read if NAMES[0] in tables)


def test_after_a_kill_a_hundred_tables_of_which_ninety_are_silent_are_hardly_read_again(ground):
    names = [f"t{n}" for n in range(100)]
    loud, silent = names[:10], names[10:]
    world = World(ground, routes=tables_named(*names))
    for name in names:
        world.send(name, 1)
    world.run()
    for _ in range(30):
        for name in loud:
            world.send(name, 2)
        for name in silent:
            world.send_raw(name, None, None)
        world.life(crash="stopping").run()
    for name in names:
        world.send_raw(name, None) if name in silent else world.send(name, 1)
    assert 1 == commits_of(world, f"{CATALOG}.bronze.t50")[-1].rows
    life = world.run()

    assert life.records_read <= 2 * (10 * 2 + 90 * 2)
    assert [] == world.breaks()


def test_a_partition_without_a_leader_holds_up_nobody(ground):
    world = World(ground, partitions=3)
    for partition in range(3):
        world.send("orders", 2, partition=partition)
    world.run()
    for partition in range(3):
        world.send("orders", 2, partition=partition)
    ground.cluster.lose_leader("orders", 1)

    assert "P254" == world.run().code
    assert {0: 4, 1: 2, 2: 4} == world.offsets()

    ground.cluster.elect_leader("orders", 1)
    world.run()
    assert [] == world.breaks()


def test_a_partition_that_loses_its_leader_while_it_is_read_holds_up_nobody(ground):
    world = World(ground, partitions=2)
    world.send("orders", 2)
    world.run()
    for partition in range(2):
        world.send("orders", 4, partition=partition)
    life = world.life()
    life.at(CrashPoint.EPOCH_PLANNED, lambda: ground.cluster.lose_leader("orders", 1))
    life.at(CrashPoint.PREPARE_AFTER, lambda: ground.cluster.elect_leader("orders", 1)).run()

    assert [] == world.breaks()
    assert 2 == len([job for job in life.jobs if job])


def test_a_new_partition_without_a_leader_yet_does_not_park_its_table(ground):
    world = World(ground)
    world.send("orders", 2)
    world.run()
    world.send("orders", 2)
    ground.grow("orders", 2)
    ground.cluster.lose_leader("orders", 1)
    life = world.life()
    life.at(CrashPoint.COMMIT_AFTER, lambda: ground.cluster.elect_leader("orders", 1)).run()

    assert [] == life.of(TableParked)
    assert [] == world.breaks()
    assert {0: 4, 1: 0} == world.offsets()


def test_a_thousand_quiet_partitions_make_few_tasks_and_few_files(ground):
    world = World(ground, partitions=1000)
    for partition in range(1000):
        world.send("orders", 1, partition=partition)
    life = world.run()

    assert 1000 == len(world.rows())
    assert len(life.jobs[-1]) <= 2
    assert sum(each.files for each in life.of(TableCommitted) if each.table == ORDERS) <= 2
    assert [] == world.breaks()


def test_c9_a_partition_that_gets_nothing_does_not_stall_the_others_nor_the_time(ground):
    world = World(ground, partitions=3)
    world.send("orders", 2)
    world.run()
    first = world.landed().valid_through_ms
    world.sleep()
    world.send("orders", 2)
    world.run()

    assert {0: 4, 1: 0, 2: 0} == world.offsets()
    assert first < world.landed().valid_through_ms
    assert [] == world.breaks()


def test_epochs_in_which_nothing_lands_make_no_commits_until_the_end(ground):
    world = World(ground)
    world.send("orders", 1)
    world.run()
    for _ in range(5):
        world.send_raw("orders", None)
        world.life(crash="stopping").run()
    assert 1 == len(commits_of(world))
    world.run()

    assert ["append", "anchor"] == [each.kind for each in commits_of(world)]
    assert {0: 6} == world.offsets()
    assert [] == world.breaks()


def test_nothing_at_all_makes_no_epoch_and_no_commit(ground):
    world = World(ground)
    world.send("orders", 1)
    world.run()
    life = world.run()

    assert [] == life.of(EpochPlanned)
    assert [] == life.of(TableCommitted)


def test_a_table_that_is_quiet_for_long_is_anchored_while_others_go_on(ground):
    world = World(ground, routes=TWO, anchor_every_seconds=100.0)
    world.send("orders", 1)
    world.send("items", 1)
    world.run()
    life = world.life(every_seconds=1.0)

    def step():
        world.send("orders", 1)
        world.send_raw("items", None)
        world.clock.advance(30)

    for number in range(2, 40, 4):
        life.at_listing(number, step)
    life.at_listing(41, life.stop.set)
    life.run("stopped")

    anchors = [each for each in commits_of(world, ITEMS) if each.kind == "anchor"]
    assert len(anchors) > 1
    assert [] == world.breaks()


def test_a_clean_stop_leaves_every_table_level(ground):
    world = World(ground, routes=TWO)
    world.send("orders", 1)
    world.send("items", 1)
    world.run()
    world.send_raw("items", None, None)
    life = world.life()
    life.at_listing(6, life.stop.set).run("stopped")

    assert {0: 3} == world.offsets(ITEMS)
    assert [] == world.breaks()


def test_one_table_that_fails_for_ever_neither_blocks_the_others_nor_loses_its_own(ground):
    world = World(ground, routes={"orders": NAMES})
    world.send("orders", 2)
    world.run()
    for _ in range(6):
        world.faults.queue(catalog_name(NAMES[0]), *[Fault.REFUSE] * 100)
        world.send("orders", 2)
        assert {NAMES[0]: "P430"} == world.run().parked
        world.faults.clear()
    assert {0: 14} == world.offsets(NAMES[1])
    world.run()

    assert [] == world.breaks()


def test_a_failing_quarantine_parks_the_tables_that_need_it_and_not_the_rest(ground):
    world = World(ground, routes=TWO)
    world.send("orders", 1)
    world.send("items", 1)
    world.run()
    world.faults.queue(catalog_name(QUARANTINE), *[Fault.REFUSE] * 100)
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.send("items", 2)

    assert {ORDERS: "P430"} == world.run().parked
    assert {0: 1} == world.offsets()
    assert {0: 3} == world.offsets(ITEMS)
    world.faults.clear()
    world.run()
    assert [] == world.breaks()


def test_brokers_that_are_away_for_a_while_are_waited_for(ground):
    world = World(ground)
    world.send("orders", 2)
    world.run()
    world.send("orders", 3)
    life = world.life().at(CrashPoint.EPOCH_PLANNED, ground.cluster.go_down)
    life.at_listing(5, ground.cluster.come_back).run()

    assert {} == life.parked
    assert [] == world.breaks()


def test_brokers_that_stay_away_end_the_run_and_lose_nothing(ground):
    world = World(ground)
    world.send("orders", 2)
    world.run()
    world.send("orders", 3)
    life = world.life().at(CrashPoint.EPOCH_PLANNED, ground.cluster.go_down).run()
    assert "P201" == life.code
    ground.cluster.come_back()
    world.run()

    assert [] == world.breaks()


def test_a_hundred_foreign_commits_between_ours_do_no_harm(ground):
    world = World(ground)
    world.send("orders", 2)
    world.run()
    for _ in range(100):
        ground.append(catalog_name(ORDERS))
    world.send("orders", 2)
    for _ in range(30):
        world.faults.before_commit(
            catalog_name(ORDERS), lambda: ground.append(catalog_name(ORDERS))
        )
    world.run()

    assert [] == world.breaks()


def test_w2_a_rollback_that_expiry_hides_is_no_plain_expiry(ground):
    world = World(ground)
    snapshots = []
    for _ in range(3):
        world.send("orders", 2)
        life = world.run()
        snapshots += [each.snapshot for each in life.of(TableCommitted) if each.table == ORDERS]
    name = catalog_name(ORDERS)
    ground.roll_back(name, snapshots[0])
    ground.append(name)
    ground.append(name)
    ground.expire(name)

    assert {ORDERS: "P455"} == world.run().parked


def test_k11_a_log_cut_off_below_what_landed_stops_its_table(ground):
    world = World(ground)
    world.send("orders", 10)
    world.run()
    ground.cluster.elect_leader("orders", 0, truncate_to=6)

    assert {ORDERS: "P253"} == world.run().parked
    world.send("orders", 8)
    assert {ORDERS: "P211"} == world.run().parked
    assert {0: 10} == world.offsets()


def test_k11_an_election_after_what_landed_is_no_cut_for_a_table_that_examined_more(ground):
    """The store knows how far was read, the ledger the epoch of what landed: not of one place."""
    world = World(ground)
    world.send("orders", 2)
    world.run()
    ground.cluster.elect_leader("orders", 0)
    world.send_raw("orders", None)
    world.life(crash="stopping").run()
    world.send("orders", 1)

    assert {} == world.run().parked
    assert {0: 4} == world.offsets()
    assert [] == world.breaks()


def test_k11_two_tables_at_two_places_of_a_partition_have_an_epoch_each(ground):
    """One is before an election; the other after it, and knows no epoch of where it is."""
    late = f"{CATALOG}.bronze.late"
    world = World(ground, routes={"orders": (ORDERS, late)})
    world.send("orders", 2)
    world.run()
    ground.warehouse.hide(catalog_name(late))
    ground.cluster.elect_leader("orders", 0)
    world.send_raw("orders", None, None)
    world.life(crash="stopping").run()
    ground.warehouse.show(catalog_name(late))
    world.send("orders", 1)

    assert {} == world.run().parked
    assert [0, 1, 4] == [offset for _, _, offset in world.rows(ORDERS)]
    assert [0, 1, 4] == [offset for _, _, offset in world.rows(late)]
    assert [] == world.breaks()
