"""One topic, several tables: conditions, first matches, and tables that records ask for.

Each story ends with every record in exactly the tables it is for, reported by plain Python.
"""

import json
from dataclasses import replace
from functools import partial

import pytest
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.single_thread import SeededCommits
from tests.story.world import PIPELINE, SOURCE, World

from penstock.connectors.memory.tables import MemoryTables
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.core.events import TableCreated
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.repair import replay as replaying
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.load import plan_load
from penstock.landing.repair.selection import Selection
from penstock.landing.task.message_json import job_from_json
from penstock.ports.tables import TableDefinition
from penstock.rows.decode.portions import PORTION_BYTES_MAX
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression
from penstock.testing.contracts.table_fixture import Quiet

pytestmark = pytest.mark.usefixtures("portion_bytes")
BIG, REST = f"{CATALOG}.bronze.big", f"{CATALOG}.bronze.rest"
BY_KIND = f"{CATALOG}.bronze.of_{{kind}}"
N = Struct((Field("n", Kind.LONG),))
KIND = Struct((Field("kind", Kind.STRING),))
ABOVE_5 = SqlExpression("n > 5", N, "tables[0].where")


@pytest.fixture
def ground():
    return MemoryGround()


def value(held, name):
    try:
        found = json.loads(held.value)
    except ValueError:
        return None
    return found.get(name) if isinstance(found, dict) else None


def two_tables(ground, **given):
    gates = {BIG: RecordFilter(where=ABOVE_5), REST: RecordFilter(rules_above=(ABOVE_5,))}
    # What no rule above can read, it refuses; the rules below count it as taken.

    def belongs(table, held):
        number = value(held, "n")
        in_big = number is None or number > 5
        return in_big == (table == BIG)

    return World(ground, routes={"orders": (BIG, REST)}, gates=gates, belongs=belongs, **given)


def by_kind(ground, unknown="create", belongs=None, **given):
    route = DynamicRoute(
        BY_KIND, {"kind": SqlExpression("kind", KIND, "tables[0].route.kind")}, unknown=unknown
    )
    gates = {BY_KIND: RecordFilter(route=route)}

    def asks(table, held):
        kind = value(held, "kind")
        return table == (BY_KIND if kind is None else BY_KIND.replace("{kind}", kind))

    return World(
        ground, routes={"orders": (BY_KIND,)}, gates=gates, belongs=belongs or asks, **given
    )


def table_of(kind):
    return BY_KIND.replace("{kind}", kind)


def made_by_operator(world, kind):
    columns = tuple(Field(name, Kind.STRING) for name in ("kind", SOURCE["topic"]))
    columns += (Field("n", Kind.LONG), Field(SOURCE["partition"], Kind.INT))
    columns += (Field(SOURCE["offset"], Kind.LONG),)
    definition = TableDefinition(Struct(columns))
    world.catalog().create(catalog_name(table_of(kind)), definition, ())


def test_each_record_goes_to_the_first_rule_whose_condition_holds(ground):
    world = two_tables(ground)
    world.send("orders", 10)
    world.send_raw("orders", b"no json")
    world.run()

    assert [5, 6, 7, 8, 9] == [offset for _, _, offset in world.rows(BIG)]
    assert [0, 1, 2, 3, 4] == [offset for _, _, offset in world.rows(REST)]
    assert [] == world.breaks()


def test_a_table_is_created_for_the_first_record_that_asks_for_it(ground):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    world.run()
    world.send("orders", 2, kind="b")
    world.send("orders", 2, kind="a")
    world.send_raw("orders", b"no json", b'{"n": 1}')
    life = world.run()

    assert [table_of("b")] == [event.table for event in life.of(TableCreated)]
    assert 5 == len(world.rows(table_of("a")))
    assert 2 == len(world.rows(table_of("b")))
    assert 2 == len(world.rejects(BY_KIND))
    assert [] == world.breaks(fitting=lambda held: value(held, "kind") is not None)


def test_tables_of_a_route_are_neither_replayed_nor_loaded_nor_put_back(ground):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    world.run()

    def replay(held):
        return replaying.plan_replay(held.settle_pending(BY_KIND), {("orders", None): None}, {})

    def seek(held):
        return seeking.plan_seek(held.settings, held.environment, BY_KIND, {})

    def load(held):
        return plan_load(held.settle_pending(BY_KIND), [], {})

    for act, code in ((replay, "P474"), (load, "P275"), (seek, "P474")):
        assert code == world.life().change(act).code


