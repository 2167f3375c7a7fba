"""What a run waits for, told as it begins: nobody looks at a display that says nothing.

Invariant: of a run, each wait is told once, and what waits in Kafka as soon as it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import BacklogCounted, EpochPlanned, WaitBegan
from penstock.core.planning import Epoch
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.ports.runtime import Observer

ENGINE = "Java and Spark to start"
SETTLED = "commits of an earlier run to be settled"
KAFKA = "Kafka to answer"
LISTED = "Kafka to tell where topics end"


@dataclass(slots=True)
class Waits:
    """Reports waits and backlogs of one run. Used by the coordinator's thread only."""

    observer: Observer
    _what: str = ""
    _counted: bool = False

    def begin(self, what: str) -> None:
        """Report what the run waits for from now on, once."""
        if what != self._what:
            self._what = what
            self.observer(WaitBegan(what))

    def counted(self, pace: EpochTrigger) -> None:
        """Report the backlog when it is known for the first time."""
        if not self._counted:
            self._counted = True
            self.observer(BacklogCounted(dict(pace.lag), dict(pace.behind), dict(pace.waiting)))

    def planned(self, epoch: Epoch, pace: EpochTrigger) -> None:
        """Report that an epoch is opened, with the backlog."""
        backlog = dict(pace.lag), dict(pace.behind), dict(pace.waiting)
        self.observer(EpochPlanned(epoch.number, len(epoch.slices), epoch.records, *backlog))
