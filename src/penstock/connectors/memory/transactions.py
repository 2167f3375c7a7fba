"""Transactions on a memory cluster, with the answers that brokers give to producers.

Invariants:
- the coordinator answers with Kafka's numbers, under protocol 2 as measured on 4.3.1, under the
  protocol before where `level` is 0; `testing/contracts/transactions.py` holds both to it;
- an entry counts when its transaction has ended, from its marker on;
- nothing waits: markers are there when an end is answered.

Source: KIP-98, KIP-890; docs/design/0274.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.connectors.memory.cluster import MemoryCluster, Message, Partition, Transaction
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import (
    FORGOTTEN,
    PROTOCOL_1,
    PROTOCOL_2,
    BatchHead,
    Entry,
    Look,
    NewTopic,
    Refused,
    Remembered,
    Term,
    of_the_same_id,
)

UNKNOWN_TOPIC, TOO_LARGE, INVALID_RECORD = 3, 10, 87
OUT_OF_ORDER, OLD_EPOCH, NOT_OPEN, FENCED = 45, 47, 48, 90
LEVEL = 2
EMPTY, ONGOING, COMMITTED, ABORTED = "Empty", "Ongoing", "CompleteCommit", "CompleteAbort"

Sent = tuple[int, int]
"""First sequence and count of a batch that a partition has taken; beside it its offset there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a leader says of a batch: Kafka's error, the first offset, which records it refuses."""

    error: int
    first_offset: int = -1
    refused: tuple[int, ...] = ()


@dataclass(slots=True)
class _Id:
    """One transactional id; `before` is the term that the current one followed, if it may renew."""

    term: Term
    before: Term | None = None
    state: str = EMPTY
    transaction: Transaction | None = None
    touched: list[Partition] = field(default_factory=list)
    sent: dict[TopicPartition, dict[Sent, int]] = field(default_factory=dict)


class MemoryCoordinator:
    """Answers as the coordinator of all transactional ids of a cluster, and as its leaders do."""

    def __init__(self, cluster: MemoryCluster, *, level: int = LEVEL) -> None:
        self.cluster, self.level = cluster, level
        self._ids: dict[str, _Id] = {}
        self._producers = itertools.count()

    def remembered(self, name: str) -> Remembered | None:
        """Return what is known of an id."""
        known = self._ids.get(name)
        if known is None:
            return None
        return Remembered(known.term, known.state == ONGOING, known.state)

    def initialise(self, name: str, term: Term | None) -> tuple[int, Term]:
        """Give the next term: to whoever asks without one, else to who has the current one."""
        with self.cluster.guard:
            known = self._ids.get(name)
            if known is None:  # also for who has a term: it is compared with nothing
                known = self._ids[name] = _Id(Term(next(self._producers), 0))
                return 0, known.term
            is_ours = term == known.term
            if known.state == ONGOING:  # what is open is aborted, also for one who is refused
                renewable = self.level >= LEVEL and term is not None
                self._finish(known, committed=False)
                self._advance(known, renewable=renewable)
                if term is None or (is_ours and renewable):
                    return 0, self._emptied(known)
                return FENCED, term
            if term is None or is_ours:
                self._advance(known, renewable=term is not None)
                return 0, self._emptied(known)
            if term == known.before:
                return 0, self._emptied(known)
            return FENCED, term

    def end(self, name: str, term: Term, *, protocol: int = PROTOCOL_2) -> tuple[int, Term]:
        """Commit what is open under a term, and give the next one; again where that was done.

        A producer of the protocol before keeps its term.
        """
        with self.cluster.guard:
            known = self._ids.get(name)
            if known is None:
                return FORGOTTEN, term
            if term == known.term and known.state == ONGOING:
                self._finish(known, committed=True)
                if protocol == PROTOCOL_2:
                    self._advance(known, renewable=True)
                return 0, known.term
            if term == known.term:
                return NOT_OPEN, term
            if term == known.before and known.state in {COMMITTED, ABORTED}:
                return (0, known.term) if known.state == COMMITTED else (NOT_OPEN, term)
            return FENCED, term

    def produce(
        self,
        name: str,
        term: Term,
        at: TopicPartition,
        sequence: int,
        sent: Sequence[Message],
        *,
        size_bytes: int = 0,
    ) -> Answer:
        """Take a batch into the transaction of a term; it begins with the first."""
        with self.cluster.guard:
            known, partition = self._ids.get(name), self.cluster.find(at)
            if partition is None:
                return Answer(UNKNOWN_TOPIC)
            if known is None or term != known.term:
                return Answer(OLD_EPOCH)
            if known.transaction is None:
                known.transaction = Transaction(None, (term.producer_id, term.epoch))
                known.state = ONGOING
            known.touched.append(partition)
            topic, taken = self.cluster.topic(at.topic), known.sent.setdefault(at, {})
            if size_bytes > topic.batch_bytes_max:
                return Answer(TOO_LARGE)
            bare = tuple(n for n, each in enumerate(sent) if each.key is None)
            if topic.is_compacted and bare:
                return Answer(INVALID_RECORD, refused=bare)
            if (sequence, len(sent)) in taken:  # whatever is in it
                return Answer(0, taken[sequence, len(sent)])
            if sequence != sum(count for _, count in taken):
                return Answer(OUT_OF_ORDER)
            taken[sequence, len(sent)] = partition.end
            for message in sent:
                partition.add(message, known.transaction)
            return Answer(0, taken[sequence, len(sent)])

    def expire(self, name: str) -> None:
        """Abort what is open, as when its time is over."""
        with self.cluster.guard:
            known = self._ids[name]
            self._finish(known, committed=False)
            self._advance(known, renewable=self.level >= LEVEL)

    def forget(self, name: str) -> None:
        """Forget an id, as when nobody used it for days."""
        del self._ids[name]

    def _finish(self, known: _Id, *, committed: bool) -> None:
        if known.transaction is not None:
            known.transaction.committed = committed
        for partition in {id(each): each for each in known.touched}.values():
            partition.add(None, Transaction(committed))
        known.transaction, known.touched = None, []
        known.state = COMMITTED if committed else ABORTED

    def _advance(self, known: _Id, *, renewable: bool) -> None:
        known.before = known.term if renewable else None
        known.term = Term(known.term.producer_id, known.term.epoch + 1)
        known.sent = {}

    def _emptied(self, known: _Id) -> Term:
        known.state = EMPTY
        return known.term


