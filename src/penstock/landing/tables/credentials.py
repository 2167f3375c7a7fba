"""Credentials that catalogs lend are renewed before work is handed out that would outlive them.

Invariants: only a table's credentials change. A catalog that does not answer, or a client that
raises an unexpected error, leaves them as they are, since half of their time is left. When they
end, the table is parked.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.landing.tables.progress import TableProgress
from penstock.ports.tables import TableState
from penstock.rows import bisection


def with_credentials(progress: TableProgress) -> TableProgress:
    """Return a table's progress with what its catalog lent renewed, where that is due."""
    if progress.state is None:
        return progress
    return replace(progress, state=renewed(progress.state))


def renewed(state: TableState) -> TableState:
    """Return a table's state with credentials that have at least half of their time left."""
    lease = state.lease
    if lease is None or not lease.is_due():
        return state
    try:
        target, following = lease.renew()
    except MemoryError:
        raise
    except bisection.FOREIGN:
        return state
    return replace(state, target=target, lease=following)
