"""How fast a publication sends: a budget of rows and bytes a second, spent epoch by epoch.

Invariants:
- an epoch has no more than the budget of one interval, so that a slow back-fill has small
  transactions and no long ones;
- the next one begins when the time that the last one's rows and bytes are worth is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.ports.sources import EpochLimit

ROW_BYTES = 1000.0
"""What a row is taken to be before one was sent: so the first epoch is rather too small."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The most that is sent in a second: rows, or bytes as they are sent, compressed."""

    rows: int | None = None
    bytes: int | None = None


@dataclass(slots=True)
class Pace:
    """The budget of one run."""

    rate: Rate
    interval_seconds: float
    free_at: float = 0.0
    _row_bytes: float = field(default=ROW_BYTES)

    def limit(self, given: EpochLimit) -> EpochLimit:
        """Return what the next epoch may hold: at least one row."""
        rows = given.rows_max
        if self.rate.rows is not None:
            rows = min(rows, int(self.rate.rows * self.interval_seconds))
        if self.rate.bytes is not None:
            rows = min(rows, int(self.rate.bytes * self.interval_seconds / self._row_bytes))
        return EpochLimit(max(rows, 1), given.bytes_max)

    def spend(self, begun: float, rows: int, sent_bytes: int) -> None:
        """Note what an epoch sent that began at a time."""
        seconds = 0.0
        if self.rate.rows is not None:
            seconds = rows / self.rate.rows
        if self.rate.bytes is not None:
            seconds = max(seconds, sent_bytes / self.rate.bytes)
        if rows:
            self._row_bytes = max(sent_bytes / rows, 1.0)
        self.free_at = begun + seconds
