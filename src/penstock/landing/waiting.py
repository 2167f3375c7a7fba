"""What a run waits for, reported as it begins: nobody looks at a display that says nothing.

Invariant: of a run, each wait is reported once, and what waits in Kafka as soon as it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import BacklogCounted, EpochPlanned, WaitBegan
from penstock.core.planning import Epoch
from penstock.landing.tables.backlog import Backlog
from penstock.ports.runtime import Observer

ENGINE = "Java and Spark to start"
SETTLED = "commits of an earlier run to be settled"
KAFKA = "Kafka to answer"
LISTED = "Kafka to return the ends of topics"


@dataclass(slots=True)
class Waits:
    """Reports waits and backlogs of one run. Used by the coordinator's thread only."""

    observer: Observer
    _what: str = ""
    _backlog: Backlog | None = None

    def begin(self, what: str) -> None:
        """Report what is waited for from now on, once."""
        if what != self._what:
            self._what = what
            self.observer(WaitBegan(what))

    def counted(self, backlog: Backlog) -> None:
        """Keep what waits in Kafka, and report it when it is known for the first time."""
        if self._backlog is None:
            self.observer(BacklogCounted(backlog.lag, backlog.behind, backlog.waiting))
        self._backlog = backlog

    def planned(self, epoch: Epoch) -> None:
        """Report that an epoch is opened, over what waits in Kafka."""
        backlog = self._backlog or Backlog()
        counts = (backlog.lag, backlog.behind, backlog.waiting)
        self.observer(EpochPlanned(epoch.number, len(epoch.slices), epoch.records, *counts))
