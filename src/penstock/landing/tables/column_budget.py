"""How many columns a table may still be given within the hour."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

HOUR_SECONDS = 3600.0


@dataclass(slots=True)
class ColumnBudget:
    """Counts the columns that were added to each table within the last hour."""

    per_hour: int
    _added: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))

    def left(self, table: str, now: float) -> int:
        """Return how many columns may be added to a table now."""
        added = self._added.get(table)
        if not added:
            return self.per_hour
        while added and added[0][0] <= now - HOUR_SECONDS:
            added.popleft()
        return max(self.per_hour - sum(count for _, count in added), 0)

    def add(self, table: str, count: int, now: float) -> None:
        """Note columns that were added."""
        if count:
            self._added[table].append((now, count))