def test_a_record_that_asks_for_a_table_of_another_rule_is_refused(ground):
    route = DynamicRoute(
        BY_KIND, {"kind": SqlExpression("kind", KIND, "tables[0].route.kind")}, unknown="create"
    )
    world = World(
        ground,
        routes={"orders": (BY_KIND,), "items": (REST,)},
        gates={BY_KIND: RecordFilter(route=route)},
    )
    world.send("items", 1)
    world.run()

    def join(held):
        held.tables.add_route_table(held.tables.progress[BY_KIND], REST)

    assert "P466" == world.life().change(join).code


def test_w8_a_table_first_asked_for_long_after_the_pipeline_began_begins_there(ground):
    world = by_kind(ground)
    for _ in range(20):
        world.send("orders", 5, kind="a")
        world.run()
    world.send("orders", 3, kind="late")
    life = world.run()

    assert 3 == len(world.rows(table_of("late")))
    assert 10 >= life.records_read
    assert [] == world.breaks()
    late = world.table(table_of("late")).history(Chain(PIPELINE, table_of("late")))
    assert 100 == late.commits[0].progress[0][3]


def test_a_route_and_its_tables_go_on_together_however_much_there_is_to_read(ground):
    """Only what is read before a table is there is read again; it was all that came later."""
    world = by_kind(ground)
    world.send("orders", 50, kind="a")
    world.send("orders", 50, kind="b")
    life = world.life(every_seconds=0.0, records_max=10).run()

    assert 100 + 50 >= life.records_read
    assert 50 == len(world.rows(table_of("a"))) == len(world.rows(table_of("b")))
    assert [] == world.breaks()


@pytest.mark.parametrize(
    "crash",
    [
        "create.before",
        "create.after",
        "prepare.before",
        "prepare.after",
        "commit.before",
        "commit.after",
    ],
)
def test_w8_a_crash_while_a_table_is_created_forgets_none_of_its_records(ground, crash):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    world.run()
    world.send("orders", 3, kind="b")
    world.send("orders", 1, kind="a")
    world.crash_at(crash)
    world.hosts.clear()  # and the store is lost
    world.sleep()
    world.run(host="another")

    assert 3 == len(world.rows(table_of("b")))
    assert 4 == len(world.rows(table_of("a")))
    assert [] == world.breaks()


def test_a_table_of_a_route_that_trails_is_found_again_without_another_record(ground):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    world.crash_at("prepare.after")
    world.hosts.clear()
    world.sleep()
    world.run(host="another")

    assert 3 == len(world.rows(table_of("a")))
    assert [] == world.breaks()


def test_beyond_the_cap_of_tables_records_are_quarantined_and_the_tables_there_go_on(ground):
    world = by_kind(ground, tables_max=3)
    for kind in "abcde":
        world.send("orders", 2, kind=kind)
    world.run()
    world.send("orders", 1, kind="a")
    world.run()

    landed = {kind: len(world.rows(table_of(kind))) for kind in "abcde"}
    assert {"a": 3, "b": 2, "c": 2, "d": 0, "e": 0} == landed
    assert [6, 7, 8, 9] == [offset for _, _, offset in world.rejects(BY_KIND)]


def test_the_cap_of_tables_is_that_of_all_routes_together(ground):
    kind = {"kind": SqlExpression("kind", KIND, "tables[0].route.kind")}
    other = BY_KIND.replace("of_", "also_")
    gates = {
        each: RecordFilter(route=DynamicRoute(each, kind, unknown="create"))
        for each in (BY_KIND, other)
    }
    world = World(ground, routes={"orders": (BY_KIND, other)}, gates=gates, tables_max=3)
    for each in "ab":
        world.send("orders", 1, kind=each)
    life = world.run()

    made = [each.table for each in life.of(TableCreated) if ".bronze." in each.table]
    assert 3 == len(made)


def test_without_leave_to_create_an_unknown_table_s_records_are_quarantined(ground):
    world = by_kind(ground, unknown="quarantine")
    world.send("orders", 2, kind="a")
    world.run()

    assert 2 == len(world.rejects(BY_KIND))


def test_a_table_that_a_person_creates_later_gets_what_comes_from_then_on(ground):
    world = by_kind(ground, unknown="quarantine")
    world.send("orders", 2, kind="a")
    world.run()
    made_by_operator(world, "a")
    world.send("orders", 3, kind="a")
    world.run()

    assert [2, 3, 4] == [offset for _, _, offset in world.rows(table_of("a"))]
    assert [0, 1] == [offset for _, _, offset in world.rejects(BY_KIND)]


def test_a_failing_route_names_the_table_and_holds_up_nobody(ground):
    world = by_kind(ground, unknown="fail")
    world.send("orders", 2, kind="a")

    assert {BY_KIND: "P465"} == world.run().parked


