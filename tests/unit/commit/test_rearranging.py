"""A table is maintained while it moves, while answers are lost, and by writers that lose rows."""

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.story.clock import ManualClock
from tests.story.faulty_catalog import Fault, FaultPlan, FaultyTables
from tests.story.foreign_acts import PlayedWarehouse

from penstock.commit import rearranging
from penstock.commit.attempt import CommitContext
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.connectors.memory.file_rows import WarehouseRows
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.commits import Chain
from penstock.core.errors import BugError, UnavailableError
from penstock.core.maintenance import Layout, StoredFile, groups_of
from penstock.ports.store import Pause
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.copying import copying_engine
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import ORDERS, claim, origin

CHAIN, NAME = Chain("shop", "lake.bronze.orders"), "bronze.orders"


def spied(done, name, act):
    def played(*given):
        done.append(name)
        return act(*given)

    return played


class Bench:
    """A table of three files with the ids 0 to 5."""

    def __init__(self):
        self.warehouse, self.faults = PlayedWarehouse(), FaultPlan()
        memory = MemoryTables(self.warehouse)
        self.writer = memory.open_writer
        self.tables = FaultyTables(memory, self.faults)
        self.table = self.tables.create(NAME, TableDefinition(ORDERS), [origin(CHAIN, {0: 0})])
        for first in (0, 2, 4):
            self.append(first, first + 1)

    def append(self, *ids):
        rows = [{**dict.fromkeys(ORDERS.names), "id": each, "name": f"n{each}"} for each in ids]
        self.warehouse.foreign_append(NAME, rows)

    def maintain(self, pauses=list) -> RearrangedFiles:
        context = CommitContext(claim(), Quiet(), ManualClock(), lambda: 0.5, 25)
        work = Maintenance(CHAIN, self.table, context, "m1", pauses)
        engine = copying_engine(self.writer, WarehouseRows(self.warehouse))
        return Rearranging(work, engine, "memory").run()

    def ids(self) -> list[int]:
        return [row["id"] for row in self.warehouse.rows(NAME)]

    def files(self) -> int:
        return len(self.warehouse.get(NAME).contents.files)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "fault",
    [None, Fault.CONFLICT, Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.TWICE, Fault.OK_UNAPPLIED],
    ids=str,
)
def test_files_become_one_once_whatever_is_heard_of_it(fault, times):
    bench = Bench()
    if fault is not None:
        bench.faults.queue(NAME, *[fault] * times)

    done = bench.maintain()

    assert (1, 3, 1, 1, 0) == (
        done.groups,
        done.files_before,
        done.files_after,
        done.commits,
        done.given_up,
    )
    assert ([0, 1, 2, 3, 4, 5], 1) == (sorted(bench.ids()), bench.files())


def test_a_request_that_comes_late_changes_nothing():
    bench = Bench()
    bench.faults.queue(NAME, Fault.DELAY)
    bench.maintain()
    bench.append(6)

    [ended] = bench.faults.release()

    assert "ConflictError" == ended
    assert ([*range(7)], 2) == (sorted(bench.ids()), bench.files())


@pytest.mark.parametrize("looks", [0, 1], ids=["before it is read", "while it is written"])
def test_of_a_paused_table_nothing_is_written(monkeypatch, looks):
    bench, begun, done = Bench(), iter(range(9)), []
    for act in ("readable", "upkeep"):
        monkeypatch.setattr(bench.table, act, spied(done, act, getattr(bench.table, act)))

    def pauses():
        return [Pause(CHAIN.table, 0, 4 * 10**12)] if next(begun) >= looks else []

    with pytest.raises(UnavailableError) as raised:
        bench.maintain(pauses)

    assert "P445" == raised.value.code
    assert ["upkeep", "readable"] * looks == done, "the era is read; nothing is staged"
    assert ([*range(6)], 3) == (sorted(bench.ids()), bench.files())


def test_where_others_commit_all_the_time_it_gives_up_and_says_so():
    bench = Bench()
    others = itertools.count(6)

    def another():
        bench.append(next(others))
        bench.faults.before_commit(NAME, another)

    bench.faults.before_commit(NAME, another)
    with pytest.raises(UnavailableError) as raised:
        bench.maintain()

    assert "P866" == raised.value.code
    assert [*range(next(others))] == sorted(bench.ids())


