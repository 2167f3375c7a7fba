"""Watches how tables lie, and widens epochs or names tables to stop where one is sick.

Invariants:
- it is looked at what is known, once in a while: nothing is read for it here;
- nothing here decides what lands, and a full epoch does not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.hold import Hold, HoldAct
from penstock.core.maintenance import TableHealth
from penstock.core.maintenance_events import EpochsNarrowed, EpochsWidened, HoldExceeded
from penstock.landing.settings import HealthOf
from penstock.ports.runtime import Clock, Observer

LOOK_SECONDS = 60.0


@dataclass(slots=True)
class EpochHold:
    """How far apart epochs are. Used by the coordinator's thread only."""

    hold: Hold
    usual_seconds: float
    health: HealthOf
    observer: Observer
    clock: Clock
    _every_seconds: float = field(init=False)
    _excess: Mapping[str, int] = field(default_factory=dict)
    _looked_at: float | None = None

    def __post_init__(self) -> None:
        self._every_seconds = self.usual_seconds

    @property
    def every_seconds(self) -> float:
        """Return how many seconds lie between the beginnings of epochs that are not full."""
        return self._every_seconds

    @property
    def stopped(self) -> Mapping[str, int]:
        """Return the tables that are to be parked, with how many files each has too many."""
        return self._excess if self.hold.then is HoldAct.STOP else {}

    def look(self) -> None:
        """Look at what is known, where the last look is a while ago."""
        now = self.clock.monotonic()
        if self._looked_at is not None and now < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = now
        known, before = self.health(), self._excess
        self._excess = {
            name: known[name].ailing_files for name in sorted(self.hold.sick(known, before))
        }
        match self.hold.then:
            case HoldAct.WIDEN:
                self._widen(known)
            case HoldAct.NOTHING:
                for name in self._excess.keys() - before.keys():
                    self.observer(HoldExceeded(name, self._excess[name]))
            case HoldAct.STOP:
                pass  # tables are parked by who reads `stopped`

    def _widen(self, known: Mapping[str, TableHealth]) -> None:
        """Widen epochs while a table is sick, and let them come back afterwards."""
        excess = {name: each.ailing_files for name, each in known.items()}
        worst = max(excess, key=lambda name: excess[name], default="")
        before, usual = self._every_seconds, self.usual_seconds
        self._every_seconds = self.hold.interval(before, usual, excess.get(worst, 0))
        if self._every_seconds > before:
            self.observer(EpochsWidened(worst, excess[worst], self._every_seconds, usual))
        elif self._every_seconds < before:
            self.observer(EpochsNarrowed(self._every_seconds, usual))
