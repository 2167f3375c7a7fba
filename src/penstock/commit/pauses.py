"""Which tables another writer has to itself for a while: no attempt to commit to them begins.

Invariants:
- every attempt is made within `passing`: a table that is quiet under a pause stays so until that is
  over (docs/design/0246);
- a pause is over by its own time, whether the store answers or not;
- what is held back stays prepared: not to commit is always safe.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from penstock.core.errors import UnavailableError
from penstock.ports.store import Pause

PAUSED = "P445"
"""The code of what is held back while its table is paused."""


class Pauses:
    """The pauses that a process knows of, and its attempts under way; used by any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._pauses: dict[str, Pause] = {}
        self._under_way: Counter[str] = Counter()

    def know(self, pauses: Iterable[Pause]) -> None:
        """Take what the store says now in place of what it said before."""
        with self._guard:
            self._pauses = {each.table: each for each in pauses}

    def until_ms(self, table: str, now_ms: int) -> int | None:
        """Return until when a table is paused; None if it is not."""
        with self._guard:
            return self._until_ms(table, now_ms)

    def current(self, now_ms: int) -> dict[str, int]:
        """Return until when each table that is paused now is."""
        with self._guard:
            return {n: each.until_ms for n, each in self._pauses.items() if each.until_ms > now_ms}

    def quiet(self) -> list[Pause]:
        """List the pauses of tables without an attempt under way."""
        with self._guard:
            return [each for each in self._pauses.values() if not self._under_way[each.table]]

    def require_none(self, table: str, now_ms: int) -> None:
        """Raise UnavailableError (P445) while a table is paused."""
        until_ms = self.until_ms(table, now_ms)
        if until_ms is not None:
            raise paused(table, until_ms)

    @contextmanager
    def passing(self, table: str, now_ms: int) -> Iterator[None]:
        """Act on a table. Raises UnavailableError (P445) while it is paused."""
        with self._guard:
            until_ms = self._until_ms(table, now_ms)
            if until_ms is not None:
                raise paused(table, until_ms)
            self._under_way[table] += 1
        try:
            yield
        finally:
            with self._guard:
                self._under_way[table] -= 1

    def _until_ms(self, table: str, now_ms: int) -> int | None:
        pause = self._pauses.get(table)
        return pause.until_ms if pause is not None and pause.until_ms > now_ms else None


def paused(table: str, until_ms: int) -> UnavailableError:
    """Return the error of a table that is paused."""
    return UnavailableError(
        f"{table}: paused until {utc_text(until_ms)}",
        code=PAUSED,
        hint=f"it goes on by itself then; to end the pause:  penstock resume {table}",
    )


def utc_text(at_ms: int) -> str:
    """Return a time for people."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
