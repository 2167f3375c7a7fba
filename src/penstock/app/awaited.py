"""A catalog that gave no answer when it was opened: it is opened when it is next asked.

One rule for a catalog that is down, at the start as in mid-run: its tables stand aside with the
error that opening gives, the others land, and each try to bring a table back asks it again. A
catalog that holds the quarantine is needed by all: without it a run cannot begin (exit 75).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.core.commits import Landed
from penstock.core.errors import UnavailableError
from penstock.ports.tables import Table, TableDefinition, TableFormat


def opened_or_awaited(open_now: Callable[[], TableFormat]) -> TableFormat:
    """Open a catalog, now or when it answers. Raises InvalidError for settings it cannot use."""
    try:
        return open_now()
    except UnavailableError:
        return AwaitedCatalog(open_now)


class AwaitedCatalog:
    """Implements `ports.tables.TableFormat`; raises what `open_now` raises until it answers."""

    def __init__(self, open_now: Callable[[], TableFormat]) -> None:
        self._open_now = open_now
        self._opened: TableFormat | None = None
        self._guard = threading.Lock()

    def load(self, name: str) -> Table | None:
        """Find a table."""
        return self._catalog().load(name)

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table with its ledgers."""
        return self._catalog().create(name, definition, ledgers)

    def names(self, namespace: str) -> Sequence[str]:
        """List the tables in a namespace."""
        return self._catalog().names(namespace)

    def check(self) -> None:
        """Prove that the catalog answers and may be written."""
        self._catalog().check()

    def close(self) -> None:
        """Let go of connections, if there are any."""
        if self._opened is not None:
            self._opened.close()

    def _catalog(self) -> TableFormat:
        with self._guard:
            if self._opened is None:
                self._opened = self._open_now()
            return self._opened
