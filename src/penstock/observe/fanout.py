"""One observer made of many.

Invariants:
- every listener gets every event of one thread in the order in which it happened;
- no lock is held here: a listener is safe for threads itself, and a slow one delays only its
  caller.
"""

from __future__ import annotations

from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.ports.runtime import Observer


class Observers:
    """Pass events and crash points on to several observers, in the order given."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def __call__(self, event: Event) -> None:
        """Pass the event to every observer."""
        for observer in self._observers:
            observer(event)

    def passed(self, point: CrashPoint) -> None:
        """Let every observer pass the point; a test's observer may end the process here."""
        for observer in self._observers:
            observer.passed(point)


UNHEARD = Observers()
"""Ignores all events."""
