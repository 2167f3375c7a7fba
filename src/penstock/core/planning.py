"""From positions and ends to the slices of one epoch.

A *lane* is one range of one partition and the tables that want exactly that range. Tables
at the same offset share a lane and its records are read once; a table that lags gets a lane of its
own up to the others' position (docs/design/0004-lanes-instead-of-floors.md), and those wait when it
comes there (docs/design/0318-tables-an-epoch-behind-are-waited-for.md).

Invariants:
- lanes of one table never overlap and start exactly at the table's position;
- a range is split over slices only alone: a slice that holds a part of a range holds nothing else,
  so a part can be dropped with all its files if the part before it stopped early (protocol.md 2);
- the sum of planned records is at most the budget's, and every lane that does not wait gets some;
- in each partition what is furthest behind is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

from penstock.core.commits import EpochNumber
from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition, span

WEIGHT_BEHIND = 3
"""How many shares what is furthest behind in a partition gets, for one of what is ahead."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition that can be read now.

    `stop` is the last stable offset, listed under the isolation level of the reader; `high` is the
    high watermark: the two are equal when no transaction is open.
    """

    start: Offset
    stop: Offset
    high: Offset


def waiting_beyond(
    offsets: Positions, wanted: Collection[TopicPartition], bounds: Mapping[TopicPartition, Bounds]
) -> int | None:
    """Return how many positions partitions hold beyond `offsets`; all, where none is given.

    None where that is not known: a partition without bounds has no leader.
    """
    if not bounds.keys() >= {*wanted}:
        return None
    return sum(
        max(bounds[at].stop - max(offsets.get(at, bounds[at].start), bounds[at].start), 0)
        for at in wanted
    )


@dataclass(frozen=True, slots=True)
class Lane:
    """One range of one partition, read once for all of its tables."""

    at: TopicPartition
    covered: OffsetRange
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of one task: several small lanes, or a part of one large lane."""

    number: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One round of planning; the number is a label for people, never an identity."""

    number: EpochNumber
    slices: tuple[Slice, ...]

    @property
    def records(self) -> int:
        """Count the positions covered, an upper bound of the records."""
        return sum(lane.covered.count for part in self.slices for lane in part.lanes)


@dataclass(frozen=True, slots=True)
class Budget:
    """Bound one epoch: records and bytes in all, bytes a slice, and tasks that run at once."""

    records_max: int
    bytes_max: int
    slice_bytes: int
    capacity: int
    slice_bytes_min: int = 4 << 20
    record_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    record_bytes_unknown: float = 500.0

    def bytes_of(self, at: TopicPartition) -> float:
        """Estimate the bytes of one record, from what was read before."""
        return max(self.record_bytes.get(at, self.record_bytes_unknown), 1.0)


def lanes_of(
    positions: Mapping[str, Positions],
    ends: Positions,
    stops: Mapping[TopicPartition, Collection[Offset]] = MappingProxyType({}),
) -> list[Lane]:
    """Lay out what each table has yet to read; tables at one offset share a lane.

    A lane of lagging tables ends at the position of the next tables, or at one of `stops`.
    """
    starting: dict[TopicPartition, dict[Offset, list[str]]] = defaultdict(lambda: defaultdict(list))
    for table, offsets in positions.items():
        for at, offset in offsets.items():
            starting[at][offset].append(table)
    lanes = []
    for at in sorted(starting):
        end = ends.get(at)
        if end is None:
            continue
        edges = sorted({*starting[at], *stops.get(at, ())})
        for start, stop in pairwise([*edges, max(end, edges[-1])]):
            if start in starting[at] and start < min(stop, end):
                tables = tuple(sorted(starting[at][start]))
                lanes.append(Lane(at, OffsetRange(start, min(stop, end)), tables))
    return lanes


def without_waiting(lanes: Sequence[Lane], budget: Budget) -> list[Lane]:
    """Leave out what is read of a partition ahead of tables that catch up in this epoch.

    From there all go on together. If those ahead went on meanwhile, they would stay as far ahead as
    they are, and each record would be read twice.
    """
    last = _furthest_behind(lanes)
    if len(last) == len(lanes):
        return [*lanes]
    whole = {*last.values()}.intersection(cut([*last.values()], budget))
    joined = {lane.at: lane.covered.stop for lane in whole}
    met = {lane.at for lane in lanes if joined.get(lane.at) == lane.covered.start}
    return [lane for lane in lanes if lane.at not in met or lane == last[lane.at]]


def cut(lanes: Sequence[Lane], budget: Budget) -> list[Lane]:
    """Cut lanes to the budget, fairly: a short lane keeps all, the long ones share what is left.

    What is furthest behind in a partition gets more than what is ahead of it, so that it catches up
    while there is more to read than an epoch holds.
    """
    wanted = {lane: lane.covered.count for lane in lanes}
    total = sum(wanted.values())
    size = sum(count * budget.bytes_of(lane.at) for lane, count in wanted.items())
    within_bytes = total if size <= budget.bytes_max else int(total * budget.bytes_max / size)
    records_max = min(budget.records_max, within_bytes)
    behind = {*_furthest_behind(lanes).values()}
    weights = {lane: WEIGHT_BEHIND if lane in behind else 1 for lane in lanes}
    shares = _fair_shares(wanted, weights, max(records_max, len(wanted)))
    return [
        replace(lane, covered=span(lane.covered.start, lane.covered.start + shares[lane]))
        for lane in lanes
    ]


def pack(lanes: Sequence[Lane], budget: Budget) -> tuple[Slice, ...]:
    """Pack lanes into slices worth the work of a task, using all tasks that can run at once."""
    total = sum(lane.covered.count * budget.bytes_of(lane.at) for lane in lanes)
    target = max(budget.slice_bytes_min, min(budget.slice_bytes, total / max(budget.capacity, 1)))
    alone: list[list[Lane]] = []
    small: list[Lane] = []
    for lane in lanes:
        parts = _split(lane, target / budget.bytes_of(lane.at))
        if len(parts) > 1:
            alone += [[part] for part in parts]
        else:
            small.append(lane)
    bins = _fill(small, budget, target)
    return tuple(Slice(number, tuple(group)) for number, group in enumerate([*alone, *bins]))


def plan(
    number: EpochNumber,
    positions: Mapping[str, Positions],
    ends: Positions,
    budget: Budget,
    stops: Mapping[TopicPartition, Collection[Offset]] = MappingProxyType({}),
) -> Epoch:
    """Plan one epoch. No slices when nothing is left to read."""
    lanes = without_waiting(lanes_of(positions, ends, stops), budget)
    return Epoch(number, pack(cut(lanes, budget), budget))


def _furthest_behind(lanes: Sequence[Lane]) -> dict[TopicPartition, Lane]:
    last: dict[TopicPartition, Lane] = {}
    for lane in lanes:
        if lane.at not in last or lane.covered < last[lane.at].covered:
            last[lane.at] = lane
    return last


def _fair_shares(
    wanted: Mapping[Lane, int], weights: Mapping[Lane, int], available: int
) -> dict[Lane, int]:
    """Share by weight; who wants less than the share of its weight gets all, and everyone some."""
    shares: dict[Lane, int] = {}
    left, weight_left = available, sum(weights.values())
    order = sorted(wanted, key=lambda each: (wanted[each] / weights[each], each.at, each.covered))
    for others, lane in zip(reversed(range(len(order))), order, strict=True):
        share = min(left * weights[lane] // weight_left, left - others)
        shares[lane] = min(wanted[lane], max(share, 1))
        left -= shares[lane]
        weight_left -= weights[lane]
    return shares


def _split(lane: Lane, records: float) -> list[Lane]:
    if lane.covered.count <= 1.5 * records:
        return [lane]
    parts = min(round(lane.covered.count / records), lane.covered.count)
    edges = [lane.covered.start + lane.covered.count * i // parts for i in range(parts + 1)]
    return [replace(lane, covered=span(start, stop)) for start, stop in pairwise(edges)]


def _fill(lanes: Sequence[Lane], budget: Budget, target: float) -> list[list[Lane]]:
    """Put each lane, largest first, into the emptiest of as few bins as hold them all."""
    sizes = {lane: lane.covered.count * budget.bytes_of(lane.at) for lane in lanes}
    total = sum(sizes.values())
    count = min(len(lanes), max(1, round(total / target)))
    bins: list[list[Lane]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for lane in sorted(lanes, key=lambda each: (-sizes[each], each.at, each.covered)):
        slot = loads.index(min(loads))
        bins[slot].append(lane)
        loads[slot] += sizes[lane]
    return [sorted(group, key=lambda each: (each.at, each.covered)) for group in bins]
