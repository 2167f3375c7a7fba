"""Advisory locks of tables that several writers of ours change at once. Never the truth.

A table's own compare-and-set says who landed; a lock only spares the others an attempt that would
lose (docs/design/0388).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class TableLocks(Protocol):
    """Lets one writer at a time pass, in the order in which they came; used by any number of
    threads.
    """

    def held(self, table: str) -> AbstractContextManager[None]:
        """Wait for the lock of a table, by its name in the spec; hold it until the context ends.

        A holder that dies keeps nobody out, and who has waited for long enough passes without.
        Entering and leaving raise UnavailableError where the server does not answer.
        """

    def close(self) -> None:
        """Let go of connections; a lock that is wanted later opens them again."""
