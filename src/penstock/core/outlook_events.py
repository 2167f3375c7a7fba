"""Events of what shows a run to others; the rules of `events.py` hold for them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import Event


@dataclass(frozen=True, slots=True)
class MetricsServed(Event):
    """Metrics are served at this address."""

    url: str


@dataclass(frozen=True, slots=True)
class PageServed(Event):
    """The page is served at this address."""

    url: str


@dataclass(frozen=True, slots=True)
class GroupNotMoved(Event):
    """The consumer group that follows what has landed could not be moved; it is tried again."""

    group: str
    reason: str
