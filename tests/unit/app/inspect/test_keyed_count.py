"""`penstock audit --count` of keyed tables: planted faults are found, and what it cannot know is no
break.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.keyed import KEYED, KeyedWorld, gone, put
from tests.story.world import ORDERS, PIPELINE, SOURCE
from tests.unit.app.inspect.test_audit import audited, shown, sums

from penstock.app.assembly.process import SystemClock
from penstock.app.inspect import keys_audit
from penstock.app.inspect.keyed_count import fold
from penstock.app.inspect.row_count import RowCount
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.repair import seek as seeking
from penstock.rows.keyed import digest
from penstock.rows.route.filters import RecordFilter, SqlExpression

NAME = catalog_name(ORDERS)


@pytest.fixture
def world() -> KeyedWorld:
    return KeyedWorld(MemoryGround())


def plant(world: KeyedWorld, key: int | None, offset: int | None, **more: Any) -> None:
    """Append a row as another writer, as if it were ours."""
    columns = dict.fromkeys(
        each.name for each in world.table().state(Chain(PIPELINE, ORDERS)).schema.fields
    )
    source = {SOURCE["topic"]: "orders", SOURCE["partition"]: 0, SOURCE["offset"]: offset}
    row = {**columns, **source, "n": key, **more}
    world.ground.warehouse.foreign_append(NAME, [row])


def remove(world: KeyedWorld, key: int) -> None:
    world.ground.warehouse.foreign_delete(NAME, lambda row: row["n"] == key)


def counted(world: KeyedWorld) -> RowCount:
    found = audited(world)
    assert found.problem is None, found.problem
    assert found.row_count is not None
    return found.row_count


def broken(world: KeyedWorld) -> dict[str, str]:
    """Return the messages of breaks by kind."""
    breaks = audited(world).breaks
    assert len({each.kind for each in breaks}) == len(breaks), breaks
    return {each.kind: each.message for each in breaks}


class TestAWholeTable:
    def test_it_is_as_its_changes_say(self, world: KeyedWorld, capsys) -> None:
        put(world, 1, 2, 1, 3)
        gone(world, 2)
        world.run()
        put(world, 3, 4)
        world.send_raw("orders", b"bad", None)
        world.run()
        found = audited(world)

        assert () == found.breaks
        assert (9, 3, 1, 1, 0) == sums(found)
        assert (4, 4) == (found.row_count.keys, found.row_count.superseded)
        text = shown(found, capsys)
        assert (
            "9 records in Kafka = 3 in the table + 4 replaced or deleted by later ones + "
            "1 in quarantine + 1 filtered\n"
        ) in text
        assert "each of 4 keys that Kafka still has a change of has the row of its last" in text

    def test_nothing_is_read_beyond_the_ledger(self, world: KeyedWorld) -> None:
        put(world, 1, 2)
        world.run()
        gone(world, 1)

        assert {} == broken(world)
        assert 2 == counted(world).records

    def test_keys_are_netted_as_they_come(self, world: KeyedWorld, monkeypatch) -> None:
        sizes = []
        net = fold.net_by_lane

        def noted(changes, *columns):
            sizes.append(len(changes.offset))
            return net(changes, *columns)

        monkeypatch.setattr(fold, "NETTED_AT_LEAST", 8)
        monkeypatch.setattr(fold, "net_by_lane", noted)
        for _ in range(30):
            put(world, 1, 2, 3, 4)
            world.run()
        reader = world.ground.open_reader(world.topics, SystemClock())

        class Small:
            def read(self, at, covered, **given):
                one = type(covered)(covered.start, covered.start + 4)
                yield from reader.read(at, one, **given)

            def close(self) -> None:
                reader.close()

        found = audited(world, reader=Small())
        assert () == found.breaks
        assert 120 == found.row_count.records
        assert len(sizes) > 10
        assert max(sizes) <= 12


class TestPlantedFaults:
    @pytest.fixture
    def world(self, world: KeyedWorld) -> KeyedWorld:
        """Return a world with the rows 1: 3, 3: 4, and without 2; a number is a record's offset."""
        put(world, 1, 2, 3, 1, 3)
        gone(world, 2)
        world.run()
        assert {} == broken(world)
        return world

    def test_a_lost_key(self, world: KeyedWorld, capsys) -> None:
        remove(world, 1)

        found = {"lost": "orders[0]: keys without the row of their last change: 1, at 3"}
        assert found == broken(world)
        text = shown(audited(world), capsys)
        assert f"penstock seek --reapply {ORDERS} orders:0:3" in text
        assert "replay" not in text

    def test_a_stale_row(self, world: KeyedWorld) -> None:
        remove(world, 1)
        plant(world, 1, 0)

        found = "orders[0]: keys with the row of an earlier change: 1, at 3 (found: 0)"
        assert {"stale": found} == broken(world)

    def test_a_resurrected_key(self, world: KeyedWorld) -> None:
        plant(world, 2, 1)

        found = "orders[0]: keys with a row after their delete: 1, at 5 (found: 1)"
        assert {"resurrected": found} == broken(world)

    def test_a_doubled_key(self, world: KeyedWorld) -> None:
        plant(world, 3, 4)

        found = "orders[0]: keys with several rows: 1, at 4 (found: 4, 4)"
        assert {"doubled": found} == broken(world)

    def test_a_row_of_no_record_of_its_key(self, world: KeyedWorld) -> None:
        plant(world, 9, 3)

        assert {"foreign": "orders[0]: rows of no change of their key: 1, at 3"} == broken(world)

    def test_a_row_of_a_record_that_has_not_landed(self, world: KeyedWorld) -> None:
        plant(world, 9, 100)

        assert {"foreign": "orders[0]: rows of no change of their key: 1, at 100"} == broken(world)

    def test_another_s_row_in_the_place_of_a_key_s(self, world: KeyedWorld) -> None:
        remove(world, 1)
        plant(world, 1, None)

        found = (
            "orders[0]: keys with a row of no change of theirs: 1, at 3 (found: another writer's)"
        )
        assert {"foreign": found} == broken(world)

    def test_a_row_in_quarantine_as_well_is_of_no_change(self, world: KeyedWorld) -> None:
        world.send_raw("orders", b"bad")
        world.run()
        plant(world, 9, 6)

        assert ["foreign"] == [*broken(world)]

    def test_many_are_counted_and_some_are_named(self, world: KeyedWorld) -> None:
        put(world, *range(10, 30))
        world.run()
        for key in range(10, 30):
            remove(world, key)

        (text,) = broken(world).values()
        assert text.endswith(": 20, at 6, 7, 8, 9, 10 and 15 more")

    @pytest.mark.parametrize("kind", ["lost", "stale", "resurrected", "doubled"])
    def test_the_seek_that_it_names_mends_it(self, world: KeyedWorld, kind: str) -> None:
        if kind in {"lost", "stale"}:
            remove(world, 1)
        where = {"stale": (1, 0), "resurrected": (2, 1), "doubled": (3, 4)}
        if kind in where:
            plant(world, *where[kind])
        (place,) = counted(world).applied_again
        offset = int(place.rpartition(":")[2])
        world.life().change(lambda held: sought(held, offset))
        world.run()

        assert {} == broken(world)
        assert [] == world.breaks()