def test_rows_that_go_at_each_attempt_go_from_the_new_files():
    bench = Bench()
    others = iter([1, 4, 2, 5])

    def another():
        if (goes := next(others, None)) is not None:
            bench.warehouse.foreign_delete(NAME, lambda row: row["id"] == goes)
            bench.faults.before_commit(NAME, another)

    bench.warehouse.foreign_delete(NAME, lambda row: row["id"] == 0)
    bench.faults.before_commit(NAME, another)
    done = bench.maintain()

    assert (1, 4, 1, 0) == (done.deleted, done.carried, done.groups, done.given_up)
    assert ([3], 1) == (bench.ids(), bench.files())


def test_a_new_file_of_which_all_rows_went_does_not_come():
    bench = Bench()
    bench.faults.before_commit(NAME, lambda: bench.warehouse.foreign_delete(NAME, lambda _: True))
    done = bench.maintain()

    assert (6, 0, 1) == (done.deleted, done.carried, done.groups)
    assert ([], 0) == (bench.ids(), bench.files())


def test_where_a_row_that_was_left_out_is_live_again_it_is_read_again():
    bench = Bench()
    before = bench.warehouse.get(NAME).contents
    bench.warehouse.foreign_delete(NAME, lambda row: row["id"] == 1)

    def put_back():
        deleted = {before.files[1].path: frozenset({0})}
        bench.warehouse._change(NAME, before.files, deleted)

    bench.faults.before_commit(NAME, put_back)
    done = bench.maintain()

    assert (1, 1) == (done.given_up, done.groups)
    assert [0, 1, 3, 4, 5] == sorted(bench.ids())


def test_what_others_append_all_the_time_stops_nothing_for_ever():
    bench = Bench()
    others = iter(range(6, 8))

    def another():
        if (comes := next(others, None)) is not None:
            bench.append(comes)
            bench.faults.before_commit(NAME, another)

    bench.faults.before_commit(NAME, another)

    assert 1 == bench.maintain().groups
    assert ([*range(8)], 3) == (sorted(bench.ids()), bench.files())


@pytest.mark.parametrize(
    "lie",
    [
        lambda rows: rows.slice(1),
        lambda rows: pa.concat_batches([rows, rows.slice(0, 1)]),
        lambda rows: rows.set_column(
            rows.schema.get_field_index("name"), "name", rows.column("name")[::-1]
        ),
    ],
    ids=["loses a row", "doubles a row", "swaps names"],
)
def test_rows_that_are_others_when_read_back_are_not_committed(lie):
    bench = Bench()
    opened = bench.writer

    def lying(*given, **named):
        writer = opened(*given, **named)
        write = writer.write
        writer.write = lambda rows: write(lie(rows))
        return writer

    bench.writer = lying
    with pytest.raises(BugError) as raised:
        bench.maintain()

    assert "P847" == raised.value.code
    assert ([*range(6)], 3) == (bench.ids(), bench.files())


def test_rows_that_a_reader_leaves_out_each_time_are_not_lost(monkeypatch):
    bench = Bench()
    read = WarehouseRows.read

    def blind(*given, **named):
        for rows in read(*given, **named):
            yield rows.filter(pc.not_equal(rows["id"], 3))

    monkeypatch.setattr(WarehouseRows, "read", blind)
    with pytest.raises(BugError) as raised:
        bench.maintain()

    assert "P847" == raised.value.code
    assert ([*range(6)], 3) == (bench.ids(), bench.files())


def test_a_table_without_small_files_is_not_touched():
    bench = Bench()
    bench.maintain()
    head = bench.warehouse.get(NAME).contents.head

    assert RearrangedFiles() == bench.maintain()
    assert head == bench.warehouse.get(NAME).contents.head


def test_groups_land_together_up_to_a_full_file_or_so_many_inputs():
    def sizes(files: Sequence[StoredFile], target_bytes: int) -> list[int]:
        layout = Layout(files, target_bytes, 0)
        return [len(each) for each in rearranging._bundles(groups_of(layout), layout)]

    quiet = [StoredFile(f"{at}", f"{at // 2}", 1, 10) for at in range(20)]
    full = [StoredFile(f"{at}", f"{at // 2}", 1, 40) for at in range(20)]
    many = [StoredFile(f"{at}", f"{at // 1000}", 1, 1) for at in range(5000)]

    assert [10] == sizes(quiet, 1000)
    assert [1] * 10 == sizes(full, 100)
    assert [2, 2, 1] == sizes(many, 1 << 20)
