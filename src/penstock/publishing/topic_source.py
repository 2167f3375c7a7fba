"""A topic as the source of a publication: its partitions, their offsets, and its messages.

Its records as rows are in topic_rows.py.

Invariants:
- a source partition is one of one incarnation of the topic: made again, it is another;
- a position has the leader epoch of the record before it, where known: a log that was truncated
  below it is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.planning import Bounds, Budget, cut, lanes_of
from penstock.core.positions import (
    Position,
    Scalar,
    SourcePartition,
    partition_of,
    position_of,
    values_of,
)
from penstock.ports.log import Fetched, Log, RangeReader
from penstock.ports.sources import MESSAGES, EpochLimit, Read, Stands, Stretch
from penstock.publishing.source_stops import foreign_position, leaderless

_ONE = "source"
"""Planning knows tables: a publication is one."""


class TopicSource:
    """Implements `ports.sources.Source` over a topic; `log` lists that topic alone.

    `columns` are those of its rows, None where it gives messages.
    """

    def __init__(self, log: Log, topic: str, columns: pa.Schema | None = None) -> None:
        self._log, self._topic, self._columns = log, topic, columns

    def starts(self, word: str) -> Stands:
        """Return the first offset of each partition, or its end.

        Raises UnavailableError (P250) while one has no leader: where to begin is known for sure.
        """
        return {
            _partition(at): _position(each.start if word == "earliest" else each.stop, None)
            for at, each in self._known_bounds().items()
        }

    def places(self, words: Sequence[str]) -> Stands:
        """Read `earliest`, `latest`, and places as `topic:partition:offset`."""
        if words in (["earliest"], ["latest"]):
            return self.starts(words[0])
        listed = {(at.topic, at.partition): (at, each) for at, each in self._bounds().items()}
        found = {}
        for word in words:
            topic, number, offset = _place_in(word)
            at, bounds = listed.get((topic, number), (None, None))
            if at is None or bounds is None or not bounds.start <= offset <= bounds.stop:
                there = f", which has {bounds.start} to {bounds.stop}" if bounds else ""
                raise InvalidError(
                    f"{word} is not in {self._topic}{there}",
                    code="P817",
                    hint="name a place that is there:  penstock plan",
                )
            found[_partition(at)] = _position(offset, None)
        return found

    def ends(self) -> Stands:
        """Return the last stable offsets."""
        return {_partition(at): _position(each.stop, None) for at, each in self._bounds().items()}

    def require_known(self) -> None:
        """Raise UnavailableError (P250) while a partition has no leader."""
        self._known_bounds()

    def fault(self, stands: Stands) -> str:
        """Say which positions have no partition, or are outside of its log."""
        partitions = self._log.partitions()
        bounds = {_partition(at): each for at, each in self._log.bounds(partitions).items()}
        listed = {_partition(at) for at in partitions}
        for of, position in stands.items():
            place, offset = place_of(of), _offset(position)
            if of not in listed:
                return (
                    f"the topic {self._topic} was created again: the {place} that was read is gone"
                )
            if of in bounds and offset < bounds[of].start:
                return f"offsets {offset} to {bounds[of].start} of {place} are gone"
            if of in bounds and offset > bounds[of].high:
                return f"{place} ends at {bounds[of].high}, and was read up to {offset}"
        return ""

    def readable(self, stands: Stands) -> Stands:
        """Return positions inside of the logs as they are now, of partitions that are there."""
        partitions = self._log.partitions()
        bounds = {_partition(at): each for at, each in self._log.bounds(partitions).items()}
        listed = {_partition(at) for at in partitions}
        return {
            of: _position(bounds[of].start, None)
            if of in bounds and not bounds[of].start <= _offset(position) <= bounds[of].high
            else position
            for of, position in stands.items()
            if of in listed
        }

    def count(self, start: Stands, stop: Stands) -> int:
        """Count the offsets between positions."""
        return sum(
            max(_offset(end) - (_offset(start[of]) if of in start else 0), 0)
            for of, end in stop.items()
        )

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return a stretch of each partition that has records, cut to the limit."""
        bounds = self._bounds() if ends.keys() - stands.keys() else {}
        added = {_partition(at): _position(each.start, None) for at, each in bounds.items()}
        starts = {**added, **stands}
        places = {place_of(of): _offset(position) for of, position in starts.items()}
        stops = {place_of(of): _offset(end) for of, end in ends.items() if of in starts}
        budget = Budget(limit.rows_max, limit.bytes_max, limit.bytes_max, 1)
        lanes = cut(lanes_of({_ONE: places}, stops), budget)
        bytes_of_each = str(max(limit.bytes_max // max(len(lanes), 1), 1))
        return [
            Stretch(
                _partition(lane.at),
                starts[_partition(lane.at)],
                _stop(lane.covered.stop, ends[_partition(lane.at)]),
                lane.covered.count,
                bytes_of_each,
            )
            for lane in lanes
        ]

    def columns(self) -> pa.Schema | None:
        """Return the columns of its rows; None where it gives messages."""
        return self._columns

    def close(self) -> None:
        """Let go of connections."""
        self._log.close()

    def _known_bounds(self) -> Mapping[TopicPartition, Bounds]:
        """Return the bounds of all partitions. Raises UnavailableError (P250)."""
        partitions = self._log.partitions()
        bounds = self._log.bounds(partitions)
        if absent := [at for at in partitions if at not in bounds]:
            raise leaderless(absent)
        return bounds

    def _bounds(self) -> Mapping[TopicPartition, Bounds]:
        return self._log.bounds(self._log.partitions())


class TopicReader:
    """Implements `ports.sources.SourceReader` over a reader of ranges."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Read]:
        """Yield the records of a stretch as messages, with their headers and times."""
        for fetched, position in fetched_of(self._reader, stretch, deadline=deadline, headers=True):
            _require_headers(stretch.of, fetched)
            yield Read(fetched.batch.select(MESSAGES.names), position)


def fetched_of(
    reader: RangeReader, stretch: Stretch, *, deadline: float, headers: bool
) -> Iterator[tuple[Fetched, Position]]:
    """Yield the records of a stretch, and the position behind them. Raises what the reader does."""
    epoch = values_of(stretch.start).get("leader_epoch")
    for fetched in reader.read(
        place_of(stretch.of),
        OffsetRange(_offset(stretch.start), _offset(stretch.stop)),
        deadline=deadline,
        headers=headers,
        leader_epoch=epoch if isinstance(epoch, int) else None,
    ):
        yield fetched, _position(fetched.reached, fetched.leader_epoch)


def _place_in(word: str) -> tuple[str, int, int]:
    match word.split(":"):
        case [topic, number, offset] if number.isdecimal() and offset.isdecimal():
            return topic, int(number), int(offset)
        case _:
            raise InvalidError(
                f"{word[:120]!r} is not a place in a topic",
                code="P172",
                hint="write  earliest,  latest,  or places as  orders:0:100",
            )


def _partition(at: TopicPartition) -> SourcePartition:
    values: dict[str, Scalar] = {
        "partition": at.partition,
        "topic": at.topic,
        "topic_id": at.topic_id,
    }
    return partition_of(values, at.topic)


def _position(offset: int, leader_epoch: int | None) -> Position:
    known: dict[str, Scalar] = {} if leader_epoch is None else {"leader_epoch": leader_epoch}
    return position_of({"offset": int(offset), **known}, "a topic")


def _stop(offset: Offset, end: Position) -> Position:
    """Return the position of an offset: the end where it is there, whose epoch may be known."""
    return end if _offset(end) == offset else _position(offset, None)


def place_of(of: SourcePartition) -> TopicPartition:
    """Return the partition of a topic. Raises InvalidError where it is none."""
    match values_of(of):
        case {"partition": int(number), "topic": str(topic), "topic_id": str(topic_id)}:
            return TopicPartition(topic_id, number, topic)
        case other:
            raise foreign_position(other)


def _offset(position: Position) -> Offset:
    match values_of(position):
        case {"offset": int(offset)}:
            return Offset(offset)
        case other:
            raise foreign_position(other)


def _require_headers(of: SourcePartition, fetched: Fetched) -> None:
    """Raise InvalidError (P816) for a record whose headers cannot be written as they are."""
    headers = fetched.batch.column("headers")
    if headers.null_count:
        row = headers.is_null().index(True).as_py()
        raise InvalidError(
            f"{place_of(of)}, offset {fetched.batch.column('offset')[row]}: a header has a name"
            " that is not UTF-8",
            code="P816",
            hint="go on behind it once it is published by other means, or leave this topic out",
        )