def sought(held, offset: int) -> None:
    wanted = {("orders", 0): offset}
    planned = seeking.plan_seek(held.settings, held.environment, ORDERS, wanted, reapply=True)
    seeking.commit_seek(held, planned)


class TestWhatIsNotCompared:
    def test_rows_of_other_writers_are_left_alone(self, world: KeyedWorld) -> None:
        put(world, 1)
        world.run()
        plant(world, 9, None)
        plant(world, None, None)

        found = counted(world)
        assert () == found.breaks
        assert (3, 2) == (found.rows, found.unchecked)
        assert ("1 row of no partition that this table has read", "1 row with null in the key") == (
            found.not_compared
        )

    def test_keys_of_two_partitions_have_one_of_their_last_rows(self) -> None:
        world = KeyedWorld(MemoryGround(), partitions=2)
        put(world, 1, 1, 2)
        put(world, 1, partition=1)
        world.run()
        put(world, 1)
        world.run()

        found = counted(world)
        assert () == found.breaks
        (reason,) = found.not_compared
        assert reason.startswith("1 key changed in several partitions")

        remove(world, 1)
        assert ["lost"] == [*broken(world)]
        plant(world, 1, 0)
        assert ["stale"] == [*broken(world)]
        gone(world, 1, partition=1)
        world.run()
        assert {} == broken(world)
        plant(world, 1, 0)
        assert ["stale"] == [*broken(world)]

    def test_rows_of_before_the_log_are_unchecked(self, world: KeyedWorld) -> None:
        put(world, 1, 2, 3, 1)
        gone(world, 3)
        world.run()
        world.delete_before("orders", 0, 3)

        found = counted(world)
        assert () == found.breaks
        assert (2, 2, 1, 2) == (found.records, found.rows, found.unchecked, found.keys)
        plant(world, 2, 1)
        assert ["doubled"] == [*broken(world)]

    def test_compacted_records_are_missed_by_nobody(self, world: KeyedWorld) -> None:
        put(world, 1, 2, 1, 4)
        gone(world, 2)
        world.run()
        world.ground.cluster.compact("orders", 0, [0, 1, 3])

        found = counted(world)
        assert () == found.breaks
        assert (2, 1) == (found.rows, found.unchecked)
        assert ("1 row at offsets that Kafka has no record at any more",) == found.not_compared

    def test_a_topic_that_is_gone(self, world: KeyedWorld) -> None:
        put(world, 1, 2)
        world.run()
        world.routes = {"orders": (ORDERS,), "others": (ORDERS,)}
        world.ground.create("others", 1)
        world.delete_topic("orders")
        world.routes = {"others": (ORDERS,)}

        found = counted(world)
        assert () == found.breaks
        assert 1 == found.partitions_not_compared
        assert "orders[0]: Kafka no longer has this topic" in found.not_compared
        plant(world, 2, 1)
        assert ["doubled"] == [*broken(world)]

    def test_a_topic_that_was_made_again(self, world: KeyedWorld) -> None:
        put(world, 1, 2, 3)
        world.run()
        world.delete_topic("orders")
        world.ground.create("orders", 1)
        put(world, 1)
        world.run()
        assert {} == world.run(accept=("topic",)).parked

        found = counted(world)
        assert () == found.breaks
        assert (3, 3, 1) == (found.rows, found.unchecked, found.partitions_not_compared)

    def test_a_table_that_was_put_back(self, world: KeyedWorld) -> None:
        put(world, 1, 2, 3, 1)
        gone(world, 2)
        put(world, 4)
        world.run()
        world.life().change(lambda held: sought(held, 2))

        found = counted(world)
        assert () == found.breaks
        (reason,) = found.not_compared
        assert reason.startswith("2 keys that change again after the ledger's positions")
        world.run()
        assert () == counted(world).not_compared
        assert {} == broken(world)
        remove(world, 4)
        assert ["lost"] == [*broken(world)]

    def test_what_the_rules_of_now_cannot_convert(self, world: KeyedWorld) -> None:
        put(world, 1, 2)
        world.run()
        world.change_rules("other", keyed=replace(KEYED, operations={"gone": "delete"}))
        gone(world, 1)
        world.run()

        found = counted(world)
        assert () == found.breaks
        assert (1, 1) == (found.rows, found.unchecked)
        (reason,) = found.not_compared
        assert reason.startswith("2 records that the rules of now refuse")
        assert reason.endswith("are not in quarantine")

    def test_a_key_that_may_have_changed_by_what_cannot_be_converted(
        self, world: KeyedWorld
    ) -> None:
        put(world, 1, 2)
        world.change("orders", 0, 1, "also gone")
        both = {**KEYED.operations, "also gone": "delete"}
        world.change_rules("both", keyed=replace(KEYED, operations=both))
        world.run()
        world.change_rules("one", keyed=KEYED)

        found = counted(world)
        assert () == found.breaks
        assert "1 key that may have changed by such records" == found.not_compared[-1]

    def test_rows_of_records_that_the_rules_of_now_leave_out(self, world: KeyedWorld) -> None:
        put(world, 1, 1, 2)
        world.change("orders", 0, 1, "put", kind="a")
        world.run()
        declared = Struct((Field("kind", Kind.STRING),))
        only = SqlExpression("kind IS NULL", declared, "tables[0].where")
        world.gates[ORDERS] = RecordFilter(where=only)
        assert () == counted(world).breaks
        only = SqlExpression("kind IS NOT NULL", declared, "tables[0].where")
        world.gates[ORDERS] = RecordFilter(where=only)
        found = counted(world)
        assert () == found.breaks
        assert "1 row of records that the rules of now leave out" in found.not_compared


