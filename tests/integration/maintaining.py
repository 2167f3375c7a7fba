"""Maintains a table that a test holds, as `penstock maintain` does it."""

from __future__ import annotations

from penstock.commit.attempt import CommitContext
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.core.commits import Chain
from penstock.ports.tables import Table
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table_fixture import Quiet, StillClock
from penstock.testing.prepared import claim


def maintained(chain: Chain, table: Table, writer: WriterFactory) -> RearrangedFiles:
    """Maintain a table, once."""
    context = CommitContext(claim(), Quiet(), StillClock(), lambda: 0.5, 25)
    return Rearranging(chain, table, writer, context, "m1", list).run()
