"""Reports which tables are paused, as a run learns of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.commit.pauses import Pauses
from penstock.core.events import PauseBegan, PauseEnded
from penstock.ports.runtime import Clock, Observer


@dataclass(frozen=True, slots=True)
class PauseWatch:
    """Compares the pauses of now with those reported. Used by the coordinator's thread only."""

    pauses: Pauses
    observer: Observer
    clock: Clock
    _reported: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Report the pauses that began, were changed or ended since the last time."""
        current = self.pauses.current(self.clock.now_ms())
        for table in sorted(self._reported.keys() - current.keys()):
            del self._reported[table]
            self.observer(PauseEnded(table))
        for table, until_ms in sorted(current.items()):
            if self._reported.get(table) != until_ms:
                self._reported[table] = until_ms
                self.observer(PauseBegan(table, until_ms))
