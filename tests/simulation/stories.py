"""Stories reported on every ground: in memory here, on real parts in tests/integration/landing.

Ids are those of failure-modes.md. Each story ends with every record exactly once,
chains gapless, and nothing left pending, unless it says otherwise.
"""

import pytest
from tests.story.backend import CATALOG, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, either, tables_named

from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.events import (
    CommitAborted,
    CommitConflicted,
    CommitFoundLanded,
    CommitLeftInDoubt,
    EpochPlanned,
    TableCommitted,
    TableParked,
    TableResumed,
)
from penstock.ports.tables import TableDefinition

ORDERS_NAME = catalog_name(ORDERS)
QUARANTINE_NAME = catalog_name(QUARANTINE)
THREE = {"orders": tuple(f"{CATALOG}.bronze.orders_{n}" for n in (1, 2, 3))}


class KafkaStories:
    """What happens to the log."""

    def test_k7_a_topic_made_again_stops_the_pipeline_and_loses_nothing(self, ground):
        world = World(ground)
        world.send("orders", 10)
        world.run()
        world.delete_topic("orders")
        ground.create(ground.topic("orders"), 1)
        world.send("orders", 15)

        assert "P251" == world.run().code
        assert {0: 10} == world.offsets()

        world.run(accept=["topic"])
        assert [] == world.breaks()
        assert 25 == len(world.rows())

    def test_k7_a_topic_made_again_while_an_epoch_runs_discards_the_epoch(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)

        def make_again():
            world.delete_topic("orders")
            ground.create(ground.topic("orders"), 1)
            world.send("orders", 7)

        life = world.life().at(CrashPoint.EPOCH_PLANNED, make_again).run()

        assert "P251" == life.code
        assert 3 == len(world.rows())

        topic = ground.topic("orders")
        world.give_up("orders", 0, [3, 4])  # nobody read them: they went with their topic
        world.run(accept=["topic"])
        assert 10 == len(world.rows())
        assert {(topic, 0, n) for n in range(7)} == set(world.rows())
        assert [] == world.pending()

    def test_k8_retention_that_overtakes_stops_with_the_exact_range(self, ground):
        world = World(ground, partitions=2)
        world.send("orders", 10)
        world.send("orders", 10, partition=1)
        world.run()
        world.send("orders", 10)
        world.send("orders", 5, partition=1)
        world.delete_before("orders", 0, 16)

        life = world.run()

        assert {ORDERS: "P252"} == life.parked
        assert "offsets 10 to 16" in life.ended.parked[ORDERS].message
        assert {0: 10, 1: 10} == world.offsets()

        world.run(accept=["gap"])
        world.give_up("orders", 0, range(10, 16))
        assert [] == world.breaks()
        assert {0: 20, 1: 15} == world.offsets()

    def test_k8_retention_that_overtakes_while_an_epoch_runs_is_passed_with_consent(self, ground):
        world = World(ground)
        world.send("orders", 5)
        world.run()
        world.send("orders", 10)
        life = world.life(accept=["gap"])
        life.at(CrashPoint.EPOCH_PLANNED, lambda: world.delete_before("orders", 0, 12)).run()

        world.give_up("orders", 0, range(5, 12))
        assert {} == life.parked
        assert [] == world.breaks()
        assert {0: 15} == world.offsets()

    def test_k10_markers_and_aborted_records_are_covered_and_an_idle_tail_advances(self, ground):
        world = World(ground)
        world.begin("orders", 2).abort()
        world.send("orders", 3)
        world.begin("orders", 2).abort()
        world.begin("orders", 2).commit()
        world.run()
        before = world.offsets()[0]
        world.begin("orders", 3).abort()
        world.run()

        assert [] == world.breaks()
        assert 5 == len(world.rows())
        assert before + 4 == world.offsets()[0]

    def test_k10_an_open_transaction_holds_back_only_what_comes_after_it(self, ground):
        world = World(ground)
        world.send("orders", 2)
        waiting = world.begin("orders", 2)
        world.send("orders", 2)
        world.run()
        assert {0: 2} == world.offsets()
        waiting.commit()
        world.run()

        assert [] == world.breaks()
        assert 6 == len(world.rows())

    def test_k13_partitions_added_while_an_epoch_runs_start_at_0(self, ground):
        world = World(ground, partitions=3)
        world.send("orders", 4)
        world.run()
        world.send("orders", 2)

        def grow():
            ground.grow(ground.topic("orders"), 6)
            for partition in (3, 4, 5):
                world.send("orders", 2, partition=partition)

        life = world.life().at(CrashPoint.EPOCH_PLANNED, grow).run()

        assert 1 == len(life.jobs[0])
        assert [] == world.breaks()
        assert {0: 6, 1: 0, 2: 0, 3: 2, 4: 2, 5: 2} == world.offsets()

    def test_c4_a_crash_before_the_very_first_commit_loses_nothing_after_latest(self, ground):
        world = World(ground, start="latest")
        world.send("orders", 5)
        world.run()
        world.send("orders", 3)
        world.crash_at("commit.before")
        world.send("orders", 2)
        world.run()

        world.give_up("orders", 0, range(5))
        assert [] == world.breaks()
        assert 5 == len(world.rows())


