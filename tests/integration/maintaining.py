"""Maintains a table that a test holds, as `penstock maintain` does it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.commit.attempt import CommitContext
from penstock.commit.expiring import expire
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.commit.sweeping import Sweeping
from penstock.connectors.memory.store import MemoryStore
from penstock.core.commits import Chain
from penstock.ports.store import Pause
from penstock.ports.tables import Table
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table_fixture import Quiet, StillClock
from penstock.testing.contracts.table_upkeep import LateClock
from penstock.testing.prepared import claim


def maintained(
    chain: Chain,
    table: Table,
    writer: WriterFactory,
    meanwhile: Callable[[], object] = lambda: None,
) -> RearrangedFiles:
    """Maintain a table, once; something may happen before the first request goes out."""
    context = CommitContext(claim(), Quiet(), StillClock(), lambda: 0.5, 25)
    acts = [meanwhile]

    def pauses() -> list[Pause]:
        while acts:
            acts.pop()()
        return []

    return Rearranging(chain, table, writer, context, "0c0ffee1", pauses).run()


def upkept(chain: Chain, table: Table) -> tuple[int, list[str]]:
    """Let all old snapshots expire, as it is long afterwards, and sweep; nothing is too young.

    Return how many expired, and the names of the files that were deleted.
    """
    context = CommitContext(claim(), Quiet(), LateClock(), lambda: 0.5, 25)
    work = Maintenance(chain, table, context, "0c0ffee1", list)
    sweeping = Sweeping(work, MemoryStore(), horizon_ms=0, grace_ms=0)
    expired = len(expire(work))
    sweeping.run()
    return expired, [each.name for each in sweeping.deleted]
