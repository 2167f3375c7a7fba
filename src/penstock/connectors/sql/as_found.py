"""A store that is only looked at, as `penstock upgrade-check` does.

Invariant: no table is created, in whatever order it is read; of a file not even a missing one.
"""

from __future__ import annotations

from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.layout import missing
from penstock.connectors.sql.server import StoreServer
from penstock.connectors.sql.store import SqlStore
from penstock.ports.store import StoreAsFound


def as_found(database: StoreFile | StoreServer) -> StoreAsFound:
    """Return a store, and the names of the tables that the next run adds to it.

    Raises InvalidError: P505 of a newer version, P507 of another program; UnavailableError.
    """
    with database.reading() as connection:
        adds = () if connection is None else missing(connection)
    return StoreAsFound(SqlStore(database), adds)
