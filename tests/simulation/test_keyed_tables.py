"""Stories of keyed tables: what lands is each key's last row, whatever dies when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.keyed import KEYED, SEQUENCED, SOFT, KeyedWorld, gone, put, small_slices, values
from tests.story.world import ORDERS, PIPELINE, RULES, SOURCE, World
from tests.unit.app.inspect.test_audit import audited

from penstock.core.commits import Chain, CommitKind
from penstock.core.crash_points import CrashPoint
from penstock.core.events import (
    FilesWritten,
    KeysAcrossPartitions,
    TableAbsent,
    TableCommitted,
)
from penstock.landing.repair import replay as replaying
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.load import plan_load
from penstock.landing.repair.selection import Selection
from penstock.landing.task.message_json import job_from_json
from penstock.landing.task.messages import PoisonKind
from penstock.ports.row_deletes import RowDeleteMode
from penstock.rows.decode import portions

NAME = catalog_name(ORDERS)
ROW_DELTA = CommitKind.ROW_DELTA.value
STOPS = frozenset({ORDERS})
REVERSED = {"put": "delete", "gone": "upsert"}
POINTS = (
    CrashPoint.RESULT_RETURNED,
    CrashPoint.PREPARE_BEFORE,
    CrashPoint.PREPARE_AFTER,
    CrashPoint.RESOLVE_BEFORE,
    CrashPoint.RESOLVE_AFTER,
    CrashPoint.FILES_REWRITTEN,
    CrashPoint.COMMIT_BEFORE,
    CrashPoint.COMMIT_AFTER,
    CrashPoint.READ_BACK,
    CrashPoint.SETTLE_BEFORE,
    CrashPoint.STOPPING,
)


@pytest.fixture
def world() -> KeyedWorld:
    return KeyedWorld(MemoryGround())


def test_the_last_change_of_each_key_lands(world: KeyedWorld) -> None:
    put(world, 1, 2, 1, 3)
    gone(world, 2)
    life = world.run()

    assert {1: 3, 3: 4} == values(world)
    assert [] == world.breaks()
    assert [2] == [each.rows for each in life.of(FilesWritten)]
    (changes,) = [each.changes for each in life.of(TableCommitted) if each.kind == ROW_DELTA]
    assert {"inserted": 2, "absent": 1, "superseded": 2} == changes

    put(world, 2, 3)
    gone(world, 1)
    world.run()
    assert {2: 6, 3: 7} == values(world)
    assert [] == world.breaks()


def test_the_chain_of_a_table_that_a_run_creates_is_keyed_from_its_first_ledger(
    world: KeyedWorld,
) -> None:
    put(world, 1)
    world.crash_at(f"{CrashPoint.CREATE_AFTER}:2")  # the first is the quarantine's
    landed = world.landed()

    assert landed.keyed is not None
    assert (("n",), True) == (landed.keyed.keys, landed.keyed.compares_offsets)


def test_deletes_alone_are_a_commit_without_files(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    gone(world, 1, 7)
    life = world.run()

    assert {2: 2} == values(world)
    assert {0: 4} == world.offsets()
    (commit,) = [each for each in life.of(TableCommitted) if each.kind == CommitKind.ROW_DELTA]
    assert (0, 0) == (commit.rows, commit.files)
    assert [] == life.of(FilesWritten)


def test_a_delete_that_leaves_a_row_is_counted_as_one(world: KeyedWorld) -> None:
    world = KeyedWorld(MemoryGround(), keyed=SOFT)
    put(world, 1, 2)
    world.run()
    gone(world, 1, 7)
    put(world, 2)
    life = world.run()

    rows = {row["n"]: row for row in world.table()._warehouse.rows(NAME)}
    assert {1: (True, 3), 2: (False, 5), 7: (True, 4)} == {
        key: (row["gone"], row["v"]) for key, row in rows.items()
    }
    assert [True, False, True] == [rows[key]["gone_at"] is not None for key in (1, 2, 7)]
    (changes,) = [each.changes for each in life.of(TableCommitted) if each.kind == ROW_DELTA]
    assert {"deleted": 1, "absent": 1, "updated": 1} == changes
    assert [] == world.breaks()
    assert () == audited(world).breaks

    put(world, 1)
    world.run()
    assert [False] == [r["gone"] for r in world.table()._warehouse.rows(NAME) if r["n"] == 1]


def test_rows_of_deleted_keys_may_be_removed_and_no_others() -> None:
    world = KeyedWorld(MemoryGround(), keyed=SOFT)
    put(world, 1, 2, 3)
    gone(world, 1, 2)
    world.run()
    world.ground.warehouse.foreign_delete(NAME, lambda row: row["gone"] and row["n"] == 1)
    counted = audited(world).row_count
    assert counted is not None
    assert () == counted.breaks
    assert ("1 deleted key whose flagged row is not there any more",) == counted.not_compared

    world.ground.warehouse.foreign_delete(NAME, lambda row: row["n"] == 3)
    assert ["lost"] == [each.kind for each in audited(world).breaks]


def test_a_table_without_columns_for_flag_and_time_is_parked(world: KeyedWorld) -> None:
    put(world, 1)
    world.run()
    world.change_rules("soft", keyed=SOFT)

    assert {ORDERS: "P457"} == world.run().parked


class TestSequences:
    @pytest.fixture
    def world(self) -> KeyedWorld:
        return KeyedWorld(MemoryGround(), keyed=SEQUENCED, partitions=2)

    @staticmethod
    def rows(world: World) -> dict[int, tuple[int, bool]]:
        """Return the sequence of each key's row, and whether it is flagged."""
        found = world.table()._warehouse.rows(NAME)
        assert len({row["n"] for row in found}) == len(found)
        return {row["n"]: (row["s"], row["gone"]) for row in found}

    def changed(self, world: KeyedWorld) -> dict[str, int]:
        """Run; return what the commit counts."""
        life = world.run()
        assert () == audited(world).breaks
        [found] = [each.changes for each in life.of(TableCommitted) if each.kind == ROW_DELTA]
        assert found is not None
        return dict(found)

    def test_a_late_change_loses_in_whatever_commit_and_partition(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=5)
        world.change("orders", 0, 1, "put", s=3)
        world.change("orders", 1, 2, "put", s=9)
        assert {"inserted": 2, "superseded": 1} == self.changed(world)

        world.change("orders", 1, 1, "put", s=4)
        world.change("orders", 0, 2, "gone", s=8)
        world.change("orders", 0, 3, "put", s=-1)
        assert {"late": 2, "inserted": 1} == self.changed(world)
        assert {1: (5, False), 2: (9, False), 3: (-1, False)} == self.rows(world)

        world.change("orders", 1, 1, "put", s=6)
        assert {"updated": 1} == self.changed(world)
        assert (6, False) == self.rows(world)[1]

    def test_of_equal_sequences_the_later_offset_wins(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=5)
        world.change("orders", 0, 1, "gone", s=5)
        assert {"absent": 1, "superseded": 1} == self.changed(world)
        world.change("orders", 0, 1, "put", s=5)
        assert {"updated": 1} == self.changed(world)
        assert {1: (5, False)} == self.rows(world)

    def test_a_delete_is_not_undone_by_a_change_from_before_it(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=1)
        world.run()
        world.change("orders", 0, 1, "gone", s=3)
        assert {"deleted": 1} == self.changed(world)
        world.change("orders", 0, 1, "put", s=2)
        assert {"late": 1} == self.changed(world)
        assert {1: (3, True)} == self.rows(world)

        world.change("orders", 0, 1, "put", s=4)
        assert {"updated": 1} == self.changed(world)
        assert {1: (4, False)} == self.rows(world)

    def test_rows_without_a_sequence_lose_to_every_change(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=1)
        world.run()
        warehouse = world.ground.warehouse
        warehouse.foreign_append(NAME, [{**dict.fromkeys(warehouse.rows(NAME)[0]), "n": 2}])
        world.change("orders", 0, 2, "put", s=-7)

        assert {"updated": 1} == self.changed(world)
        assert {1: (1, False), 2: (-7, False)} == self.rows(world)

    def test_late_rows_of_others_lose_and_the_highest_one_stays(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=1)
        world.run()
        warehouse = world.ground.warehouse
        none = dict.fromkeys(warehouse.rows(NAME)[0])
        warehouse.foreign_append(NAME, [{**none, "n": 1, "s": s, "gone": False} for s in (9, 7, 8)])
        world.change("orders", 0, 1, "put", s=2)
        world.run()

        assert {1: (9, False)} == self.rows(world)

    def test_a_known_order_of_two_partitions_stops_nothing(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=1)
        world.change("orders", 1, 1, "put", s=2)
        assert {} == world.run(stop_across_partitions=STOPS).parked
        world.change("orders", 0, 1, "put", s=3)
        world.change("orders", 0, 2, "put", s=3)
        assert {} == world.run(stop_across_partitions=STOPS).parked
        assert {1: (3, False), 2: (3, False)} == self.rows(world)

        world.change("orders", 1, 2, "put", s=3)
        assert {ORDERS: "P489"} == world.run(stop_across_partitions=STOPS).parked

    def test_a_chain_keeps_its_sequence(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=1)
        world.run()
        landed = world.landed()
        assert landed.keyed is not None
        assert ("s",) == landed.keyed.sequence
        for number, keyed in enumerate((SOFT, replace(SEQUENCED, sequence=("v", "s")))):
            world.change_rules(f"other-{number}", keyed=keyed)
            assert {ORDERS: "P464"} == world.run().parked

        other = KeyedWorld(MemoryGround(), keyed=SOFT)
        put(other, 1)
        other.run()
        other.change_rules("by-v", keyed=replace(SOFT, sequence=("v",)))
        assert {ORDERS: "P464"} == other.run().parked

    def test_a_wrong_column_parks_the_table_before_it_is_created_and_can_be_corrected(self) -> None:
        for name, said in (("nowhere", "has no column nowhere"), ("x", "it is a double")):
            world = KeyedWorld(MemoryGround(), keyed=replace(SEQUENCED, sequence=(name,)))
            world.change("orders", 0, 1, "put", s=1, x=0.5)
            life = world.run()
            assert {ORDERS: "P434"} == life.parked
            assert life.ended is not None
            assert said in life.ended.parked[ORDERS].message

            world.change_rules("corrected", keyed=SEQUENCED)
            assert {} == world.run().parked
            assert {1} == values(world).keys()

    def test_an_audit_finds_a_row_that_lost(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 1, "put", s=5)
        world.change("orders", 0, 1, "put", s=3)
        world.change("orders", 1, 2, "put", s=9)
        world.change("orders", 0, 2, "put", s=1)
        world.run()
        warehouse = world.ground.warehouse
        for key, partition, offset in ((1, 0, 1), (2, 0, 2)):
            held = next(row for row in warehouse.rows(NAME) if row["n"] == key)
            warehouse.foreign_delete(NAME, lambda row, key=key: row["n"] == key)
            place = {SOURCE["partition"]: partition, SOURCE["offset"]: offset}
            warehouse.foreign_append(NAME, [{**held, **place}])

        breaks = audited(world).breaks
        assert ["stale", "stale"] == [each.kind for each in breaks]
        found = [each.message.partition(" at ")[2] for each in breaks]
        assert ["0 (found: 1)", "0 (found: orders[0] 2)"] == found


