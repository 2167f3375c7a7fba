"""The state of a memory log: topics with ids, partitions of entries, transactions, leaders.

Invariants:
- offsets are given once and never again: markers, aborted and compacted entries keep theirs;
- the last stable offset is the first offset of the oldest open transaction, or the end;
- a topic made again has another id, and nothing of the old one is found under it.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field

from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Bounds

BATCH_BYTES_MAX = 1_048_588


@dataclass(frozen=True, slots=True)
class Message:
    """One record as a producer sends it."""

    value: bytes | None = b"{}"
    key: bytes | None = None
    timestamp_ms: int | None = 1_700_000_000_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True)
class Transaction:
    """The outcome that all entries of one transaction share: None while it is open.

    `term` is the producer's id and epoch; None for what was sent without a transaction.
    """

    committed: bool | None
    term: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One offset that is taken: by a message, or by a marker when there is none."""

    offset: int
    message: Message | None
    transaction: Transaction
    leader_epoch: int

    @property
    def readable(self) -> bool:
        """Return whether a reader of committed records gets it."""
        return self.message is not None and self.transaction.committed is True


@dataclass(slots=True)
class Partition:
    """One partition: what is in it and whether it has a leader."""

    start: int = 0
    end: int = 0
    leader_epoch: int = 0
    led: bool = True
    entries: list[Entry] = field(default_factory=list)

    def add(self, message: Message | None, transaction: Transaction) -> int:
        """Take the next offset."""
        self.entries.append(Entry(self.end, message, transaction, self.leader_epoch))
        self.end += 1
        return self.end - 1

    @property
    def stable(self) -> int:
        """Return the last stable offset."""
        pending = (each.offset for each in self.entries if each.transaction.committed is None)
        return min(pending, default=self.end)

    @property
    def bounds(self) -> Bounds:
        """Return what can be read now."""
        return Bounds(Offset(self.start), Offset(max(self.stable, self.start)), Offset(self.end))


@dataclass(slots=True)
class Topic:
    """One incarnation of a topic; one that `is_compacted` takes no record without a key."""

    id: str
    partitions: list[Partition]
    batch_bytes_max: int = BATCH_BYTES_MAX
    is_compacted: bool = False


class MemoryCluster:
    """Keep topics; shared by all logs and readers of this process."""

    def __init__(self, cluster_id: str = "memory-1") -> None:
        self.guard = threading.RLock()
        self._id = cluster_id
        self._topics: dict[str, Topic] = {}
        self._numbers = itertools.count(1)
        self._down = False

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
                    hint="create it, or correct its name in the spec",
                )
            return self._topics[name]

    def partition(self, name: str, number: int) -> Partition:
        """Find a partition of a topic by name. Raises as `topic` does."""
        return self.topic(name).partitions[number]

    def find(self, at: TopicPartition) -> Partition | None:
        """Find a partition of the very incarnation that is meant; None when it does not exist."""
        self._check_up()
        with self.guard:
            topic = self._topics.get(at.topic)
            if topic is None or at.topic_id not in (topic.id, f"name:{at.topic}"):
                return None
            return topic.partitions[at.partition] if at.partition < len(topic.partitions) else None

    def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        is_compacted: bool = False,
    ) -> None:
        """Create a topic under a new id."""
        with self.guard:
            assert name not in self._topics, f"topic {name} exists"
            number = next(self._numbers)
            empty = [Partition() for _ in range(partitions)]
            self._topics[name] = Topic(f"topic-{number}", empty, batch_bytes_max, is_compacted)

    def send(self, name: str, *messages: Message, partition: int = 0) -> list[int]:
        """Send messages; return their offsets."""
        with self.guard:
            found = self.partition(name, partition)
            return [found.add(message, Transaction(committed=True)) for message in messages]

    def _check_up(self) -> None:
        if self._down:
            raise UnavailableError(
                "no broker answers at memory",
                code="P201",
                hint="bring the cluster back",
            )
