"""Credentials that catalogs lend are renewed before work is handed out that would outlive them.

Invariants: nothing of a table but its credentials changes; a catalog that does not answer, or whose
client raises what nobody foresaw, leaves them as they are, since half of their time is left: when
they end, the table is parked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.core.errors import InvalidError, UnavailableError
from penstock.landing.tables.progress import TableProgress
from penstock.ports.tables import TableState
from penstock.rows import bisection


def renew_all(tracks: Iterable[TableProgress]) -> None:
    """Renew what the tables of an epoch were lent."""
    for track in tracks:
        if track.state is not None:
            track.state = renewed(track.state)


def renewed(state: TableState) -> TableState:
    """Return a table's state with credentials that have at least half of their time left."""
    lease = state.lease
    if lease is not None and lease.is_due():
        try:
            target, following = lease.renew()
        except MemoryError:
            raise
        except (UnavailableError, InvalidError):
            return state
        except bisection.FOREIGN:
            return state
        return replace(state, target=target, lease=following)
    return state
