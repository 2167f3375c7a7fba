"""A batch knows its tables itself: the one it is for may never have been opened."""

import pytest

from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import Chain, CommitKind
from penstock.core.errors import InvalidError
from penstock.landing.closing import _ledger
from penstock.landing.committing import Batch
from penstock.landing.tracks import Standing
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, claim, origin, prepared

CHAIN = Chain("shop", "lake.bronze.orders")


def test_the_claim_that_fenced_a_batch_is_read_from_the_tables_it_commits_to():
    table = MemoryTables(Warehouse()).create(
        "bronze.orders", TableDefinition(ORDERS), [origin(CHAIN, {0: 0})]
    )
    state = table.state(CHAIN)
    ours = prepared(CHAIN, {0: (0, 3)}, uuid=state.uuid)
    fence = {"kind": CommitKind.FENCE, "nonce": "fence", "held": claim(7)}
    theirs = prepared(CHAIN, {}, uuid=state.uuid, **fence)
    table.commit(state, theirs, retain=25)

    assert [claim(7)] == Batch("never opened", ((ours, table),)).claims()


def test_a_ledger_that_a_table_does_not_have_is_not_written_on():
    table = MemoryTables(Warehouse()).create("bronze.orders", TableDefinition(ORDERS), ())
    state = table.state(CHAIN)
    with pytest.raises(InvalidError) as told:
        _ledger(Standing(CHAIN, table, state.uuid, 0, 0, claim(1), {}), state)

    assert "P492" == told.value.code


def test_a_batch_without_commits_was_fenced_by_nobody():
    assert [] == Batch("never opened", ()).claims()