class TestATableThatWasAppendedTo:
    @pytest.fixture
    def world(self) -> KeyedWorld:
        world = KeyedWorld(MemoryGround())
        world.change_rules("append")
        put(world, 1, 1, 2, 2, 3)
        gone(world, 3)
        world.run()
        world.change_rules("keyed", keyed=KEYED)
        return world

    def test_its_rows_are_not_compared(self, world: KeyedWorld) -> None:
        found = counted(world)
        assert () == found.breaks
        assert (6, 6, 0) == (found.rows, found.unchecked, found.keys)

    def test_keys_are_compared_from_their_next_change_on(self, world: KeyedWorld) -> None:
        put(world, 1)
        world.run()

        found = counted(world)
        assert () == found.breaks
        assert (5, 4, 1) == (found.rows, found.unchecked, found.keys)
        for _ in range(3):
            world.ground.expire(NAME)
            assert {} == broken(world)
        remove(world, 1)
        plant(world, 1, 0)
        assert ["stale"] == [*broken(world)]

    def test_all_keys_are_compared_once_it_was_put_back_to_its_beginning(
        self, world: KeyedWorld
    ) -> None:
        put(world, 1)
        world.run()
        world.life().change(lambda held: sought(held, 0))
        world.run()

        found = counted(world)
        assert () == found.breaks
        assert (2, 0, 3) == (found.rows, found.unchecked, found.keys)

    def test_a_rule_that_appends_again_is_refused(self, world: KeyedWorld) -> None:
        put(world, 1)
        world.run()
        world.change_rules("append again")

        found = audited(world)
        assert isinstance(found.problem, DecisionNeededError)
        assert "P464" == found.problem.code


