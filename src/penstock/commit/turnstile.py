"""Pass one at a time where others of ours were met: shards of a pipeline at their tables.

Invariants: nothing depends on it. A commit that did not wait is as right as one that did, and none
is refused for want of a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from penstock.core.errors import PenstockError
from penstock.ports.table_locks import TableLocks

CROWDED_SECONDS = 60.0
"""So long a table is locked for commits after an attempt on it lost."""


@dataclass(slots=True)
class Turnstile:
    """The tables at which a process met others; used by any number of its threads.

    Without `locks` it is open.
    """

    locks: TableLocks | None = None
    _crowded: dict[str, float] = field(default_factory=dict)

    def lost(self, table: str, now: float) -> None:
        """Note that an attempt on a table lost, `now` by a monotonic clock of seconds."""
        self._crowded[table] = now + CROWDED_SECONDS

    @contextmanager
    def passing(self, table: str, now: float) -> Iterator[None]:
        """Pass with the lock of a table, or at once where nobody was met of late."""
        lock = ExitStack()
        if self.locks is not None and now < self._crowded.get(table, now):
            try:
                lock.enter_context(self.locks.held(table))
            except PenstockError:
                self._crowded.pop(table, None)  # until an attempt loses again
        try:
            yield
        finally:
            with suppress(PenstockError):
                lock.close()
