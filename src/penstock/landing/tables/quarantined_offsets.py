"""Records of a table that are in quarantine from an earlier reading (data.md 5).

Invariant: those of one partition are adjacent and ascend. So a lane finds its own without reading
the others, and what was passed leaves at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import Positions
from penstock.core.planning import Lane
from penstock.landing.task.coordinates import Coordinate

_Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class QuarantinedOffsets:
    """Coordinates by topic id and partition."""

    _offsets: Mapping[_Partition, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[Coordinate]:
        for (topic_id, number), offsets in self._offsets.items():
            yield from ((topic_id, number, offset) for offset in offsets)

    def __or__(self, found: Iterable[Coordinate]) -> QuarantinedOffsets:
        """Take more along."""
        more: dict[_Partition, set[int]] = defaultdict(set)
        for topic_id, number, offset in found:
            more[topic_id, number].add(offset)
        joined = {
            key: tuple(sorted(offsets.union(self._offsets.get(key, ()))))
            for key, offsets in more.items()
        }
        return QuarantinedOffsets({**self._offsets, **joined})

    def within(self, lanes: Iterable[Lane]) -> frozenset[Coordinate]:
        """Return those that lanes cover."""
        return frozenset(
            (lane.at.topic_id, lane.at.partition, offset)
            for lane in lanes
            if (held := self._offsets.get((lane.at.topic_id, lane.at.partition)))
            for offset in held[
                bisect_left(held, lane.covered.start) : bisect_left(held, lane.covered.stop)
            ]
        )

    def beyond(self, examined: Positions) -> QuarantinedOffsets:
        """Leave out those below positions: they were passed, and are not asked for again."""
        if not self._offsets:
            return self
        reached = {(at.topic_id, at.partition): offset for at, offset in examined.items()}
        left = {
            key: held[bisect_left(held, reached.get(key, 0)) :]
            for key, held in self._offsets.items()
        }
        return QuarantinedOffsets({key: held for key, held in left.items() if held})


EMPTY = QuarantinedOffsets()
