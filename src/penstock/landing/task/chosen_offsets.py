"""The only records of partitions that land, where a person lands chosen ones again."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition, span
from penstock.core.planning import Lane
from penstock.files.positions import joined, packed, unpacked

Offsets = npt.NDArray[np.int64]
PackedOffsets = Mapping[tuple[str, int], str]
"""Chosen offsets by topic id and partition, as `files.positions.packed` writes them: a job bears
those that its lanes cover.
"""


class OffsetSet:
    """Offsets of one partition: a byte for each position from the first to the last of them."""

    def __init__(self) -> None:
        self._start, self._held = 0, np.zeros(0, np.bool_)

    def add(self, offsets: Offsets) -> None:
        """Take more offsets along, in any order, some of them perhaps again."""
        if len(offsets):
            self._make_room(int(offsets.min()), int(offsets.max()) + 1)
            self._held[offsets - self._start] = True

    def _make_room(self, start: int, stop: int) -> None:
        """Hold a range as well; with half as much again, so that files in any order cost little."""
        former, end = self._start, self._start + len(self._held)
        if former <= start and stop <= end:
            return
        if not len(self._held):
            self._start, self._held = start, np.zeros(stop - start, np.bool_)
            return
        more = (max(stop, end) - min(start, former)) // 2
        first = former if former <= start else max(start - more, 0)
        held = np.zeros((end if stop <= end else stop + more) - first, np.bool_)
        held[former - first :][: len(self._held)] = self._held
        self._start, self._held = first, held

    def __len__(self) -> int:
        return int(np.count_nonzero(self._held))

    def covers(self) -> OffsetRange:
        """Return the range from the first to the last of them, an empty one where there is none."""
        if not self._held.any():
            return span(0, 0)
        last = len(self._held) - int(self._held[::-1].argmax())
        return span(self._start + int(self._held.argmax()), self._start + last)

    def within(self, covered: OffsetRange) -> Offsets:
        """Return the offsets of a range, ascending."""
        first = max(covered.start - self._start, 0)
        found: Offsets = np.flatnonzero(self._held[first : max(covered.stop - self._start, 0)])
        return found + (self._start + first)

    def next_from(self, position: int) -> int | None:
        """Return the first offset from a position on, if there is one."""
        first = max(position - self._start, 0)
        later = self._held[first:]
        return self._start + first + int(later.argmax()) if later.any() else None

    def others_in(self, covered: OffsetRange) -> OffsetSet:
        """Return the offsets of a range that are not among these."""
        others = OffsetSet()
        others._start, others._held = covered.start, np.ones(covered.count, np.bool_)
        others._held[self.within(covered) - covered.start] = False
        return others


ChosenOffsets = Mapping[TopicPartition, OffsetSet]


def packed_within(chosen: ChosenOffsets, lanes: Sequence[Lane]) -> PackedOffsets:
    """Return the chosen offsets that lanes cover."""
    found: dict[tuple[str, int], list[Offsets]] = defaultdict(list)
    for lane in lanes:
        offsets = chosen.get(lane.at, OffsetSet()).within(lane.covered)
        found[lane.at.topic_id, lane.at.partition].append(offsets)
    return {at: packed(joined(parts)) for at, parts in found.items()}


def are_chosen(among: PackedOffsets, at: TopicPartition, offsets: Offsets) -> npt.NDArray[np.bool_]:
    """Return which offsets of a partition are among the chosen ones."""
    chosen = _unpacked(among.get((at.topic_id, at.partition), ""))
    if not len(chosen):
        return np.zeros(len(offsets), np.bool_)
    places = np.searchsorted(chosen, offsets)
    found: npt.NDArray[np.bool_] = chosen.take(places, mode="clip") == offsets
    return found


def next_chosen(
    chosen: ChosenOffsets, positions: Positions, stops: Positions
) -> dict[TopicPartition, Offset]:
    """Return the positions of the next chosen records, at most where a partition is read to."""
    found = dict(positions)
    for at, stop in stops.items():
        following = chosen[at].next_from(positions[at]) if at in chosen else None
        found[at] = stop if following is None else Offset(min(following, stop))
    return found


@functools.lru_cache(maxsize=16)
def _unpacked(text: str) -> Offsets:
    """Unpack a text once for all batches of a lane."""
    return unpacked(text)
