"""A record that raises an unexpected error is refused by the tables for which it does, whatever else is
read with it; nobody else goes without it.
"""

import pytest
from tests.simulation.test_fan_out import BY_KIND, by_kind, table_of, two_tables, value
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.world import ORDERS, RULES, World, either, tables_named

from penstock.connectors.memory.tables import MemoryTable, MemoryTables
from penstock.connectors.memory.writer import MemoryWriter
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import BugError
from penstock.core.events import HousekeepingFailed, RecordsQuarantined
from penstock.landing.repair.retry import RetryResult
from penstock.landing.repair.selection import Selection
from penstock.landing.tables import schema_evolution
from penstock.landing.task import convert as converting
from penstock.landing.task import output, sink
from penstock.rows.convert import batch as conversion
from penstock.rows.route.router import Router

pytestmark = pytest.mark.usefixtures("fence")
A = table_of("a")


@pytest.fixture
def stumble(monkeypatch):
    """Let records raise at some offsets: where filters read them, where tables convert them."""

    def arm(*offsets, gates=True, tables=True):
        whole, opened, taking = converting.convert_batch, conversion.decode_values, [False]

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

        monkeypatch.setattr(converting, "convert_batch", convert)
        monkeypatch.setattr(conversion, "decode_values", open_values)

    return arm


def test_it_is_refused_alone_and_retried_like_any_other(stumble, monkeypatch):
    world = World(MemoryGround())
    stumble(123)
    world.send("orders", 300)
    life = world.run()
    assert [{"P344": 1}] == [each.codes for each in life.of(RecordsQuarantined)]
    assert [(world.ground.topic("orders"), 0, 123)] == world.rejects()
    assert 299 == len(world.rows())

    assert RetryResult({}, {"P344": 1}) == retried(world)
    monkeypatch.undo()  # a version that mends it
    assert RetryResult({ORDERS: 1}, {}) == retried(world)
    assert [] == world.breaks()


def retried(world):
    return world.life().close(lambda closer: closer.retry(Selection()), ORDERS).changed


def test_a_table_of_a_route_refuses_what_raises_there_also_when_it_is_read_alone(stumble):
    world = by_kind(MemoryGround(), commits_at_once=1)
    world.send("orders", 2, kind="a")
    world.send("orders", 1, kind="b")
    world.run()
    stumble(5, gates=False)
    world.send("orders", 4, kind="a")
    away = world.life(records_max=1)
    away.at(CrashPoint.COMMIT_BEFORE, lambda: world.faults.take_away(catalog_name(A))).run()
    world.faults.give_back(catalog_name(A))
    world.run()

    assert [5] == [offset for _, _, offset in world.rejects(A)]
    assert [] == world.rejects(BY_KIND)
    assert [] == world.breaks(fitting=either)


def test_a_route_refuses_a_record_whose_routing_raises(stumble):
    def belongs(table, held):
        return table == (BY_KIND if held.offset == 1 else A)

    world = by_kind(MemoryGround(), belongs=belongs, commits_at_once=1)
    stumble(1)
    world.send("orders", 3, kind="a")
    world.run()

    assert [1] == [offset for _, _, offset in world.rejects(BY_KIND)]
    assert [] == world.rejects(A)
    assert [] == world.breaks(fitting=either)


class Foreign(Exception):  # noqa: N818  as some clients of catalogs name theirs
    """Derives from no error that Python has."""