class MemoryTerms:
    """Implements `ports.producers.Terms`."""

    protocol = PROTOCOL_2

    def __init__(self, coordinator: MemoryCoordinator) -> None:
        self._coordinator = coordinator

    def check(self) -> None:
        """Check that the cluster has protocol 2. Raises InvalidError (P282)."""
        if self._coordinator.level < LEVEL:
            raise InvalidError(
                f"the brokers at memory are too old: level {self._coordinator.level}",
                code="P282",
                hint="upgrade the brokers",
            )

    def remembered(self, transactional_id: str) -> Remembered | None:
        """Return what the coordinator knows of an id."""
        return self._coordinator.remembered(transactional_id)

    def take(self, transactional_id: str) -> Term:
        """Fence whoever has an id."""
        error, term = self._coordinator.initialise(transactional_id, None)
        assert error == 0, "nobody is refused who has no term"
        return term

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Return the next term after ours."""
        found = _answer(*self._coordinator.initialise(transactional_id, term))
        return of_the_same_id(term, found) if isinstance(found, Term) else found

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit the open transaction."""
        return _answer(*self._coordinator.end(transactional_id, term))

    def close(self) -> None:
        """Let go of nothing."""


class MemoryProducerTerms(MemoryTerms):
    """Implements `ports.producers.Terms` as a client library's producers do."""

    protocol = PROTOCOL_1

    def check(self) -> None:
        """Accept any cluster."""

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Abort what is open; there is no next term."""
        known = self._coordinator.remembered(transactional_id)
        if known is not None and known.term == term and known.is_open:
            self._coordinator.expire(transactional_id)
        return Refused(FENCED, "nothing is renewed")

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit the open transaction; the term is spent."""
        return _answer(*self._coordinator.end(transactional_id, term, protocol=PROTOCOL_1))


class MemoryLedger:
    """Implements `ports.producers.Ledger` over a topic of one partition."""

    def __init__(self, coordinator: MemoryCoordinator, topic: str) -> None:
        self._coordinator, self._topic = coordinator, topic

    def prepare(self) -> None:
        """Create the topic if it is missing."""
        cluster = self._coordinator.cluster
        if self._topic not in cluster.names():
            cluster.create(self._topic)

    def check(self) -> None:
        """Find nothing: no topic of a memory cluster is compacted."""

    def exists(self) -> bool:
        """Return whether the topic is there."""
        return self._topic in self._coordinator.cluster.names()

    def look(self) -> Look:
        """Return what counts."""
        entries: dict[bytes, bytes | None] = {}
        undecided = set()
        for each in self._coordinator.cluster.partition(self._topic, 0).entries:
            message = each.message
            if message is None or message.key is None:
                continue
            if each.transaction.committed is None:
                undecided.add(message.key)
            elif each.transaction.committed:
                entries[message.key] = message.value
        there = {key: value for key, value in entries.items() if value is not None}
        return Look(there, frozenset(undecided))

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Write entries into the term's transaction."""
        sent = [Message(value, key) for key, value in entries]
        at = TopicPartition(self._coordinator.cluster.topic(self._topic).id, 0, self._topic)
        error = self._coordinator.produce(transactional_id, term, at, 0, sent).error
        return Refused(error, f"error {error}") if error else None

    def close(self) -> None:
        """Let go of nothing."""


class MemoryHeads:
    """Implements `ports.producers.Heads`: each record is a batch."""

    def __init__(self, coordinator: MemoryCoordinator) -> None:
        self._coordinator = coordinator

    def committed(self, at: TopicPartition, begin: int) -> Iterator[BatchHead]:
        """Yield the committed records of transactions from an offset on."""
        partition = self._coordinator.cluster.find(at)
        for each in [] if partition is None else partition.entries:
            term = each.transaction.term
            if each.offset >= begin and each.readable and term is not None:
                yield BatchHead(Term(*term), each.offset, each.offset, 1, None, 1)

    def close(self) -> None:
        """Let go of nothing."""


def _answer(error: int, term: Term) -> Term | Refused:
    return Refused(error, f"error {error}") if error else term


class MemoryTopics:
    """Implements `ports.producers.Topics`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def exists(self, topic: str) -> bool:
        """Return whether a topic is there."""
        return topic in self._cluster.names()

    def is_compacted(self, topic: str) -> bool:
        """Return whether a topic is compacted."""
        return self._cluster.topic(topic).is_compacted

    def prepare(self, topic: str, new: NewTopic) -> None:
        """Create a topic unless it is there."""
        if not self.exists(topic):
            self._cluster.create(topic, new.partitions or 1)

    def close(self) -> None:
        """Let go of nothing."""