class TableStories:
    """What happens to tables and their commits."""

    def test_d3_two_topics_with_equal_partition_numbers_share_a_table(self, ground):
        world = World(ground, routes={"orders": (ORDERS,), "returns": (ORDERS,)})
        world.send("orders", 3)
        world.send("returns", 5)
        world.run()
        world.send("orders", 4)
        world.crash_at("commit.after")
        world.send("returns", 1)
        world.run()

        assert [] == world.breaks()
        assert 13 == len(world.rows())

    def test_c11_a_crash_between_the_tables_of_an_epoch_leaves_all_exact(self, ground):
        world = World(ground, routes=THREE, commits_at_once=1)
        world.send("orders", 4)
        world.run()
        for passing in (1, 2, 3):
            world.send("orders", 3)
            world.crash_at(f"commit.after:{passing}")
            world.run()
            assert [] == world.breaks()

    def test_f1_a_commit_whose_answer_was_lost_is_found_by_the_next_run(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.CRASH_AFTER)
        assert world.run().error is not None
        assert 1 == len(world.pending())
        life = world.run()

        assert 1 == len(life.of(CommitFoundLanded))
        assert [] == world.breaks()

    def test_a_lost_answer_lands_once(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.LOSE_ANSWER, Fault.LOSE_ANSWER)
        life = world.run()

        assert 1 == len(life.of(CommitLeftInDoubt))
        assert 1 == len(life.of(TableCommitted))
        assert [] == world.breaks()

    def test_c10_a_request_that_arrives_after_its_successor_is_refused(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.DELAY)
        life = world.run()
        world.send("orders", 2)
        world.run()

        assert 1 == len(life.of(CommitLeftInDoubt))
        assert ["ConflictError"] == world.faults.release()
        assert [] == world.breaks()

    def test_c10_a_request_in_flight_at_the_end_of_a_run_may_land_once(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.CRASH_DELAYED)
        assert world.run().crashed
        assert 1 == len(world.pending())
        world.faults.release()
        life = world.run()

        assert 1 == len(life.of(CommitFoundLanded))
        assert [] == world.breaks()

    def test_c12_an_ok_without_effect_is_caught_by_reading_back(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.OK_UNAPPLIED, Fault.OK_UNAPPLIED)
        world.run()

        assert [] == world.breaks()
        assert 5 == len(world.rows())

    def test_d1_the_whole_check_runs_again_on_every_conflict(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        for _ in range(5):
            world.faults.before_commit(ORDERS_NAME, lambda: ground.append(ORDERS_NAME))
        world.faults.queue(ORDERS_NAME, *[Fault.CONFLICT] * 10)
        life = world.run()

        assert 10 <= len(life.of(CommitConflicted)) <= 11
        assert [] == world.breaks()

    def test_a_commit_asked_for_twice_lands_once(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.TWICE)
        world.run()

        assert [] == world.breaks()

    def test_c6_a_table_missing_for_a_while_keeps_its_commits_and_blocks_nobody(self, ground):
        world = World(ground, routes=tables_named("orders", "items"))
        world.send("orders", 3)
        world.send("items", 3)
        world.run()
        world.send("orders", 2)
        world.send("items", 2)
        world.faults.take_away(ORDERS_NAME)
        world.run()
        world.send("items", 4)
        world.send("orders", 4)
        world.run()
        world.faults.give_back(ORDERS_NAME)

        assert 9 == len(world.rows(f"{CATALOG}.bronze.items"))
        world.run()
        assert [] == world.breaks()

    def test_c6_a_table_that_vanishes_with_a_commit_pending_goes_on_where_it_was(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        life = world.life()
        life.at(CrashPoint.PREPARE_AFTER, lambda: world.faults.take_away(ORDERS_NAME)).run()

        assert [ORDERS] == [*life.parked]
        assert 1 == len(life.of(TableParked))
        assert 1 == len(world.pending())
        assert {ORDERS: "P459"} == world.run().parked
        assert 1 == len(world.pending())

        world.faults.give_back(ORDERS_NAME)
        world.run()
        assert [] == world.breaks()

    def test_c6_a_table_dropped_and_made_again_with_commits_pending_stops_with_both_ids(
        self, ground
    ):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        before = world.table().state(_chain()).uuid

        def make_again():
            definition = _definition(world)
            ground.drop(ORDERS_NAME)
            world.catalog().create(ORDERS_NAME, definition, [])

        life = world.life().at(CrashPoint.PREPARE_AFTER, make_again).run()
        again = world.run()

        assert {ORDERS: "P452"} == life.parked == again.parked
        message = again.ended.parked[ORDERS].message
        assert before in message
        assert world.table().state(_chain()).uuid in message
        assert 1 == len(world.pending())
        assert [] == world.rows()

    def test_w9_a_column_changed_under_a_staged_commit_is_refused_and_the_range_made_again(
        self, ground
    ):
        world = World(ground)
        world.send("orders", 3, extra=1)
        world.run()
        world.send("orders", 2)
        life = world.life()
        life.at(CrashPoint.COMMIT_BEFORE, lambda: ground.change_columns(ORDERS_NAME)).run()

        assert 1 == len(life.of(CommitAborted))
        assert [] == world.breaks()
        assert {0: 5} == world.offsets()

    def test_w9_a_quarantine_changed_under_a_staged_commit_loses_no_refused_record(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.send_raw("orders", b"no json")
        world.send("orders", 2)
        life = world.life()
        life.at(CrashPoint.QUARANTINE_BEFORE, lambda: ground.widen(QUARANTINE_NAME)).run()

        assert [] == world.breaks()
        assert 1 == len(world.rejects())

    def test_r3_a_missing_staged_file_is_noticed_and_its_range_read_again(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.send_raw("orders", b"no json")
        world.crash_at("prepare.after")
        for commit in world.pending():
            if not commit.chain.is_quarantine:
                ground.remove_file(commit.files[0].path)
        life = world.run()

        assert 1 == len(life.of(CommitAborted))
        assert 1 == life.observer.passings(CrashPoint.FENCE_AFTER)
        assert [] == world.breaks()

    def test_r3_a_missing_staged_file_of_the_quarantine_loses_no_refused_record(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.send_raw("orders", b"no json")
        world.crash_at("prepare.after")
        for commit in world.pending():
            if commit.chain.is_quarantine:
                ground.remove_file(commit.files[0].path)
        world.run()

        assert [] == world.breaks()
        assert 1 == len(world.rejects())

    def test_r3_a_crash_between_dropping_two_commits_of_an_epoch_loses_no_refused_record(
        self, ground
    ):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.send_raw("orders", b"no json")
        world.crash_at("prepare.after")
        for commit in world.pending():
            if commit.chain.is_quarantine:
                ground.remove_file(commit.files[0].path)
        world.crash_at("settle.after")
        world.run()

        assert [] == world.breaks()
        assert 1 == len(world.rejects())

    def test_w10_two_commits_whose_first_lost_its_file_are_made_again_without_a_stop(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        _two_pending(world)
        ground.remove_file(world.pending()[0].files[0].path)
        life = world.run()

        assert {} == life.parked
        assert [] == world.breaks()

    def test_w4_an_aborted_commit_cannot_land_later(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.CRASH_DELAYED)
        assert world.run().crashed
        ground.remove_file(world.pending()[0].files[0].path)
        world.run()

        assert ["ConflictError"] == world.faults.release()
        assert [] == world.breaks()

    def test_w3_a_rollback_while_running_is_fenced_and_stops_the_table(self, ground):
        world, snapshots = _landed_thrice(ground)
        world.send("orders", 1)
        life = world.life()
        life.at(CrashPoint.PREPARE_AFTER, lambda: ground.roll_back(ORDERS_NAME, snapshots[0])).run()

        assert {ORDERS: "P455"} == life.parked
        assert 1 == life.observer.passings(CrashPoint.FENCE_AFTER)
        assert {ORDERS: "P455"} == world.run().parked

    def test_w3_a_rollback_while_down_is_fenced_and_stops_the_table(self, ground):
        world, snapshots = _landed_thrice(ground)
        world.send("orders", 1)
        world.faults.queue(ORDERS_NAME, Fault.CRASH_DELAYED)
        assert world.run().crashed
        ground.roll_back(ORDERS_NAME, snapshots[0])
        life = world.run()

        assert {ORDERS: "P455"} == life.parked
        assert 1 == life.observer.passings(CrashPoint.FENCE_AFTER)
        assert ["ConflictError"] == world.faults.release()
        assert {ORDERS: "P455"} == world.run().parked

    def test_a_full_disk_parks_one_table_and_the_others_go_on(self, ground):
        world = World(ground, routes=THREE)
        world.send("orders", 3)
        world.run()
        world.send("orders", 4)
        full = world.tables[1]
        life = world.life().fill_disk(full, times=100).run()

        assert {full: "P480"} == life.parked
        assert 7 == len(world.rows(world.tables[0])) == len(world.rows(world.tables[2]))
        world.run()
        assert [] == world.breaks()

    def test_a_table_that_is_back_goes_on_in_the_same_run(self, ground):
        world = World(ground, routes=THREE)
        world.send("orders", 3)
        world.run()
        world.send("orders", 4)
        life = world.life().fill_disk(world.tables[1])
        life.at(CrashPoint.COMMIT_AFTER, lambda: world.send("orders", 1))
        life.at(CrashPoint.SETTLE_AFTER, world.sleep).run()

        assert {} == life.parked
        assert [world.tables[1]] == [each.table for each in life.of(TableResumed)]
        world.run()
        assert [] == world.breaks()

    def test_a_run_goes_on_reporting_what_waits_for_a_table_that_it_parked(self, ground):
        flooded, level = f"{CATALOG}.bronze.flooded", f"{CATALOG}.bronze.level"
        routes = {"orders": (flooded,), "others": (level,)}
        world = World(ground, routes=routes, stop_above_share=0.5, records_max=220)
        world.send("others", 300)
        world.send_raw("orders", *[b"bad"] * 150)
        life = world.run()

        assert {flooded: "P345"} == life.parked
        lag = [each.table_lag for each in life.of(EpochPlanned)]
        assert [300, 190] == [each[level] for each in lag]
        assert [150, 150] == [each[flooded] for each in lag]

    def test_nothing_is_landed_when_too_many_records_are_refused(self, ground):
        world = World(ground, stop_above_share=0.5)
        world.send("orders", 3)
        world.run()
        world.send("orders", 10)
        world.send_raw("orders", *[b"bad"] * 150)

        assert {ORDERS: "P345"} == world.run().parked
        assert {0: 3} == world.offsets()
        assert [] == world.rejects()
        assert [] == world.pending()

        world.run(stop_above_share=1.0)
        assert [] == world.breaks()

    def test_f5_a_landed_commit_is_known_after_its_history_expired(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.faults.queue(ORDERS_NAME, Fault.CRASH_AFTER)
        assert world.run().crashed
        for _ in range(3):
            ground.append(ORDERS_NAME)
        ground.expire(ORDERS_NAME)
        world.send("orders", 1)
        life = world.run()

        assert {} == life.parked
        assert 1 == len(life.of(CommitFoundLanded))
        assert [] == world.breaks()


class OwnerStories:
    """What happens when two want to be the owner, and to the store."""

    def test_c2_a_stale_coordinator_cannot_move_progress_back(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)

        def another():
            world.send("orders", 5)
            assert {} == world.life().run(takeover=True).parked

        life = world.life().at(CrashPoint.COMMIT_BEFORE, another).run()

        assert "FencedError" == type(life.error).__name__
        assert {0: 10} == world.offsets()
        assert [] == world.breaks()

    def test_s2_two_coordinators_pass_the_check_together_and_one_lands(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)

        def another():
            assert {} == world.life().run(takeover=True).parked

        world.faults.before_commit(ORDERS_NAME, another)
        life = world.life().run()

        assert "FencedError" == type(life.error).__name__
        assert [] == world.breaks()

    def test_w7_two_hosts_with_a_store_each_claim_one_number(self, ground):
        world = World(ground, routes=THREE, commits_at_once=1)
        life = world.life(host="a")

        def another():
            assert {} == world.life(host="b").run(takeover=True).parked

        world.send("orders", 5)
        life.at(CrashPoint.EPOCH_PLANNED, another).run()

        assert life.error is None or "FencedError" == type(life.error).__name__
        world.send("orders", 2)
        world.run(host="b")
        world.run(host="a")
        assert [] == world.breaks()

    def test_w7_the_one_that_is_fenced_claims_once_more_for_all_of_its_tables(self, ground):
        world = World(ground, routes=THREE, commits_at_once=3)
        world.send("orders", 3)
        world.run(host="a")
        world.send("orders", 5)

        def another():  # it lands a part of what is prepared here
            life = world.life(host="b", records_max=2)
            assert {} == life.run("once", takeover=True).parked

        life = world.life(host="a").at(CrashPoint.PREPARE_AFTER, another).run()

        assert life.error is None
        assert 2 == sum(point is CrashPoint.CLAIM_AFTER for point in life.points)
        assert [] == world.breaks()

    def test_w7_two_hosts_do_not_play_ping_pong(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run(host="a")
        world.send("orders", 2)

        def another():
            world.send("orders", 1)
            world.life(host="b", records_max=1).run("once", takeover=True)

        life = world.life(host="a", records_max=2)
        for passing in (1, 2, 3, 4, 5):
            life.at(CrashPoint.PREPARE_AFTER, another, passing=passing)
        life.run()

        assert "FencedError" == type(life.error).__name__
        assert 2 == sum(point is CrashPoint.CLAIM_AFTER for point in life.points)
        world.run(host="b")
        world.run(host="a")
        assert [] == world.breaks()

    def test_w5_a_zombie_is_fenced_even_when_the_newer_owner_moved_no_offset(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)

        def another():  # its only commit is the start of a new partition, which moves no offset
            ground.grow(ground.topic("orders"), 2)
            life = world.life(host="b")
            life.at(CrashPoint.EPOCH_PLANNED, life.observer.crash_now).run(takeover=True)
            world.ground.lose_store("b")

        life = world.life(host="a").at(CrashPoint.COMMIT_BEFORE, another).run()
        world.run(host="a")

        assert life.error is None or "FencedError" == type(life.error).__name__
        assert [] == world.breaks()

    def test_f4_a_second_pipeline_of_the_name_is_refused_at_a_table(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        other_writer = World(ground, routes={"returns": (ORDERS,)})
        other_writer.send("returns", 2)
        life = other_writer.run(host="elsewhere")

        assert {ORDERS: "P458"} == life.parked
        assert [] == world.breaks()

    def test_f2_a_source_that_goes_back_below_what_landed_is_not_landed_twice(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run(host="a")
        world.send("orders", 3)
        world.crash_at("prepare.after", host="a")  # [3, 6) is prepared on host a
        world.send("orders", 2)
        world.run(host="b")  # and [3, 8) lands from host b
        world.send("orders", 1)
        world.run(host="a")

        assert [] == world.breaks()
        assert 9 == len(world.rows())

    def test_the_store_is_deleted_while_running(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        life = world.life()
        life.at(CrashPoint.EPOCH_PLANNED, lambda: ground.lose_store("here")).run()
        assert life.code.startswith("P50")
        world.run()

        assert [] == world.breaks()

    def test_the_store_is_deleted_with_commits_pending(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.send_raw("orders", b"no json")
        world.crash_at("prepare.after")
        ground.lose_store("here")
        world.run()

        assert [] == world.breaks()

    def test_w6_rows_of_a_store_from_yesterday_are_found_landed(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2)
        world.crash_at("prepare.after")
        yesterday = ground.save_store("here")
        world.run()
        world.send("orders", 2)
        world.run()
        ground.restore_store("here", yesterday)
        world.send("orders", 2)
        life = world.run()

        assert [True] == [each.as_prepared for each in life.of(CommitFoundLanded)]
        assert [] == life.of(CommitAborted)
        assert [] == world.breaks()

    def test_c3_a_prepared_range_that_begins_below_what_landed_is_read_again_from_there(
        self, ground
    ):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 5)
        world.crash_at("prepare.after")
        rewound = ground.save_store("here")
        world.run(host="there", records_max=2)
        assert {0: 8} == world.offsets()
        world.send("orders", 4)
        world.crash_at("commit.after:1", host="there", records_max=2)
        ground.restore_store("here", rewound)
        assert [(3, 8)] == [
            (covered.start, covered.stop)
            for commit in world.pending()
            for covered in commit.progress.values()
        ]
        life = world.run()
        world.run(host="there")

        assert [False] == [each.as_prepared for each in life.of(CommitFoundLanded)]
        assert {0: 12} == world.offsets()
        assert [] == world.breaks()

    def test_w11_a_store_restored_while_the_coordinator_runs_on_skips_nothing(self, ground):
        world = World(ground, partitions=2)
        world.send("orders", 3)
        world.send("orders", 3, partition=1)
        world.run()
        yesterday = ground.save_store("here")
        world.send("orders", 2)
        life = world.life(records_max=2)
        life.at(CrashPoint.SETTLE_AFTER, lambda: ground.restore_store("here", yesterday))
        life.at_listing(4, lambda: world.send("orders", 4, partition=1)).run()
        world.send("orders", 2)
        world.run()

        assert [] == world.breaks()


class RulesStories:
    """What happens to verdicts."""

    def test_w1_a_refused_record_stays_refused_when_it_would_fit_after_a_crash(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 1)
        world.send("orders", 1, surprise=1)  # a field the table has not: refused by these rules
        world.crash_at("quarantine.after")
        world.change_rules("rules-2", columns="drop_value")  # by those it would land without it
        world.send("orders", 1, surprise=2)
        world.run()

        assert [] == world.breaks(fitting=either)
        assert [4] == [offset for _, _, offset in world.rejects()]

    def test_w1_a_refused_record_stays_refused_when_its_table_was_committed(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 1, surprise=1)
        world.send("orders", 1)
        world.crash_at("commit.after")
        world.change_rules("rules-2", columns="drop_value")
        world.run()

        assert [] == world.breaks(fitting=either)
        assert [3] == [offset for _, _, offset in world.rejects()]

    def test_w1_changed_rules_wait_until_all_tables_are_level(self, ground):
        world = World(ground, routes=THREE, commits_at_once=1)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2, surprise=1)
        world.crash_at("quarantine.after:2")
        world.change_rules("rules-2", columns="drop_value")
        world.send("orders", 1, surprise=2)
        world.run()

        assert [] == world.breaks(fitting=either)
        for table in world.tables:
            assert [3, 4] == [offset for _, _, offset in world.rejects(table)]

    def test_w1_lost_former_rules_stop_until_a_person_accepts_the_new_ones(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 1)
        world.send("orders", 1, surprise=1)
        world.crash_at("quarantine.after")
        world.change_rules("rules-2", columns="drop_value")
        ground.lose_store("here")

        life = world.run()
        assert "P189" == life.code
        assert "[3, 5)" in life.error.message
        assert "P189" == world.run().code

        world.run(accept=["rules"])
        assert [] == world.breaks(fitting=either)
        assert [4] == [offset for _, _, offset in world.rejects()]

    def test_w1_rules_that_count_are_in_every_ledger_before_anything_is_checked_by_them(
        self, ground
    ):
        world = World(ground, routes=THREE, commits_at_once=1)
        world.send("orders", 3)
        world.run()
        world.change_rules("rules-2", columns="drop_value")
        world.send("orders", 2, surprise=1)
        world.crash_at("commit.after")  # one table has landed something by the new rules
        ground.lose_store("here")
        life = world.run()

        assert "" == life.code
        assert [] == world.breaks(fitting=either)
        assert [[], [], []] == [world.rejects(table) for table in world.tables]

    def test_w1_partitions_found_under_changed_rules_do_not_make_tables_level(self, ground):
        world = World(ground)
        world.send("orders", 3)
        world.run()
        world.send("orders", 1)
        world.send("orders", 1, surprise=1)
        world.crash_at("quarantine.after")
        world.change_rules("rules-2", columns="drop_value")
        ground.grow(ground.topic("orders"), 2)
        ground.lose_store("here")

        assert "P189" == world.run().code
        assert "P189" == world.run().code

    def test_w1_a_table_that_was_away_when_rules_changed_is_leveled_by_its_former_ones(
        self, ground
    ):
        world = World(ground, routes=THREE, commits_at_once=1)
        world.send("orders", 3)
        world.run()
        world.send("orders", 2, surprise=1)
        world.send("orders", 1)
        world.crash_at("quarantine.before:3")
        waiting = [commit for commit in world.pending() if not commit.chain.is_quarantine]
        away = waiting[-1].chain.table
        for commit in waiting:
            ground.remove_file(commit.files[0].path)
        world.faults.take_away(catalog_name(away))
        world.change_rules("rules-2", columns="drop_value")
        world.send("orders", 1)
        life = world.life()

        def come_back():
            world.faults.give_back(catalog_name(away))
            world.sleep(5)
            world.send("orders", 1)

        life.at(CrashPoint.COMMIT_AFTER, come_back).run()
        assert {away: "P463"} == life.parked
        world.run()

        assert [] == world.breaks(fitting=either)
        for table in world.tables:
            assert [3, 4] == [offset for _, _, offset in world.rejects(table)]

    def test_w1_a_table_that_was_away_for_two_changes_is_leveled_by_its_own_former_rules(
        self, ground
    ):
        world = World(ground, routes=THREE, commits_at_once=1)
        world.send("orders", 3)
        world.run()
        away = world.tables[1]
        world.send("orders", 2, surprise=1)
        world.send("orders", 1)
        life = world.life()
        life.at(CrashPoint.PREPARE_AFTER, lambda: world.faults.take_away(catalog_name(away))).run()
        world.change_rules("rules-2", columns="drop_value")
        world.send("orders", 1)
        world.run()
        world.change_rules("rules-3", columns="drop_value", types="drop_value")
        world.send("orders", 1)
        world.run()
        world.faults.give_back(catalog_name(away))
        for commit in world.pending():
            ground.remove_file(commit.files[0].path)
        ground.grow(ground.topic("orders"), 2)
        world.run()

        assert [] == world.breaks(fitting=either)
        for table in world.tables:
            assert [3, 4] == [offset for _, _, offset in world.rejects(table)]
            assert "rules-3" == world.landed(table).rules_hash

    def test_d2_bad_records_land_in_quarantine_once_whenever_it_crashes(self, ground):
        world = World(ground)
        for point in ("quarantine.before", "quarantine.after", "commit.before", "settle.after"):
            world.send("orders", 2)
            world.send_raw("orders", b"no json", b"[]")
            world.crash_at(point)
        world.run()

        assert [] == world.breaks()
        assert 8 == len(world.rejects())

    def test_a_table_is_created_after_an_epoch_of_only_bad_records(self, ground):
        world = World(ground)
        world.send_raw("orders", b"bad", b"worse")
        world.run()
        assert [] == world.rows()
        world.send_raw("orders", b"bad again")
        world.send("orders", 2)
        world.run()

        assert [] == world.breaks()
        assert {0: 5} == world.offsets()

    def test_a_table_is_created_while_bad_records_before_it_are_still_pending(self, ground):
        world = World(ground)
        world.run()
        world.send_raw("orders", b"bad", b"worse")
        world.send("orders", 2)
        life = world.life(records_max=2)
        life.hold(CrashPoint.QUARANTINE_BEFORE, until=CrashPoint.CREATE_AFTER).run()
        assert life.crashed
        ground.remove_file(world.pending()[0].files[0].path)
        world.run()

        assert [] == world.breaks()
        assert 2 == len(world.rejects())

    def test_a_table_is_created_when_the_quarantine_of_earlier_records_did_not_land(self, ground):
        world = World(ground)
        world.send_raw("orders", b"bad", b"worse")
        world.crash_at("prepare.after")
        ground.remove_file(world.pending()[0].files[0].path)
        world.send("orders", 2)
        world.run()

        assert [] == world.breaks()
        assert 2 == len(world.rejects())

    def test_w8_a_late_table_is_created_with_its_ledger_though_store_and_process_are_lost(
        self, ground
    ):
        world = World(ground, routes=tables_named("orders", "items"))
        world.send("orders", 3)
        world.run()
        for point in ("create.before", "create.after", "prepare.before", "prepare.after"):
            world.send("orders", 1)
            world.send_raw("items", b"bad")
            world.send("items", 2)
            world.life(crash=point).run()
            ground.lose_store("here")
        world.run()

        assert [] == world.breaks()


class PointStories:
    """A life that does everything once dies at each crash point; the next one ends exact."""

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.parametrize("point", CrashPoint)
    def test_a_crash_at_every_point_leaves_every_record_exactly_once(self, ground, point):
        world = _eventful(ground)
        life = world.life(crash=f"{point}:1", heartbeat_seconds=0.001).run()

        assert (point not in ground.unreached) == life.observer.crashed
        world.send("orders", 1)
        world.run()
        assert [] == world.breaks()
        assert {0: 10, 1: 4, 2: 1} == world.offsets()


def _eventful(ground) -> World:
    """Leave a world in which the next life recovers, fences, begins, creates, refuses and anchors.

    A staged file is gone, a partition and a topic are new, records are bad, one partition holds
    nothing but a tombstone.
    """
    world = World(ground, routes=tables_named("orders", "items"))
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    world.send_raw("orders", b"bad")
    world.life().prepare_only(1).run()
    own = next(each for each in world.pending() if not each.chain.is_quarantine)
    ground.remove_file(own.files[0].path)
    world.send("orders", 2)
    world.send_raw("orders", b"worse")
    ground.grow(ground.topic("orders"), 3)
    world.send("orders", 4, partition=1)
    world.send_raw("orders", None, partition=2)
    world.send("items", 2)
    world.send_raw("items", b"bad")
    return world


def _chain():
    return Chain(PIPELINE, ORDERS)


def _definition(world: World):
    return TableDefinition(world.table().state(_chain()).schema)


def _two_pending(world: World) -> None:
    """Leave two commits pending: neither could be sent when the process died."""
    world.send("orders", 4)
    world.life(records_max=2).prepare_only(2).run()
    assert 2 == len(world.pending())


def _landed_thrice(ground) -> tuple[World, list[str]]:
    world = World(ground)
    snapshots = []
    for _ in range(3):
        world.send("orders", 2)
        life = world.run()
        snapshots += [each.snapshot for each in life.of(TableCommitted) if each.table == ORDERS]
    return world, snapshots
