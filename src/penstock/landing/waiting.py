"""What a run waits for, reported as it begins: an empty display helps no one.

Invariant: of a run, each wait is reported once, and what waits in Kafka as soon as it is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.events import BacklogCounted, EpochPlanned, WaitBegan
from penstock.core.offsets import Positions
from penstock.core.planning import Epoch
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
    _backlog: BacklogCounted | None = None

    def begin(self, what: str) -> None:
        """Report what is waited for from now on, once."""
        if what != self._what:
            self._what = what
            self.observer(WaitBegan(what))

    def counted(self, backlog: BacklogCounted) -> None:
        """Keep what waits in Kafka, and report it when it is known for the first time."""
        if self._backlog is None:
            self.observer(backlog)
        self._backlog = backlog

    def planned(self, epoch: Epoch) -> None:
        """Report that an epoch is opened, over what waits in Kafka."""
        backlog = self._backlog
        assert backlog is not None, "an epoch is planned over a backlog"
        counts = (backlog.lag, backlog.table_lag, backlog.partition_lag)
        self.observer(EpochPlanned(epoch.number, len(epoch.slices), epoch.records, *counts))


def backlog_of(
    positions: Mapping[str, Positions], ends: Positions, *, parked: Mapping[str, Positions]
) -> BacklogCounted:
    """Count what tables at these positions have yet to read.

    A topic or partition counts for the table that lags most. What waits for `parked` ones
    is counted by table alone: nothing is read for them.
    """
    partition_lag: dict[str, int] = {}
    lag: dict[str, int] = defaultdict(int)
    for at, end in ends.items():
        counts = [end - offsets[at] for offsets in positions.values() if at in offsets]
        if counts:
            partition_lag[str(at)] = max(0, *counts)
            lag[at.topic] += partition_lag[str(at)]
    table_lag = {
        table: sum(max(ends[at] - offset, 0) for at, offset in offsets.items() if at in ends)
        for table, offsets in {**parked, **positions}.items()
    }
    return BacklogCounted(dict(lag), table_lag, partition_lag)
