"""Maintains a table that a test holds, as `penstock maintain` does it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.commit.attempt import CommitContext
from penstock.commit.expiring import expire
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.commit.sweeping import Sweeping
from penstock.connectors.memory.store import MemoryStore
from penstock.core.commits import Chain
from penstock.ports.connectors import TableConnector
from penstock.ports.tables import Table
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.copying import copying_engine
from penstock.testing.contracts.table_fixture import Meanwhile, Quiet, StillClock
from penstock.testing.contracts.table_upkeep import LateClock
from penstock.testing.prepared import claim


def maintained(
    chain: Chain,
    table: Table,
    connector: TableConnector,
    meanwhile: Callable[[], object] = lambda: None,
) -> RearrangedFiles:
    """Maintain a table, once; something may happen before its first request goes out."""
    context = CommitContext(claim(), Meanwhile(meanwhile), StillClock(), lambda: 0.5, 25)
    work = Maintenance(chain, table, context, "0c0ffee1", list)
    assert connector.open_file_rows is not None
    secrets = ProcessSecrets({})
    writer = partial(connector.open_writer, secrets=secrets)
    return Rearranging(work, copying_engine(writer, connector.open_file_rows(secrets)), "").run()


def maintenance(chain: Chain, table: Table) -> Maintenance:
    """Return what maintains a table, as it is long afterwards."""
    context = CommitContext(claim(), Quiet(), LateClock(), lambda: 0.5, 25)
    return Maintenance(chain, table, context, "0c0ffee1", list)


def swept(chain: Chain, table: Table, grace_ms: int = 0) -> list[str]:
    """Sweep a table of which nothing is too young; return the names of what was deleted."""
    sweeping = Sweeping(maintenance(chain, table), MemoryStore(), 0, grace_ms)
    sweeping.run()
    return [each.name for each in sweeping.deleted]


def upkept(chain: Chain, table: Table) -> tuple[int, list[str]]:
    """Let all old snapshots expire, and sweep; return how many expired, and what was deleted."""
    return len(expire(maintenance(chain, table))), swept(chain, table)
