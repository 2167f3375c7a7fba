"""Positions and half-open ranges in a partitioned log, and their algebra.

Invariants:
- an offset is the next position to read, never the last one read;
- a range is half-open and never runs backwards;
- a partition is identified by its topic's id: a re-created topic is another topic (protocol.md 2).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NewType

Offset = NewType("Offset", int)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """Name one partition of one incarnation of a topic; the topic's name is only a label."""

    topic_id: str
    partition: int
    topic: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets `start <= offset < stop`."""

    start: Offset
    stop: Offset

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.stop, f"not a range: [{self.start}, {self.stop})"

    @property
    def count(self) -> int:
        """Positions covered: an upper bound of the records in the range."""
        return self.stop - self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.stop

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"


Positions = Mapping[TopicPartition, Offset]
LeaderEpochs = Mapping[TopicPartition, int]
Progress = Mapping[TopicPartition, OffsetRange]


def span(start: int, stop: int) -> OffsetRange:
    """Build a range from plain integers."""
    return OffsetRange(Offset(start), Offset(stop))


def without(epochs: LeaderEpochs, moved: Container[TopicPartition]) -> dict[TopicPartition, int]:
    """Leave out the epochs of partitions with moved positions."""
    return {at: epoch for at, epoch in epochs.items() if at not in moved}


def without_empty(progress: Progress) -> dict[TopicPartition, OffsetRange]:
    """Leave out ranges that cover nothing: they claim nothing and move nothing (protocol.md 4)."""
    return {at: covered for at, covered in progress.items() if covered.count}


def stops(progress: Progress) -> dict[TopicPartition, Offset]:
    """Return the position after each range."""
    return {at: covered.stop for at, covered in progress.items()}


def advanced(positions: Positions, progress: Progress) -> dict[TopicPartition, Offset]:
    """Move positions to the end of the ranges; a range must begin where its position is."""
    for at, covered in progress.items():
        assert positions.get(at) == covered.start, (
            f"{at}: {covered} does not start at {positions.get(at)}"
        )
    return {**positions, **stops(progress)}


def between(start: Positions, stop: Positions) -> dict[TopicPartition, OffsetRange]:
    """Return the non-empty ranges that lead from `start` to `stop`, for partitions in both."""
    return {
        at: OffsetRange(start[at], end)
        for at, end in stop.items()
        if at in start and start[at] < end
    }


def gaps_and_overlaps(ranges: Iterable[OffsetRange]) -> list[tuple[str, OffsetRange]]:
    """List what breaks a chain of ranges given in order: `("gap"|"overlap", where)`."""
    found: list[tuple[str, OffsetRange]] = []
    reached: Offset | None = None
    for covered in ranges:
        if reached is not None and covered.start > reached:
            found.append(("gap", OffsetRange(reached, covered.start)))
        if reached is not None and covered.start < reached:
            found.append(("overlap", OffsetRange(covered.start, min(reached, covered.stop))))
        reached = covered.stop if reached is None else max(reached, covered.stop)
    return found
