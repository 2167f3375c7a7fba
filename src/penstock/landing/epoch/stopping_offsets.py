"""How far a run reads.

Invariant: a run that ends by itself reads what was there when it listed a partition first. What
producers go on to send is the next run's, else it would never end (docs/design/0227).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds


@dataclass(slots=True)
class StoppingOffsets:
    """Bounds what a run reads: `given` are a leveling's ends; `stays` keeps the first listed."""

    fixed: Positions | None = None
    keep_first: bool = False
    _first: dict[TopicPartition, Offset] = field(default_factory=dict)

    def ends(self, listed: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, Offset]:
        """Return the end of each partition that is read, of those that are listed now."""
        ends = {at: bounds.stop for at, bounds in listed.items()}
        if self.keep_first:
            self._first = {**ends, **self._first}
            ends = {at: min(end, self._first[at]) for at, end in ends.items()}
        if self.fixed is None:
            return ends
        return {at: min(end, self.fixed[at]) for at, end in ends.items() if at in self.fixed}