def test_an_epoch_without_a_change_makes_no_commit(world: KeyedWorld) -> None:
    put(world, 1)
    world.run()
    world.send_raw("orders", None, None)
    life = world.run()

    assert ["anchor"] == [each.kind for each in life.of(TableCommitted)]
    assert {0: 3} == world.offsets()


def test_a_key_that_changes_in_several_slices_has_one_row(world: KeyedWorld) -> None:
    with small_slices():
        put(world, *[1, 2] * 10)
        life = world.run()

    assert any(len(jobs) > 3 for jobs in life.jobs)
    assert {1: 19, 2: 20} == values(world)
    assert [] == world.breaks()


def test_the_books_say_which_changes_stay(world: KeyedWorld) -> None:
    put(world, 1)
    world.run()
    with small_slices():
        put(world, *[1, 2] * 10)
        gone(world, 1)
        world.send_raw("orders", b"bad", None)
        world.crash_at("prepare.after")

    (_, commit) = world.pending()
    (books,) = commit.tallies.values()
    assert (23, 2, 19) == (books.examined, books.landed, books.superseded)
    assert {"P302": 1} == dict(books.quarantined)


def test_a_task_that_holds_little_writes_early_and_lands_the_same(
    world: KeyedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "PORTION_BYTES_MAX", 500)
    put(world, *range(40), *range(20))
    gone(world, *range(5))
    life = world.run(held_bytes_max=500)

    assert [] == world.breaks()
    assert {key: 41 + key if key < 20 else 1 + key for key in range(5, 40)} == values(world)
    (written,) = life.of(FilesWritten)
    assert written.files > 1


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_and_doubles_nothing(world: KeyedWorld, point: CrashPoint) -> None:
    world.mode = RowDeleteMode.REWRITE if point is CrashPoint.FILES_REWRITTEN else world.mode
    put(world, 1, 2, 3)
    world.run()
    put(world, 1, 4, 1)
    gone(world, 2)
    world.crash_at(point)
    put(world, 2, 4)
    world.run()

    assert [] == world.breaks()
    assert [1, 2, 3, 4] == sorted(values(world))
    world.run()
    assert [] == world.breaks()


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.TWICE])
def test_a_lost_answer_is_found_out(world: KeyedWorld, fault: Fault) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1)
    gone(world, 2)
    world.faults.queue(NAME, fault)
    world.run()

    assert {1: 3} == values(world)
    assert [] == world.breaks()


