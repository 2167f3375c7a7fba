"""A batch knows its tables itself: the one it is for may never have been opened."""

import pytest

from penstock.commit.chain_position import ChainPosition
from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.landing.repair.keyed_retry import ledger_of
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, claim

CHAIN = Chain("shop", "lake.bronze.orders")


def test_a_ledger_that_a_table_does_not_have_is_not_written_on():
    table = MemoryTables(Warehouse()).create("bronze.orders", TableDefinition(ORDERS), ())
    state = table.state(CHAIN)
    with pytest.raises(InvalidError) as raised:
        ledger_of(ChainPosition(CHAIN, table, state.uuid, 0, 0, claim(1), {}), state)

    assert "P492" == raised.value.code