class TestOfFiles:
    """What a writer, the description of a file or a commit raises parks its table, alone."""

    ITEMS = f"{CATALOG}.bronze.items"

    @pytest.fixture
    def world(self):
        """Two tables of one topic."""
        world = World(MemoryGround(), routes={"orders": (ORDERS, self.ITEMS)}, commits_at_once=1)
        world.send("orders", 3)
        world.run()
        world.send("orders", 300)
        return world

    @pytest.mark.parametrize(
        ("act", "met"), [("write", "orders[0] offset 123"), ("close", "orders[0][3, 303)")]
    )
    def test_the_others_land_and_it_says_which_records_it_met(self, world, monkeypatch, act, met):
        break_files(monkeypatch, ORDERS, act, 123)
        life = world.run()

        assert {ORDERS: "P486"} == life.parked
        error = life.ended.parked[ORDERS]
        assert isinstance(error, BugError)
        assert "ValueError in" in error.message
        assert met in error.message
        assert "of a value" not in error.message
        assert 303 == len(world.rows(self.ITEMS))
        assert {0: 3} == world.offsets(ORDERS)
        monkeypatch.undo()  # a version that mends it
        assert {} == world.run().parked
        assert [] == world.breaks()

    @pytest.mark.parametrize(
        ("room", "act", "failing"),
        [
            (Router, "route", "its records cannot be sorted or converted"),
            (sink, "convert_records", "its records cannot be sorted or converted"),
            (output, "quarantine_rows", "its records cannot be sorted or converted"),
            (MemoryWriter, "write", "its files cannot be written"),
            (MemoryWriter, "close", "its files cannot be written"),
        ],
    )
    def test_it_says_what_could_not_be_done(self, monkeypatch, room, act, failing):
        world = two_tables(MemoryGround(), commits_at_once=1)
        world.send("orders", 10)
        world.run()
        world.send_raw("orders", b"no json")
        world.send("orders", 10)
        whole = getattr(room, act)

        def broken(*given, **named):
            raise ValueError("of a value")

        monkeypatch.setattr(room, act, broken)
        life = world.run()
        monkeypatch.setattr(room, act, whole)

        assert {"P486"} == {*life.parked.values()}
        messages = [error.message for error in life.ended.parked.values()]
        assert all(
            f": {failing}, by an unexpected error: ValueError in" in message for message in messages
        )
        assert {} == world.run().parked
        assert [] == world.breaks()

    def test_nothing_that_it_did_not_land_counts_as_examined(self, world, monkeypatch):
        break_files(monkeypatch, ORDERS, "close", 123)
        world.run()

        known = world.store().examined("shop", ORDERS)
        assert {3} == {offset for each in known.values() for offset in each.reached.values()}

    def test_it_is_not_tried_again_in_the_same_run(self, world, monkeypatch):
        world.alone()
        tried = break_files(monkeypatch, ORDERS, "close", 123)
        life = world.life()
        life.at_listing(300, life.stop.set).run("stopped")

        assert {ORDERS: "P486"} == life.parked
        assert 1 == len(tried)

    def test_a_table_that_is_finished_early_is_blamed_for_what_its_own_rows_raise(
        self, world, monkeypatch
    ):
        """Its writer is closed while another table is written to, for there is no room for both."""
        break_files(monkeypatch, ORDERS, "close", 123)
        life = world.run(held_bytes_max=1)

        assert {ORDERS: "P486"} == life.parked
        assert 303 == len(world.rows(self.ITEMS))

    def test_what_the_machine_refuses_is_nobodys_bug(self, world, monkeypatch):
        break_files(monkeypatch, ORDERS, "write", 123, MemoryError)
        with pytest.raises(MemoryError):
            world.run()

    def test_a_commit_that_raises_stays_pending_and_parks_its_table(self, world, monkeypatch):
        commit = MemoryTable.commit

        def broken(self, state, prepared, **given):
            assert prepared.chain.table != ORDERS, "the manifest cannot hold it"
            return commit(self, state, prepared, **given)

        monkeypatch.setattr(MemoryTable, "commit", broken)
        life = world.run()
        assert {ORDERS: "P487"} == life.parked
        assert [ORDERS] == [each.chain.table for each in world.pending()]
        assert 303 == len(world.rows(self.ITEMS))

        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    @pytest.mark.parametrize("kind", [ValueError, Foreign])
    def test_housekeeping_that_raises_does_no_harm(self, world, monkeypatch, kind):
        def broken(self):
            raise kind(self.name)

        monkeypatch.setattr(MemoryTable, "housekeep", broken)
        life = world.run()

        assert {} == life.parked
        assert [] == world.breaks()
        reported = [each.reason for each in life.of(HousekeepingFailed)]
        assert reported
        assert all(reason.startswith(f"{kind.__name__} in commit.two_phase") for reason in reported)

    def test_changed_rules_may_read_what_the_former_ones_cannot_write(self, world, monkeypatch):
        break_files(monkeypatch, ORDERS, "close", 123)
        world.run()
        world.change_rules("rules-2", tombstones="skip")
        asked = world.run()
        assert "P189" == asked.code
        assert "--accept rules" in asked.error.hint
        monkeypatch.undo()

        assert {} == world.run(accept=["rules"]).parked
        assert [] == world.breaks()