def test_a_commit_of_an_earlier_process_lands_on_a_table_that_others_compacted(
    world: KeyedWorld,
) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1)
    gone(world, 2)
    world.crash_at(CrashPoint.PREPARE_AFTER)
    world.ground.warehouse.foreign_compaction(NAME)
    world.run()

    assert {1: 3} == values(world)
    assert [] == world.breaks()


def test_a_table_that_was_away_goes_on_where_it_was(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    put(world, 1)
    world.faults.take_away(NAME)
    assert [ORDERS] == [*world.run().parked]
    gone(world, 2)
    world.faults.give_back(NAME)
    world.run()

    assert {1: 3} == values(world)
    assert [] == world.breaks()


@pytest.mark.parametrize("appends", [False, True])
def test_of_a_table_that_was_dropped_it_is_said_what_does_not_come_back(
    world: KeyedWorld, appends: bool
) -> None:
    world.appended = {ORDERS} if appends else set()
    put(world, 1, 2)
    world.send_raw("orders", b"bad")
    assert [] == world.run().of(TableAbsent)
    world.ground.drop(NAME)
    assert [TableAbsent(ORDERS, "orders[0] offset 3")] == world.run().of(TableAbsent)

    put(world, 2)
    world.run()
    assert {2: 3} == values(world)


@pytest.mark.parametrize("kills", PoisonKind)
def test_a_change_that_kills_its_process_is_refused_alone(
    world: KeyedWorld, kills: PoisonKind
) -> None:
    put(world, *[1, 2] * 20)
    life = world.life()
    life.poison[world.ground.topic("orders"), 0, 38] = kills
    life.run()

    assert {1: 37, 2: 40} == values(world)
    assert 1 == len(world.rejects())
    assert [] == world.breaks()


def test_a_topic_that_was_made_again_is_read_on(world: KeyedWorld) -> None:
    put(world, 1, 2)
    world.run()
    world.delete_topic("orders")
    world.ground.create("orders", 1)
    put(world, 1)
    gone(world, 2)
    world.run()
    life = world.run(accept=("topic",))

    assert {} == life.parked
    assert {1: 3} == values(world)


def test_a_full_disk_parks_a_table_alone_and_it_lands_the_same_later() -> None:
    first, second = f"{ORDERS}_1", f"{ORDERS}_2"
    world = KeyedWorld(MemoryGround(), routes={"orders": (first, second)})
    put(world, 1)
    world.run()
    put(world, 1, 2, 2)
    life = world.life().fill_disk(second, times=100).run()

    assert {second: "P480"} == life.parked
    assert 2 == len(world.rows(first))
    world.run()
    assert [] == world.breaks()


def test_a_field_that_is_new_becomes_a_column(world: KeyedWorld) -> None:
    world.rulebook[world.rules] |= {"columns": "evolve"}
    put(world, 1, 2)
    world.run()
    put(world, 1)
    world.change("orders", 0, 2, "put", colour="red")
    gone(world, 1)
    world.run()

    assert {2: 4} == values(world)
    assert ["red"] == [row["colour"] for row in world.table()._warehouse.rows(NAME)]
    assert [] == world.breaks()


def test_a_table_that_takes_changes_is_read_for_together_with_one_that_appends() -> None:
    last, every = f"{ORDERS}_last", f"{ORDERS}_every"
    world = KeyedWorld(MemoryGround(), routes={"orders": (last, every)})
    world.appended = {every}
    put(world, 1)
    world.run()
    put(world, 2, 1)
    gone(world, 2)
    life = world.run()

    assert 1 == len(world.rows(last))
    assert 4 == len(world.rows(every))
    assert 3 == life.records_read


def test_a_topic_that_was_made_again_goes_on_with_the_rows_of_the_former(
    world: KeyedWorld,
) -> None:
    put(world, 1, 2, 3, 1)
    world.run()
    world.delete_topic("orders")
    world.ground.create(world.ground.topic("orders"), 1)
    put(world, 1)
    gone(world, 2)
    life = world.run(accept=["topic"])

    assert {} == life.parked
    assert {1: 5, 3: 3} == values(world)


class TestKeysOfSeveralPartitions:
    @pytest.fixture
    def world(self) -> KeyedWorld:
        world = KeyedWorld(MemoryGround(), partitions=2)
        put(world, 1, 2)
        put(world, 1, partition=1)
        return world

    def test_the_last_partition_counts_and_it_is_reported(self, world: KeyedWorld) -> None:
        life = world.run()

        assert {1: 3, 2: 2} == values(world)
        assert [(1, 0)] == [(e.keys, e.rows) for e in life.of(KeysAcrossPartitions)]

    def test_they_stop_a_table_that_says_so(self, world: KeyedWorld) -> None:
        life = world.run(stop_across_partitions=STOPS)
        assert {ORDERS: "P489"} == life.parked
        assert [] == world.rows()
        assert {ORDERS: "P489"} == world.run(stop_across_partitions=STOPS).parked

        world.run()
        assert {1: 3, 2: 2} == values(world)
        assert [] == world.breaks()

    def test_a_change_of_another_partition_than_its_row_stops_it_too(self) -> None:
        world = KeyedWorld(MemoryGround(), partitions=2)
        put(world, 1, 2)
        world.run(stop_across_partitions=STOPS)
        put(world, 2)
        put(world, 1, partition=1)

        assert {ORDERS: "P489"} == world.run(stop_across_partitions=STOPS).parked
        assert {1: 1, 2: 2} == values(world)

        world.run()
        assert {1: 4, 2: 3} == values(world)
        assert [] == world.breaks()

    def test_a_table_that_stops_keeps_nothing_from_others(self) -> None:
        strict, lenient = f"{ORDERS}_strict", f"{ORDERS}_lenient"
        world = KeyedWorld(MemoryGround(), partitions=2, routes={"orders": (strict, lenient)})
        put(world, 1)
        world.run()
        put(world, 1, partition=1)
        life = world.run(stop_across_partitions=frozenset({strict}))

        assert {strict: "P489"} == life.parked
        found = [world.ground.warehouse.rows(catalog_name(name)) for name in (strict, lenient)]
        assert [[1], [2]] == [[row["v"] for row in rows] for rows in found]

    def test_rows_of_before_the_table_became_keyed_stop_nothing(self) -> None:
        world = KeyedWorld(MemoryGround(), partitions=2)
        world.change_rules("append")
        put(world, 1, 2)
        world.run()
        world.change_rules("keyed", keyed=KEYED)
        put(world, 1, partition=1)

        assert {} == world.run(stop_across_partitions=STOPS).parked
        put(world, 2, partition=1)
        assert {} == world.run(stop_across_partitions=STOPS).parked
        assert {1: 3, 2: 4} == values(world)


class TestATruncate:
    WIPES = replace(KEYED, operations={**KEYED.operations, "wipe": "truncate"})

    @pytest.fixture
    def world(self) -> KeyedWorld:
        """Return a world with changes of three keys before a truncate, and one after it."""
        world = KeyedWorld(MemoryGround())
        world.change_rules("wipes", keyed=self.WIPES)
        put(world, 1, 2)
        put(world, 1, 3)
        world.change("orders", 0, 0, "wipe")
        put(world, 4)
        return world

    def test_parks_the_table_after_what_lies_before_it(self, world: KeyedWorld) -> None:
        for _ in range(2):
            life = world.run()
            assert {ORDERS: "P488"} == life.parked
            assert 4 == life.ended.parked[ORDERS].exit_code
            assert "orders[0] offset 4" in life.ended.parked[ORDERS].message
            assert {1: 3, 2: 2, 3: 4} == values(world)

        world.change_rules("ignores", keyed=replace(self.WIPES, ignores_truncates=True))
        assert {} == world.run().parked
        assert {1: 3, 2: 2, 3: 4, 4: 6} == values(world)

    def test_is_found_in_whatever_slice(self, world: KeyedWorld) -> None:
        world.change("orders", 0, 0, "wipe")
        with small_slices():
            assert {ORDERS: "P488"} == world.run().parked
        assert {1: 3, 2: 2, 3: 4} == values(world)

    def test_keeps_nothing_from_other_tables(self) -> None:
        last, every = f"{ORDERS}_last", f"{ORDERS}_every"
        world = KeyedWorld(MemoryGround(), routes={"orders": (last, every)})
        world.appended = {every}
        world.change_rules("wipes", keyed=self.WIPES)
        put(world, 1, 2)
        world.change("orders", 0, 0, "wipe")
        put(world, 3)
        life = world.run()

        assert {last: "P488"} == life.parked
        assert (2, 4) == (len(world.rows(last)), len(world.rows(every)))

    def test_lets_a_run_of_one_epoch_land_what_lies_before_it(self, world: KeyedWorld) -> None:
        assert {} == world.life().run("once").parked
        assert {1: 3, 2: 2, 3: 4} == values(world)
        assert {ORDERS: "P488"} == world.life().run("once").parked


class TestATableThatWasAppendedTo:
    @pytest.fixture
    def world(self) -> World:
        """Return a world whose table has rows of three keys; more has been sent since."""
        world = KeyedWorld(MemoryGround())
        world.change_rules("append")
        put(world, 1, 2, 3)
        world.run()
        return world

    def test_it_is_keyed_from_then_on(self, world: KeyedWorld) -> None:
        world.change_rules("keyed", keyed=KEYED)
        put(world, 1)
        gone(world, 2)
        life = world.run()

        assert {} == life.parked
        assert {1: 4, 3: 3} == values(world)
        assert 2 == len(world.rows())
        landed = world.landed()
        assert landed.keyed is not None

    def test_what_was_prepared_by_the_former_rules_is_appended_first(
        self, world: KeyedWorld
    ) -> None:
        put(world, 4, 4)
        world.crash_at(CrashPoint.PREPARE_AFTER)
        world.change_rules("keyed", keyed=KEYED)
        put(world, 4)
        gone(world, 1)
        world.run()

        assert {2: 2, 3: 3, 4: 6} == values(world)
        assert 3 == len(world.rows())

    def test_an_old_store_with_what_was_appended_long_ago_holds_nothing_up(
        self, world: KeyedWorld
    ) -> None:
        put(world, 4)
        world.crash_at(CrashPoint.PREPARE_AFTER)
        saved = world.ground.save_store("here")
        world.run()
        world.change_rules("keyed", keyed=KEYED)
        gone(world, 1)
        world.run()
        world.ground.restore_store("here", saved)
        put(world, 2)
        life = world.run()

        assert {} == life.parked
        assert {2: 6, 3: 3, 4: 4} == values(world)
        assert [] == world.pending()

    def test_tables_that_are_apart_are_brought_level_by_the_former_rules(self) -> None:
        first, second = f"{ORDERS}_1", f"{ORDERS}_2"
        world = KeyedWorld(MemoryGround(), routes={"orders": (first, second)})
        world.change_rules("append")
        put(world, 1, 2)
        world.run()
        world.faults.take_away(catalog_name(second))
        put(world, 1)
        world.run()
        world.faults.give_back(catalog_name(second))
        world.change_rules("keyed", keyed=KEYED)
        gone(world, 2)
        world.run()

        for name in (first, second):
            rows = world.ground.warehouse.rows(catalog_name(name))
            assert [(1, 1), (1, 3)] == sorted((row["n"], row["v"]) for row in rows)
        jobs = [
            job_from_json(text) for life in (world.run(),) for each in life.jobs for text in each
        ]
        assert [] == jobs


class TestRepair:
    def test_replay_and_load_are_refused_by_name(self, world: KeyedWorld) -> None:
        put(world, 1, 1)
        world.run()

        def replay(held):
            progress = held.settle_pending(ORDERS)
            listing = held.environment.log.partitions()
            return replaying.plan_replay(progress, None, held.environment.log.bounds(listing))

        def load(held):
            return plan_load(held.settle_pending(ORDERS), [], {})

        for act, code in ((replay, "P474"), (load, "P275")):
            life = world.life().change(act)
            assert code == life.code
            assert "penstock seek" in life.error.hint

    def test_a_record_that_loses_to_a_later_change_can_be_given_up(self, world: KeyedWorld) -> None:
        put(world, 1)
        world.run()
        world.change("orders", 0, 1, "put", colour="red")
        put(world, 1)
        world.run()
        assert 1 == len(world.rejects())
        world.change_rules("later", columns="drop_value", keyed=KEYED)

        life = world.life().close(lambda closer: closer.retry(Selection()), ORDERS)
        assert {"loses": 1} == life.changed.withheld
        assert {1: 3} == values(world)
        assert 1 == world.life().close(lambda closer: closer.drop(Selection()), ORDERS).changed

    def test_a_table_that_is_put_back_is_the_same_in_the_end(self, world: KeyedWorld) -> None:
        put(world, 1, 2)
        world.run()
        gone(world, 1)
        put(world, 2, 3)
        world.run()
        before = values(world)
        world.life().change(lambda held: sought(held, 1))
        assert {0: 1} == world.offsets()
        assert before == values(world)
        world.run()

        assert before == values(world)
        assert [] == world.breaks()

    def test_records_of_a_log_that_was_cut_off_replace_rows_of_those_it_lost(
        self, world: KeyedWorld
    ) -> None:
        put(world, 1, 2, 3, 1, 2, 3)
        world.run()
        world.ground.cluster.elect_leader("orders", 0, truncate_to=2)
        assert {ORDERS: "P253"} == world.run().parked
        world.life().change(lambda held: sought(held, 2))
        put(world, 3, 1)
        gone(world, 2)
        world.run()

        assert {3: 7, 1: 8} == values(world)
        landed = world.landed()
        assert landed.keyed is not None
        assert not landed.keyed.compares_offsets

    def test_a_table_that_is_put_back_is_what_the_rules_of_now_make(
        self, world: KeyedWorld
    ) -> None:
        put(world, 1, 2, 1)
        world.run()
        world.change_rules("reversed", keyed=replace(KEYED, operations=REVERSED))
        world.life(accept=["rules"]).change(lambda held: sought(held, 1))
        world.run(accept=["rules"])

        assert {} == values(world)

    def test_a_table_that_was_rolled_back_lands_what_it_lost(self, world: KeyedWorld) -> None:
        put(world, 1, 2)
        world.run()
        (first,) = [each.snapshot for each in commits_of(world)]
        gone(world, 1)
        put(world, 2, 3)
        world.run()
        world.ground.roll_back(NAME, first)
        assert {ORDERS: "P455"} == world.run().parked
        world.life().change(sought)
        world.run()

        assert {2: 4, 3: 5} == values(world)
        assert [] == world.breaks()


def sought(held, offset: int | None = None) -> None:
    wanted = {} if offset is None else {("orders", 0): offset}
    again = offset is not None
    planned = seeking.plan_seek(held.settings, held.environment, ORDERS, wanted, reapply=again)
    seeking.commit_seek(held, planned)


def commits_of(world: World):
    return world.table().history(Chain(PIPELINE, ORDERS)).commits


class TestAnotherPipelineInTheSameTable:
    """A row that it appends would stand beside the one of its key."""

    def test_one_that_has_appended_waits_once_the_table_is_keyed(self, world: KeyedWorld) -> None:
        world.appended = {ORDERS}
        put(world, 1, 2)
        world.run()
        world.appended = set()
        put(world, 1)
        assert {} == world.run(pipeline="other").parked
        rows = world.rows()
        world.appended = {ORDERS}
        life = world.run()

        assert {ORDERS: "P464"} == life.parked
        assert life.ended is not None
        assert "another name" in life.ended.parked[ORDERS].hint
        assert rows == world.rows()

    @pytest.mark.parametrize("keys", [(), ("v",)])
    def test_a_prepared_commit_waits_where_the_table_became_keyed_meanwhile(
        self, world: KeyedWorld, keys: tuple[str, ...]
    ) -> None:
        def become_keyed() -> None:
            world.appended, world.rulebook[RULES] = set(), {"keyed": KEYED}
            assert {} == world.run(pipeline="other").parked

        world.appended = {ORDERS}
        put(world, 1, 2)
        world.run()
        if keys:
            world.appended, world.rulebook[RULES] = set(), {"keyed": replace(KEYED, keys=keys)}
        put(world, 1)
        life = world.life().at(CrashPoint.PREPARE_AFTER, become_keyed).run()

        assert {ORDERS: "P464"} == life.parked
        assert {1: 3, 2: 2} == values(world)
        assert 2 == len(world.rows())

        assert {} == world.run().parked  # by the keys of the other pipeline
        assert {1: 3, 2: 2} == values(world)
        assert [] == world.breaks()