@pytest.mark.parametrize("portion_bytes", [PORTION_BYTES_MAX, 20_000], indirect=True)
def test_a_thousand_tables_from_one_topic_are_read_once_more_and_land_in_one_epoch(ground):
    world = by_kind(ground)
    for number in range(1000):
        world.send("orders", 1, kind=f"k{number}")
    life = world.run()

    assert 1000 == len(life.of(TableCreated)) - 1  # and the quarantine
    assert life.records_read <= 2001
    jobs = [job_from_json(text) for texts in life.jobs for text in texts]
    assert 3 >= len(jobs)
    assert {1} == {len(world.rows(table_of(f"k{number}"))) for number in range(1000)}


def test_a_table_taken_out_of_the_spec_waits_and_goes_on_when_it_is_put_back(ground):
    world = World(ground, routes={"orders": (BIG, REST)})
    world.send("orders", 4)
    world.run()
    world.routes = {"orders": (BIG,)}
    world.change_rules("without rest")
    world.send("orders", 3)
    world.run()
    assert 4 == len(world.rows(REST))

    world.routes = {"orders": (BIG, REST)}
    world.change_rules("rest again")
    world.send("orders", 2)
    world.run()

    assert [] == world.breaks()
    assert 9 == len(world.rows(REST))


def test_a_table_put_into_the_spec_later_reads_its_history_with_the_others(ground):
    world = World(ground, routes={"orders": (BIG,)})
    world.send("orders", 4)
    world.run()
    world.routes = {"orders": (BIG, REST)}
    world.change_rules("with rest")
    world.send("orders", 2)
    world.run()

    assert [] == world.breaks()
    assert 6 == len(world.rows(REST))


def test_changed_routes_count_only_from_where_all_tables_and_routes_are_level(ground):
    world = by_kind(ground, belongs=lambda *_: True)
    world.send("orders", 3, kind="a")
    world.crash_at("commit.after")
    world.send("orders", 3, kind="a")
    route = DynamicRoute(
        BY_KIND, {"kind": SqlExpression("upper(kind) || '2'", KIND, "tables[0].route.kind")}
    )
    world.gates = {BY_KIND: RecordFilter(route=replace(route, unknown="create"))}
    world.change_rules("kinds are called otherwise")
    world.sleep()
    world.run()

    assert [0, 1, 2] == [offset for _, _, offset in world.rows(table_of("a"))]
    assert [3, 4, 5] == [offset for _, _, offset in world.rows(table_of("a2"))]


class Flaky:
    """A catalog that cannot answer the first so many questions for one table."""

    def __init__(self, tables, name, times):
        self.tables, self.name, self.times = tables, name, times

    def load(self, name):
        if name == self.name and self.times:
            self.times -= 1
            raise UnavailableError(f"{name}: no answer", code="P430")
        return self.tables.load(name)

    def __getattr__(self, name):
        return getattr(self.tables, name)


def test_a_catalog_that_fails_for_one_table_makes_no_record_unknown(ground, monkeypatch):
    world = by_kind(ground, unknown="quarantine")
    for kind in "abc":
        made_by_operator(world, kind)
    world.send("orders", 2, kind="a")
    world.run()
    for kind in "abcabc":
        world.send("orders", 1, kind=kind)
    opened = ground.open_catalog
    flaky = Flaky(ground.open_catalog(Quiet()), catalog_name(table_of("b")), 2)
    monkeypatch.setattr(ground, "open_catalog", lambda _: flaky)
    world.run()
    monkeypatch.setattr(ground, "open_catalog", opened)
    world.run()

    assert [] == world.rejects(BY_KIND)
    assert [] == world.breaks()


def test_what_a_route_refused_never_lands_in_a_table_that_comes_back(ground):
    world = by_kind(ground, unknown="quarantine")
    made_by_operator(world, "a")
    world.send("orders", 2, kind="a")
    world.run()
    world.faults.take_away(catalog_name(table_of("a")))
    world.send("orders", 3, kind="a")
    world.run()
    world.faults.give_back(catalog_name(table_of("a")))
    world.send("orders", 1, kind="a")
    world.run()

    assert [2, 3, 4] == [offset for _, _, offset in world.rejects(BY_KIND)]
    assert [0, 1, 5] == [offset for _, _, offset in world.rows(table_of("a"))]


def test_k13_a_partition_that_comes_later_is_read_for_every_table_of_a_route_from_its_start(
    ground,
):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    life = world.life(every_seconds=0.0, max_epochs=4, records_max=2)

    def grow():
        ground.grow("orders", 2)
        world.send("orders", 6, kind="a", partition=1)
        world.send("orders", 3, kind="a")

    world.send("orders", 9, kind="a")
    life.at(CrashPoint.PREPARE_AFTER, grow, passing=2).run()
    world.run()

    assert [] == world.breaks()
    assert 21 == len(world.rows(table_of("a")))


