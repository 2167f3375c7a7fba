"""`penstock audit --count` over worlds where all is right, and where it cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.story.backend import CATALOG, MemoryGround, catalog_name
from tests.story.world import ORDERS, SOURCE, World

from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.audit import Audit, Auditor, TableAudit
from penstock.app.inspect.row_count import RowCount
from penstock.cli.audit import print_audit
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.repair.selection import Selection
from penstock.landing.tables import opening, route_tables
from penstock.ports.log import Log, RangeReader
from penstock.ports.tables import Table, TableDefinition, TableFormat
from penstock.rows.route import sql_values
from penstock.rows.route.filters import DynamicRoute, RecordFilter, SqlExpression

BY_KIND = f"{CATALOG}.bronze.of_{{kind}}"
EMPTY = f"{CATALOG}.bronze.empty"
OF_A = f"{CATALOG}.bronze.of_a"
KIND = Struct((Field("kind", Kind.STRING),))


def audited(world: World, name: str = ORDERS, *, rows: bool = True, **parts: object) -> TableAudit:
    """Audit a table as the command does, and count its rows."""
    settings = world.settings(world.rules)
    log: Log = world.ground.open_log(world.topics)
    catalogs = {CATALOG: parts.get("catalog") or world.catalog()}
    reader: RangeReader = world.ground.open_reader(world.topics, SystemClock())
    targets, wanted, _ = opening.route_topics(settings, log.partitions())
    targets, wanted = route_tables.expand_routes(settings, catalogs, targets, wanted)
    auditor = Auditor(
        settings, log, catalogs, lambda: parts.get("reader") or reader, lambda _: None, wanted
    )
    return auditor.audit(targets[name], rows=rows)


def sums(found: TableAudit) -> tuple[int, int, int, int, int]:
    assert found.problem is None, found.problem
    assert found.row_count is not None
    of = found.row_count
    return of.records, of.rows, of.quarantined, of.filtered, of.unchecked


def test_a_table_of_an_empty_topic_beside_one_that_landed_is_not_missing() -> None:
    world = World(MemoryGround(), routes={"orders": [ORDERS], "empty": [EMPTY]})
    world.send("orders", 1)
    world.run()

    assert "nothing has landed in" in str(audited(world, EMPTY).problem)


@pytest.mark.parametrize("value", [None, b"no JSON"])
def test_a_table_that_no_record_has_brought_a_row_is_not_said_to_have_been_landed_in(
    value: bytes | None,
) -> None:
    world = World(MemoryGround())
    world.send_raw("orders", value)
    world.run()

    assert [] == world.rows()
    said = str(audited(world).problem)
    assert "no record has brought a row yet" in said
    assert "landed in it before" not in said


class Passing:
    """A catalog whose tables do something after each state that is read of them."""

    def __init__(self, catalog: TableFormat, act) -> None:
        self._catalog, self._act = catalog, act

    def __getattr__(self, name):
        return getattr(self._catalog, name)

    def load(self, name: str):
        found = self._catalog.load(name)
        return found and _Passed(found, self._act)


class _Passed:
    def __init__(self, table: Table, act) -> None:
        self._table, self._act = table, act

    def __getattr__(self, name):
        return getattr(self._table, name)

    def state(self, chain):
        found = self._table.state(chain)
        self._act()
        return found


# Next to a run.


def test_a_run_that_goes_on_with_it_breaks_nothing() -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.send_raw("orders", b"no json")
    world.run()

    def land() -> None:
        world.send("orders", 3)
        world.send_raw("orders", b"no json either")
        world.run()

    found = audited(world, catalog=Passing(world.catalog(), land))

    assert () == found.breaks
    assert (6, 5, 1, 0, 0) == sums(found)


def test_a_retry_with_it_breaks_nothing() -> None:
    world = World(MemoryGround())
    world.send("orders", 2)
    world.run()
    world.send("orders", 3, colour="red")
    world.send("orders", 1)
    world.change_rules("strict", columns="quarantine_record")
    world.run()
    refused = len(world.rejects())
    world.change_rules("lenient", columns="drop_value")
    catalog = Passing(
        world.catalog(), lambda: world.life().close(lambda c: c.retry(Selection()), ORDERS)
    )

    found = audited(world, catalog=catalog)

    assert refused == 3 == len(world.rows()) - 3
    assert () == found.breaks
    assert (6, 3, 3, 0, 0) == sums(found)
    assert (6, 6, 0, 0, 0) == sums(audited(world))


# Where it began.


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_partition_without_records_since_the_start_is_not_lost(trimmed: bool, capsys) -> None:
    world = World(MemoryGround(), partitions=2, start="latest")
    world.send("orders", 5)
    world.send("orders", 4, partition=1)
    world.run()
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    world.run()
    if trimmed:
        world.ground.expire(catalog_name(ORDERS))

    found = audited(world)

    assert () == found.breaks
    assert (5, 5, 0, 0, 0) == sums(found)
    assert found.row_count is not None
    assert trimmed == any("where it began" in each for each in found.row_count.not_compared)
    assert trimmed == ("chain: history kept for the newest " in shown(found, capsys))


def test_a_record_that_is_lost_first_after_the_start_is_reported() -> None:
    world = World(MemoryGround(), start="latest")
    world.send("orders", 5)
    world.run()
    world.send("orders", 3)
    world.run()
    warehouse = world.table()._warehouse
    contents = warehouse.get(catalog_name(ORDERS)).contents
    rows, size = warehouse._files[contents.files[0].path]
    warehouse._files[contents.files[0].path] = (rows[1:], size)

    assert ["lost"] == [each.kind for each in audited(world).breaks]


# What waits.


def shown(found: TableAudit, capsys: pytest.CaptureFixture[str]) -> str:
    print_audit(Audit((found,)))
    return capsys.readouterr().out


def test_what_a_table_has_not_read_yet_is_counted_as_waiting(capsys) -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()
    world.send("orders", 3)

    found = audited(world)

    assert () == found.breaks
    assert (5, 5, 0, 0, 0) == sums(found)
    assert 3 == found.lag_records
    text = shown(found, capsys)
    assert "  lag: 3 records of its topics in Kafka, which it has not read yet" in text
    assert "every record that it has read landed once" in text


@pytest.mark.parametrize(
    ("counted", "text"),
    [
        (RowCount(rows=1, unchecked=1), "1 row is older than Kafka's log"),
        (RowCount(rows=2, unchecked=2), "2 rows are older than Kafka's log"),
        (RowCount(rows=1, unchecked=1, keys=0), "1 row was not compared"),
        (RowCount(rows=2, unchecked=2, keys=0), "2 rows were not compared"),
    ],
)
def test_rows_that_could_not_be_checked_are_counted_in_whole_sentences(
    counted: RowCount, text: str, capsys
) -> None:
    world = World(MemoryGround())
    world.run()

    assert f"; {text}\n" in shown(replace(audited(world), row_count=counted), capsys)


def test_a_parked_and_empty_table_reports_how_many_records_wait(capsys) -> None:
    world = World(MemoryGround(), stop_above_share=0.5)
    make(world, ORDERS)
    world.run()
    world.send("orders", 10)
    world.send_raw("orders", *[b"bad"] * 150)
    assert {ORDERS: "P345"} == world.run().parked

    found = audited(world)

    assert () == found.breaks
    assert (0, 0, 0, 0, 0) == sums(found)
    assert 160 == found.lag_records
    text = shown(found, capsys)
    assert "lag: 160 records" in text
    assert "every record landed once" not in text


def test_nothing_is_reported_of_waiting_where_all_was_read(capsys) -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()

    found = audited(world)

    assert 0 == found.lag_records
    assert "lag:" not in shown(found, capsys)
    text = shown(found, capsys)
    assert "  chain: 1 commit recorded, 1 file\n" in text
    assert "+ 0 filtered\n" in text
    assert "ok: chain gapless, every record landed once" in text


def test_what_waits_in_a_partition_without_a_leader_is_not_known(capsys) -> None:
    world = World(MemoryGround(), partitions=2)
    world.send("orders", 5)
    world.run()
    world.ground.cluster.lose_leader("orders", 1)

    found = audited(world, rows=False)

    assert found.problem is None
    assert found.lag_records is None
    assert "lag: ? records" in shown(found, capsys)


def test_missing_rows_come_with_the_commands_that_bring_them_back(capsys) -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()
    stored = world.ground.warehouse.get(catalog_name(ORDERS))
    whole = stored.contents
    head = whole.snapshots[whole.head]
    emptied = replace(head, id="s-by-hand", parent=head.id, files=(), commit=None)
    stored.contents = whole.with_snapshot(emptied)

    text = shown(audited(world), capsys)
    assert "BROKEN lost" in text
    assert f"penstock seek {ORDERS}\n" in text
    assert f"penstock replay {ORDERS} orders --new-rows\n" in text

    stored.contents = whole
    assert "penstock" not in shown(audited(world), capsys)


def test_what_waits_for_a_table_that_is_not_there_is_a_number_of_its_own() -> None:
    world = World(MemoryGround())
    world.send("orders", 5)

    found = audited(world)

    assert found.problem is not None
    assert "P461" == found.problem.code
    assert 5 == found.lag_records


def test_a_table_that_exists_and_that_no_run_has_touched_is_not_broken() -> None:
    world = World(MemoryGround())
    make(world, ORDERS)
    world.send("orders", 5)

    found = audited(world)

    assert () == found.breaks
    assert found.problem is not None
    assert "P461" == found.problem.code
    assert "does not exist" not in found.problem.message
    assert "5 records of its topics wait" in found.problem.message
    assert InvalidError.exit_code == Audit((found,)).exit_code


def test_a_table_whose_ledger_was_taken_away_is_broken() -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()
    stored = world.ground.warehouse.get(catalog_name(ORDERS))
    stored.contents = replace(stored.contents, ledgers={})

    assert "ledger" in {each.kind for each in audited(world).breaks}


# Routes.


def routed() -> World:
    gate = RecordFilter(
        route=DynamicRoute(
            BY_KIND,
            {"kind": SqlExpression("kind", KIND, "tables[0].route.kind")},
            unknown="quarantine",
        )
    )
    return World(MemoryGround(), routes={"orders": (BY_KIND,)}, gates={BY_KIND: gate})


def make(world: World, name: str) -> None:
    columns = [Field(each, Kind.STRING) for each in ("kind", SOURCE["topic"])]
    columns += [Field(SOURCE["partition"], Kind.INT)]
    columns += [Field(each, Kind.LONG) for each in ("n", SOURCE["offset"])]
    world.catalog().create(catalog_name(name), TableDefinition(Struct(tuple(columns))), ())


def test_what_a_route_refused_before_its_table_was_there_is_not_lost() -> None:
    world = routed()
    world.send("orders", 3, kind="a")
    world.send("orders", 2, kind="b")
    world.send("orders", 1)
    world.run()
    make(world, OF_A)
    world.run()
    world.send("orders", 2, kind="a")
    world.run()

    found = audited(world, OF_A)
    assert () == found.breaks
    assert (8, 2, 3, 3, 0) == sums(found)

    world.life().close(lambda closer: closer.retry(Selection()), BY_KIND)
    found = audited(world, OF_A)
    assert () == found.breaks
    assert (8, 5, 0, 3, 0) == sums(found)


def test_what_a_route_was_too_slow_for_is_counted_where_its_table_refused_or_landed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, column = routed(), sql_values._column
    make(world, OF_A)

    def late(connection, sql, records, seconds):
        if 1 in records.column("_kafka_offset").to_pylist():
            raise sql_values.TimedOutError
        return column(connection, sql, records, seconds)

    world.send("orders", 3, kind="a")
    with monkeypatch.context() as patch:
        patch.setattr(sql_values, "_column", late)
        world.run()
    found = audited(world, OF_A)
    assert () == found.breaks
    assert (3, 2, 1, 0, 0) == sums(found)

    world.life().close(lambda closer: closer.retry(Selection()), OF_A)
    found = audited(world, OF_A)
    assert () == found.breaks
    assert (3, 3, 0, 0, 0) == sums(found)


# Topics that were made again, or are no more.


def test_rows_of_a_topic_that_was_made_again_cannot_be_distinguished(capsys) -> None:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    world.delete_topic("orders")
    world.ground.create(world.ground.topic("orders"), 1)
    world.send("orders", 2)
    world.run()
    assert {} == world.run(accept=("topic",)).parked

    found = audited(world)
    assert () == found.breaks
    assert found.row_count is not None
    (reported,) = found.row_count.not_compared
    assert reported.startswith("orders: the topic was created again")
    assert (0, 5, 0, 0, 5) == sums(found)
    text = shown(found, capsys)
    assert "  ok: chain gapless; rows not compared in 1 partition\n" in text
    assert "every record" not in text


# Records that Kafka gave up.


def test_records_that_were_given_up_to_retention_are_named(capsys) -> None:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    world.send("orders", 10)
    world.delete_before("orders", 0, 8)
    assert {ORDERS: "P252"} == world.run().parked
    assert {} == world.run(accept=("gap",)).parked

    found = audited(world)

    assert () == found.breaks
    text = shown(found, capsys)
    assert "  no row: orders[0]: 5 offsets between 3 and 8, which Kafka no longer has" in text
    assert "ok: chain gapless, every record that Kafka still has landed once" in text


# Silence.


class Leaderless:
    """Reads as the world's reader does; the partition loses its leader when it begins."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._reader = world.ground.open_reader(world.topics, SystemClock())

    def read(self, *args, **given):
        self._world.ground.cluster.lose_leader("orders", 0)
        yield from self._reader.read(*args, **given)

    def close(self) -> None:
        self._reader.close()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_partition_without_a_leader_is_no_wait_without_end(when: str) -> None:
    world = World(MemoryGround())
    world.send("orders", 3)
    world.run()
    if when == "before":
        world.ground.cluster.lose_leader("orders", 0)
        found = audited(world)
    else:
        found = audited(world, reader=Leaderless(world))

    assert isinstance(found.problem, UnavailableError)
    assert "P250" == found.problem.code


def test_a_read_is_given_time_for_as_long_as_it_comes_forward() -> None:
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()
    reader = world.ground.open_reader(world.topics, SystemClock())

    class Slow:
        """Returns one batch of one record a time, and ends as if its time were up."""

        def read(self, at, covered, **given):
            one = type(covered)(covered.start, covered.start + 1)
            yield from reader.read(at, one, **given)

        def close(self) -> None:
            reader.close()

    assert (5, 5, 0, 0, 0) == sums(audited(world, reader=Slow()))
