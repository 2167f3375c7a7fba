"""A purge against a table that moves, and whose answers are lost."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.story.clock import ManualClock
from tests.story.faulty_catalog import Fault, FaultPlan, FaultyTables
from tests.story.foreign_acts import PlayedWarehouse

from penstock.commit.attempt import CommitContext
from penstock.commit.purge import PurgedRows, PurgeSearch, purge_rows
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.commits import Chain, Keyed
from penstock.core.errors import UnavailableError
from penstock.ports.tables import TableDefinition
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.contracts.table_purges import FLAG, SOFT, TIME
from penstock.testing.prepared import claim, origin

CHAIN, NAME = Chain("shop", "lake.bronze.orders"), "bronze.orders"
THEN = datetime(2026, 1, 1, tzinfo=UTC)
THEN_MS = int(THEN.timestamp() * 1000)


class Bench:
    def __init__(self, turns=3):
        self.warehouse, self.faults = PlayedWarehouse(), FaultPlan()
        self.tables = FaultyTables(MemoryTables(self.warehouse), self.faults)
        keyed = Keyed(("id",), compares_offsets=True)
        ledger = replace(origin(CHAIN, {0: 0}), keyed=keyed)
        self.table = self.tables.create(NAME, TableDefinition(SOFT), [ledger])
        row = dict.fromkeys(SOFT.names)
        rows = [{**row, "id": 1, FLAG: True, TIME: THEN}, {**row, "id": 2, FLAG: False}]
        self.warehouse.foreign_append(NAME, rows)
        clock = ManualClock()
        self.context = CommitContext(claim(), Quiet(), clock, lambda: 0.5, 25, turns_max=turns)

    def purge(self):
        search = PurgeSearch(FLAG, TIME, THEN_MS)
        given = search, CHAIN, self.table, self.context
        return purge_rows(*given, attempt="one", pauses=list)

    def ids(self):
        return [row["id"] for row in self.warehouse.rows(NAME)]


@pytest.mark.parametrize(
    "fault",
    [None, Fault.CONFLICT, Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.TWICE, Fault.OK_UNAPPLIED],
    ids=str,
)
def test_rows_are_purged_once_whatever_is_heard_of_it(fault):
    bench = Bench()
    if fault is not None:
        bench.faults.queue(NAME, fault)

    assert PurgedRows(1, 1, THEN, THEN) == bench.purge()
    assert [2] == bench.ids()
    assert 1 == len(bench.table.history(CHAIN).commits)


def test_where_others_commit_all_the_time_nothing_is_purged():
    bench = Bench()
    others = iter(range(10, 20))

    def another():
        row = {**dict.fromkeys(SOFT.names), "id": next(others)}
        bench.warehouse.foreign_append(NAME, [row])
        bench.faults.before_commit(NAME, another)

    bench.faults.before_commit(NAME, another)
    with pytest.raises(UnavailableError) as raised:
        bench.purge()

    assert "P288" == raised.value.code
    assert [1, 2, 10, 11, 12] == bench.ids()
