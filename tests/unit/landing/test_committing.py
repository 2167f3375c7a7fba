"""A batch knows its tables itself: the one it is for may never have been opened."""

from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import Chain, CommitKind, Generation
from penstock.landing.committing import Batch
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, claim, origin, prepared

CHAIN = Chain("shop", "lake.bronze.orders")


def test_the_generation_that_fenced_a_batch_is_read_from_the_tables_it_commits_to():
    table = MemoryTables(Warehouse()).create(
        "bronze.orders", TableDefinition(ORDERS), [origin(CHAIN, {0: 0})]
    )
    state = table.state(CHAIN)
    ours = prepared(CHAIN, {0: (0, 3)}, uuid=state.uuid)
    fence = {"kind": CommitKind.FENCE, "nonce": "fence", "held": claim(7)}
    theirs = prepared(CHAIN, {}, uuid=state.uuid, **fence)
    table.commit(state, theirs, retain=25)

    assert Generation(7) == Batch("never opened", ((ours, table),)).generation()


def test_a_batch_without_commits_was_fenced_by_nobody():
    assert Generation(0) == Batch("never opened", ()).generation()
