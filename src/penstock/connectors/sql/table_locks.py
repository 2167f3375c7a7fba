"""Advisory locks of tables in PostgreSQL: each is a transaction's, and granted in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.connectors.sql.server import StoreServer
from penstock.core.errors import UnavailableError

WAIT_SECONDS_MAX = 5.0
HELD_SECONDS_MAX = 10.0
_AT_ONCE = 4
"""So many connections one process takes for it; more of its threads pass without a lock."""
_IS_HELD = "P503"


class SqlTableLocks:
    """Implements `ports.table_locks.TableLocks` on a PostgreSQL database.

    A waiting statement holds up VACUUM, so it ends after `WAIT_SECONDS_MAX`; the server ends a
    transaction that idles for `HELD_SECONDS_MAX`, and its lock with it.
    """

    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self._connections = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def held(self, table: str) -> Iterator[None]:
        """Wait for the lock of a table; hold it until the context ends."""
        if not self._connections.acquire(blocking=False):
            yield
            return
        try:
            lock = ExitStack()
            try:
                lock.enter_context(self._server.writing(f"table/{table}"))
            except UnavailableError as error:
                if error.code != _IS_HELD:
                    raise
            try:
                yield
            finally:
                lock.close()
        finally:
            self._connections.release()

    def close(self) -> None:
        """Let go of connections; a lock that is wanted later opens them again."""
        self._server.close()
