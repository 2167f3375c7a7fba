"""What lies behind a memory log: topics with ids, partitions of entries, transactions, leaders.

Invariants:
- offsets are given once and never again: markers, aborted and compacted entries keep theirs;
- the last stable offset is the first offset of the oldest open transaction, or the end;
- a topic made again has another id, and nothing of the old one is found under it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Bounds


@dataclass(frozen=True, slots=True)
class Message:
    """One record as a producer sends it."""

    value: bytes | None = b"{}"
    key: bytes | None = None
    timestamp_ms: int = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Fate(StrEnum):
    """The outcome of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Standing:
    """The fate that all entries of one transaction share."""

    fate: Fate


@dataclass(frozen=True, slots=True)
class Entry:
    """One offset that is taken: by a message, or by a marker when there is none."""

    offset: int
    message: Message | None
    standing: Standing
    leader_epoch: int

    @property
    def readable(self) -> bool:
        """Return whether a reader of committed records gets it."""
        return self.message is not None and self.standing.fate is Fate.COMMITTED


@dataclass(slots=True)
class Partition:
    """One partition: what is in it and who leads it."""

    start: int = 0
    end: int = 0
    leader_epoch: int = 0
    led: bool = True
    entries: list[Entry] = field(default_factory=list)

    def add(self, message: Message | None, standing: Standing) -> int:
        """Take the next offset."""
        self.entries.append(Entry(self.end, message, standing, self.leader_epoch))
        self.end += 1
        return self.end - 1

    @property
    def stable(self) -> int:
        """Return the last stable offset."""
        return min(
            (each.offset for each in self.entries if each.standing.fate is Fate.OPEN),
            default=self.end,
        )

    @property
    def bounds(self) -> Bounds:
        """Return what can be read now."""
        return Bounds(Offset(self.start), Offset(max(self.stable, self.start)), Offset(self.end))


@dataclass(slots=True)
class Topic:
    """One incarnation of a topic."""

    id: str
    partitions: list[Partition]


class MemoryTransaction:
    """Records that are sent and not yet decided upon; each end writes one marker a partition."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._standing = Standing(Fate.OPEN)
        self._touched: dict[tuple[str, int], Partition] = {}

    def send(self, topic: str, *messages: Message, partition: int = 0) -> list[int]:
        """Send messages that nobody reads before `commit`; give their offsets."""
        assert self._standing.fate is Fate.OPEN, "the transaction has ended"
        with self._cluster.guard:
            found = self._cluster.partition(topic, partition)
            self._touched[topic, partition] = found
            return [found.add(message, self._standing) for message in messages]

    def commit(self) -> None:
        """Make the records visible."""
        self._end(Fate.COMMITTED)

    def abort(self) -> None:
        """Make the records never to be seen."""
        self._end(Fate.ABORTED)

    def _end(self, fate: Fate) -> None:
        assert self._standing.fate is Fate.OPEN, "the transaction has ended"
        with self._cluster.guard:
            self._standing.fate = fate
            for partition in self._touched.values():
                partition.add(None, Standing(fate))


class MemoryCluster:
    """Keep topics; shared by all logs and readers of this process."""

    def __init__(self, cluster_id: str = "memory-1") -> None:
        self.guard = threading.RLock()
        self._id = cluster_id
        self._topics: dict[str, Topic] = {}
        self._numbers = itertools.count(1)
        self._down = False

    # What logs and readers ask.

    def cluster_id(self) -> str:
        """Return the cluster's id. Raises UnavailableError."""
        self._check_up()
        return self._id

    def names(self) -> list[str]:
        """List the topics. Raises UnavailableError."""
        self._check_up()
        with self.guard:
            return sorted(self._topics)

    def topic(self, name: str) -> Topic:
        """Find a topic. Raises InvalidError, UnavailableError."""
        self._check_up()
        with self.guard:
            if name not in self._topics:
                raise InvalidError(
                    f"topic {name} does not exist",
                    code="P205",
                    hint="create it, or correct kafka.topics",
                )
            return self._topics[name]

    def partition(self, name: str, number: int) -> Partition:
        """Find a partition of a topic by name. Raises as `topic` does."""
        return self.topic(name).partitions[number]

    def find(self, at: TopicPartition) -> Partition | None:
        """Find a partition of the very incarnation that is meant; None when it is gone."""
        self._check_up()
        with self.guard:
            topic = self._topics.get(at.topic)
            if topic is None or at.topic_id not in (topic.id, f"name:{at.topic}"):
                return None
            return topic.partitions[at.partition] if at.partition < len(topic.partitions) else None

    # What producers and operators do.

    def create(self, name: str, partitions: int = 1) -> None:
        """Create a topic under a new id."""
        with self.guard:
            assert name not in self._topics, f"topic {name} exists"
            number = next(self._numbers)
            self._topics[name] = Topic(f"topic-{number}", [Partition() for _ in range(partitions)])

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions up to a number."""
        with self.guard:
            held = self.topic(name).partitions
            held += [Partition() for _ in range(partitions - len(held))]

    def delete(self, name: str) -> None:
        """Delete a topic with its records."""
        with self.guard:
            del self._topics[name]

    def send(self, name: str, *messages: Message, partition: int = 0) -> list[int]:
        """Send messages; give their offsets."""
        with self.guard:
            found = self.partition(name, partition)
            return [found.add(message, Standing(Fate.COMMITTED)) for message in messages]

    def begin(self) -> MemoryTransaction:
        """Begin a transaction."""
        return MemoryTransaction(self)

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        """Delete records before an offset, as retention does."""
        with self.guard:
            found = self.partition(name, partition)
            found.start = max(found.start, min(offset, found.end))
            found.entries = [each for each in found.entries if each.offset >= found.start]

    def compact(self, name: str, partition: int, offsets: Iterable[int]) -> None:
        """Remove single records; their offsets stay taken."""
        gone = set(offsets)
        with self.guard:
            found = self.partition(name, partition)
            found.entries = [each for each in found.entries if each.offset not in gone]

    def lose_leader(self, name: str, partition: int) -> None:
        """Leave a partition without a leader: it cannot be read or listed."""
        with self.guard:
            self.partition(name, partition).led = False

    def elect_leader(self, name: str, partition: int, *, truncate_to: int | None = None) -> None:
        """Elect a leader for a partition; an unclean one has lost the records after an offset."""
        with self.guard:
            found = self.partition(name, partition)
            found.led = True
            found.leader_epoch += 1
            if truncate_to is not None:
                found.end = min(found.end, truncate_to)
                found.entries = [each for each in found.entries if each.offset < found.end]

    def go_down(self) -> None:
        """Stop to answer."""
        self._down = True

    def come_back(self) -> None:
        """Answer again."""
        self._down = False

    def records(self, name: str) -> Mapping[int, Sequence[tuple[int, Message]]]:
        """List what a reader of committed records would get, by partition: a test's oracle."""
        with self.guard:
            return {
                number: [
                    (each.offset, each.message)
                    for each in partition.entries
                    if each.readable and each.message is not None
                ]
                for number, partition in enumerate(self.topic(name).partitions)
            }

    def _check_up(self) -> None:
        if self._down:
            raise UnavailableError(
                "no broker answers at memory",
                code="P201",
                hint="bring the cluster back",
            )
