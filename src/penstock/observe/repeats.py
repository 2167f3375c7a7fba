"""Which events are not told again yet, or no longer as a warning; safe for threads."""

from __future__ import annotations

import threading
from math import inf

from penstock.core import events, publication_events
from penstock.core.events import Event
from penstock.ports.runtime import Clock

STALLED_AGAIN_AFTER_SECONDS = 300


class Repeats:
    """Notice what need not be told again, or as loud: partitions still unreadable, more rejects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._told_at: dict[Event, float] = {}
        self._causes: set[tuple[str, str]] = set()

    def has_just_told(self, event: Event) -> bool:
        """Return whether the same was told less than five minutes ago; else note that it is."""
        if not isinstance(event, events.PartitionStalled):
            return False
        now = self._clock.monotonic()
        with self._guard:
            if now - self._told_at.get(event, -inf) < STALLED_AGAIN_AFTER_SECONDS:
                return True
            self._told_at[event] = now
        return False

    def is_known(self, event: Event) -> bool:
        """Return whether a publication has rejects of causes alone that were told of it before."""
        if not isinstance(event, publication_events.RowsPublished) or not event.rejected:
            return False
        causes = {(event.publication, code) for code in event.rejected}
        with self._guard:
            known, self._causes = causes <= self._causes, self._causes | causes
        return known
