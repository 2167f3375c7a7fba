"""The log and the range reader over a memory cluster.

Invariants: those of `ports/log.py`, proven by the contract suite. Nothing waits: where a partition
has nothing more, a range ends early at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.connectors.memory.cluster import Entry, MemoryCluster, Partition
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition, span
from penstock.core.planning import Bounds
from penstock.ports.log import Fetched
from penstock.ports.runtime import Clock

BATCH_RECORDS = 1_000

_RECORDS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_WITH_HEADERS = _RECORDS.append(pa.field("headers", pa.list_(_HEADER)))


class MemoryLog:
    """List the topics of a cluster that the settings' `topics` name or match."""

    def __init__(self, cluster: MemoryCluster, settings: Mapping[str, Any]) -> None:
        topics = settings.get("topics", ())
        self._cluster = cluster
        self._named = {each for each in topics if isinstance(each, str)}
        self._patterns = [
            re.compile(each["pattern"]) for each in topics if not isinstance(each, str)
        ]
        self._by_name = settings.get("identity") == "name"

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        return self._cluster.cluster_id()

    def partitions(self, *, without: Collection[str] = ()) -> Sequence[TopicPartition]:
        """List the partitions of all topics that are named or matched but `without`, sorted."""
        names = self._cluster.names()
        matched = {each for each in names if any(p.fullmatch(each) for p in self._patterns)}
        return sorted(
            TopicPartition(f"name:{name}" if self._by_name else topic.id, number, name)
            for name in {*self._named, *matched} - {*without}
            for topic in [self._cluster.topic(name)]
            for number in range(len(topic.partitions))
        )

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return what can be read now of partitions that have a leader."""
        return {at: each.bounds for at, each in self._led(partitions)}

    def positions_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
        """Return the first position with a record not older than a time, else the end."""
        return {at: _position_at(each, timestamp_ms) for at, each in self._led(partitions)}

    def close(self) -> None:
        """Let go of nothing."""

    def _led(
        self, partitions: Sequence[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, Partition]]:
        for at in partitions:
            if (found := self._cluster.find(at)) is not None and found.led:
                yield at, found


class MemoryReader:
    """Read ranges of a cluster's partitions."""

    def __init__(
        self, cluster: MemoryCluster, clock: Clock, *, batch_records: int = BATCH_RECORDS
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._batch_records = batch_records

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield the committed records of a range, ending by position."""
        reached = int(covered.start)
        while reached < covered.stop and self._clock.monotonic() <= deadline:
            with self._cluster.guard:
                partition = self._cluster.find(at)
                if partition is None:
                    raise InvalidError(
                        f"topic {at.topic} does not exist under the id {at.topic_id}",
                        code="P205",
                        hint="create it, or correct its name in the spec",
                    )
                if not partition.led:
                    return
                _check(at, partition, reached, leader_epoch)
                stop = min(covered.stop, partition.stable)
                entries = [each for each in partition.entries if reached <= each.offset < stop]
                taken = [each for each in entries if each.readable][: self._batch_records]
            if stop <= reached:
                return
            full = len(taken) == self._batch_records
            reached = taken[-1].offset + 1 if full else stop
            read = [each for each in entries if each.offset < reached]
            leader_epoch = read[-1].leader_epoch if read else leader_epoch
            yield Fetched(_batch(taken, headers=headers), Offset(reached), leader_epoch)

    def close(self) -> None:
        """Let go of nothing."""


def _position_at(partition: Partition, timestamp_ms: int) -> Offset:
    for each in partition.entries:
        if each.readable and each.message is not None:
            written = each.message.timestamp_ms
            if written is not None and written >= timestamp_ms:
                return Offset(each.offset)
    return partition.bounds.stop


def _check(
    at: TopicPartition, partition: Partition, position: int, leader_epoch: int | None
) -> None:
    """Raise DecisionNeededError when the log no longer is the one that was read (P210, P211)."""
    if position < partition.start:
        raise DecisionNeededError(
            f"{at}: offsets {span(position, partition.start)} are no longer in the log",
            code="P210",
            hint="to continue after them and record the gap:  penstock run --accept gap",
        )
    newer = (each.offset for each in partition.entries if each.leader_epoch > (leader_epoch or 0))
    replaced = leader_epoch is not None and min(newer, default=partition.end) < position
    if position > partition.end or replaced:
        raise DecisionNeededError(
            f"{at}: was read up to {position}, and its log no longer holds what was read",
            code="P211",
            hint="an unclean leader election lost records the table holds: compare both",
        )


def _batch(entries: Sequence[Entry], *, headers: bool) -> pa.RecordBatch:
    rows = [
        {
            "offset": each.offset,
            "timestamp": message.timestamp_ms,
            "key": message.key,
            "value": message.value,
            "headers": [{"key": key, "value": value} for key, value in message.headers],
        }
        for each in entries
        if (message := each.message) is not None
    ]
    return pa.RecordBatch.from_pylist(rows, _WITH_HEADERS if headers else _RECORDS)