def test_a_table_of_a_person_s_that_a_record_asks_for_gets_that_record(ground):
    world = by_kind(ground)
    world.send("orders", 2, kind="a")
    world.run()
    made_by_operator(world, "b")
    world.send("orders", 3, kind="b")
    world.run()

    assert [] == world.breaks()
    assert 3 == len(world.rows(table_of("b")))


def test_a_table_that_is_found_later_comes_in_with_what_is_pending_for_it(ground):
    world = by_kind(ground)
    world.send("orders", 3, kind="a")
    world.run()
    world.send("orders", 2, kind="a")
    world.crash_at("commit.before")
    name = catalog_name(table_of("a"))
    world.faults.take_away(name)

    def back():
        world.faults.give_back(name)
        world.clock.advance(31)

    world.send("orders", 1, kind="b")
    world.life().at_listing(2, back).run()

    assert [] == world.breaks()
    assert 5 == len(world.rows(table_of("a")))


def test_what_a_route_refused_lands_by_a_retry_once_its_table_is_there(ground):
    """And once, though the retry dies between the closing and the rows, or their store is lost."""
    for crash in ("", "quarantine.after:1", "commit.before:1", "commit.after:1"):
        world = by_kind(MemoryGround(), unknown="quarantine")
        made_by_operator(world, "a")
        world.send("orders", 3, kind="a")
        world.send("orders", 4, kind="b")
        world.run()
        assert 4 == len(world.rejects(BY_KIND))
        made_by_operator(world, "b")
        world.send("orders", 1, kind="b")
        world.sleep()
        world.run()

        if crash:
            assert (
                world.life(crash=crash).close(lambda each: each.retry(Selection()), BY_KIND).crashed
            )
            world.ground.lose_store("here")
        world.life().close(lambda each: each.retry(Selection()), BY_KIND)

        assert [] == world.rejects(BY_KIND), crash
        assert 3 == len(world.rows(table_of("a"))), crash
        assert sorted({*world.rows(table_of("b"))}) == world.rows(table_of("b")), crash
        assert 5 == len(world.rows(table_of("b"))), crash
        assert [] == world._broken(table_of("b")), crash


def test_a_route_that_waits_for_its_commits_does_not_read_the_same_again_meanwhile(ground):
    """A record asks for a table while refusals are under way; the table begins after these."""
    for seed in range(40):
        world = by_kind(MemoryGround())
        world.alone(seed)
        world.send("orders", 3, kind="a")
        world.run()
        world.send_raw("orders", b"bad")
        world.send("orders", 4, kind="b")
        life = world.life(records_max=1).run()

        assert [] == world.breaks()
        assert 14 >= life.records_read, (
            "5 records, 4 of them for two tables, and 5 looked at before"
        )


def test_a_route_waits_for_its_commits_though_others_are_read_meanwhile(monkeypatch):
    route = DynamicRoute(BY_KIND, {"kind": SqlExpression("kind", KIND, "x")}, unknown="create")
    routes = {"orders": (BY_KIND,), "items": (REST,)}
    world = World(MemoryGround(), routes=routes, gates={BY_KIND: RecordFilter(route=route)})
    world.alone()
    world.send("orders", 2, kind="a")
    world.send("items", 1)
    world.run()
    slow, work = [None] * 60, SeededCommits._work
    monkeypatch.setattr(SeededCommits, "_work", lambda self: slow.pop() if slow else work(self))
    world.send_raw("orders", b"bad")
    life = world.life(every_seconds=0.0, max_epochs=1000)
    life.at_listing(6, lambda: world.send("orders", 3, kind="new"))
    for listing in range(8, 60):
        life.at_listing(listing, lambda: world.send("items", 1))
    life.at_listing(60, life.stop.set).run("stopped")

    jobs = (job_from_json(text) for sent in life.jobs for text in sent)
    lanes = [lane for job in jobs for lane in job.lanes if lane.at.topic == "orders"]
    assert 1 <= sum(3 == lane.covered.start for lane in lanes) < 4
    assert {} == world.run().parked
    assert 3 == len(world.rows(table_of("new")))


def test_foreign_tables_next_to_a_route_s_are_not_read_all_the_time(ground, monkeypatch):
    world = by_kind(ground, every_seconds=0.0)
    for number in range(5):
        made_by_operator(world, f"theirs_{number}")
    world.alone()
    looked, load = [], MemoryTables.load
    monkeypatch.setattr(
        MemoryTables, "load", lambda self, name: looked.append(name) or load(self, name)
    )
    life = world.life()
    for number in range(2, 380):
        life.at_listing(number, partial(world.send, "orders", 1, kind="a"))
    life.at_listing(400, life.stop.set).run("stopped")

    assert 5 == sum("theirs" in name for name in looked)
    assert [] == world.breaks()