class TestTheRowsOfEachKey:
    @pytest.mark.parametrize("at_once", [100, 2])
    def test_several_of_a_key_are_counted_however_many_are_read_at_once(
        self, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        monkeypatch.setattr(keys_audit, "ROWS_MAX", at_once)
        world = KeyedWorld(MemoryGround())
        world.change_rules("append")
        put(world, 1, 1, 1, 2, 3, 3, 4)
        world.send_raw("orders", b'{"op": "put", "v": 9}')
        world.run()
        table = world.table()
        found = keys_audit.keys_of(table, table.state(Chain(PIPELINE, ORDERS)), ("n",))

        assert (8, 1, 2, 3) == (found.rows, found.keyless, found.repeated, found.surplus)
        assert {('{"n": 1}', 3), ('{"n": 3}', 2)} == {(e.key, e.rows) for e in found.examples}
        assert any(
            "2 keys with several rows, 3 too many" in line for line in keys_audit.said(found)
        )

    def test_keys_that_are_multiples_are_shared_out_as_others_are(
        self, world: KeyedWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = []

        def grouped(digests: pa.Array) -> Any:
            held.append(len(digests))
            return digest.grouped(digests)

        monkeypatch.setattr(keys_audit, "ROWS_MAX", 25)
        monkeypatch.setattr(keys_audit, "grouped", grouped)
        put(world, *range(0, 4096 * 200, 4096))
        world.run()
        table = world.table()
        found = keys_audit.keys_of(table, table.state(Chain(PIPELINE, ORDERS)), ("n",))

        assert (200, 8, 200) == (found.rows, len(held), sum(held))
        assert max(held) < 50

    def test_a_keyed_table_has_one(self, world: KeyedWorld) -> None:
        put(world, 1, 1, 2)
        gone(world, 2)
        world.run()
        table = world.table()
        found = keys_audit.keys_of(table, table.state(Chain(PIPELINE, ORDERS)), ("n",))

        assert (1, 0, 0) == (found.rows, found.keyless, found.repeated)
        assert "ok: one row for each key" in keys_audit.said(found)


def test_a_table_that_began_at_the_end_is_compared_from_there() -> None:
    world = KeyedWorld(MemoryGround(), start="latest")
    put(world, 1, 2)
    world.run()
    put(world, 2, 3)
    world.run()
    world.ground.expire(NAME)

    found = counted(world)
    assert () == found.breaks
    assert (2, 2, 0, 2) == (found.records, found.rows, found.unchecked, found.keys)