class TestOfTables:
    """What creating or opening one table raises parks that table, alone."""

    ITEMS = f"{CATALOG}.bronze.items"

    @pytest.fixture
    def world(self):
        """Two tables of two topics, neither created yet."""
        world = World(MemoryGround(), routes=tables_named("orders", "items"))
        world.send("orders", 3)
        world.send("items", 4)
        return world

    @pytest.mark.parametrize("kind", [ValueError, Foreign])
    @pytest.mark.parametrize(
        ("act", "failing"), [("create", "it cannot be created"), ("load", "it cannot be opened")]
    )
    def test_the_others_land_and_it_comes_back_with_a_version_that_mends_it(
        self, world, monkeypatch, act, failing, kind
    ):
        break_catalog(monkeypatch, ORDERS, act, kind)
        life = world.run()

        assert {ORDERS: "P487"} == life.parked
        error = life.ended.parked[ORDERS]
        assert f"{ORDERS}: {failing}, by an unexpected error: {kind.__name__} in" in error.message
        assert "of a value" not in error.message
        assert 4 == len(world.rows(self.ITEMS))
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    def test_a_table_that_was_created_and_cannot_be_read_is_parked(self, world, monkeypatch):
        state = MemoryTable.state

        def broken(self, chain):
            if chain.table == ORDERS:
                raise Foreign(chain.table)
            return state(self, chain)

        monkeypatch.setattr(MemoryTable, "state", broken)
        assert {ORDERS: "P487"} == world.run().parked
        assert 4 == len(world.rows(self.ITEMS))
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    def test_a_schema_that_cannot_be_changed_parks_its_table(self, world, monkeypatch):
        def broken(*_given):
            raise Foreign(ORDERS)

        world.rulebook[RULES] = {"columns": "evolve"}
        world.run()
        world.send("orders", 2, more=1)
        world.send("items", 2)
        monkeypatch.setattr(schema_evolution, "evolve", broken)
        assert {ORDERS: "P487"} == world.run().parked
        assert 6 == len(world.rows(self.ITEMS))
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    def test_a_table_that_records_ask_for_parks_its_route(self, monkeypatch):
        world = by_kind(MemoryGround())
        world.send("orders", 2, kind="a")
        break_catalog(monkeypatch, A, "create", Foreign)
        assert {BY_KIND: "P487"} == world.run().parked
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    @pytest.mark.parametrize("kind", [ValueError, Foreign])
    def test_a_table_of_a_route_that_cannot_be_opened_parks_its_route(self, monkeypatch, kind):
        world = with_two_kinds()
        break_catalog(monkeypatch, A, "load", kind)
        life = world.run()
        assert {BY_KIND: "P487"} == life.parked
        message = life.ended.parked[BY_KIND].message
        why = f"by an unexpected error: {kind.__name__} in "
        assert message.startswith(f"{A}: it cannot be opened, {why}")
        assert 2 == len(world.rows(self.ITEMS))
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    def test_a_catalog_that_cannot_list_the_tables_of_a_route_parks_it(self, monkeypatch):
        world = with_two_kinds()

        def broken(self, namespace):
            raise Foreign(namespace)

        monkeypatch.setattr(MemoryTables, "names", broken)
        life = world.run()
        assert {BY_KIND: "P487"} == life.parked
        message = life.ended.parked[BY_KIND].message
        assert f"{BY_KIND}: its tables cannot be listed, by an unexpected error: " in message
        assert 2 == len(world.rows(self.ITEMS))
        monkeypatch.undo()
        assert {} == world.run().parked
        assert [] == world.breaks()

    @pytest.mark.parametrize("kind", [MemoryError, OSError])
    def test_what_the_machine_refuses_is_nobodys_bug(self, world, monkeypatch, kind):
        break_catalog(monkeypatch, ORDERS, "create", kind)
        with pytest.raises(kind):
            world.run()


def with_two_kinds():
    """Let a route have two tables, and another table a topic of its own; then records of all."""

    def belongs(table, held):
        kind = value(held, "kind")
        return table == (table_of(kind) if kind else TestOfTables.ITEMS)

    world = by_kind(MemoryGround(), belongs=belongs)
    world.ground.create("items", 1)
    world.routes["items"] = (TestOfTables.ITEMS,)
    world.send("orders", 1, kind="a")
    world.send("orders", 1, kind="b")
    world.run()
    world.send("orders", 1, kind="a")
    world.send("items", 2)
    return world


def break_catalog(monkeypatch, table, act, kind):
    """Let an act of the catalog on one table raise."""
    whole = getattr(MemoryTables, act)

    def broken(self, name, *given):
        if name == catalog_name(table):
            raise kind("of a value")
        return whole(self, name, *given)

    monkeypatch.setattr(MemoryTables, act, broken)


def break_files(monkeypatch, table, act, offset, kind=ValueError):
    """Let the writers of a table raise at an act once they hold some record; list the tries."""
    whole, tried = getattr(MemoryWriter, act), []

    def holds(writer, rows):
        mine = f"/{catalog_name(table)}/" in writer._path
        return mine and offset in {row.get("_kafka_offset") for row in rows}

    def broken(writer, *given):
        rows = [row for batch in given for row in batch.to_pylist()] or writer._rows
        if holds(writer, rows):
            tried.append(len(rows))
            raise kind("of a value")
        return whole(writer, *given)

    monkeypatch.setattr(MemoryWriter, act, broken)
    return tried
