"""Transactions of producers: the right to write under an id, what is written, and their ends.

Invariants:
- a term is one transaction's: the next begins under the term that ended the one before;
- what is not known to have happened is `Refused`: the caller renews, looks, and goes on from what
  it finds; it never decides from the reason;
- nothing is aborted and gone on from: there is no request for it, a renewal aborts what is open.

Source: KIP-98, KIP-890; docs/design/0274.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches

if TYPE_CHECKING:
    import pyarrow as pa

PROTOCOL_2, PROTOCOL_1, NO_TRANSACTIONS = 2, 1, 0
"""How transactions end: each end gives the next term; a term ends with its transaction; none."""
NO_ANSWER = -1
FORGOTTEN = 49
"""Kafka's number for a term whose id and producer the coordinator does not know together."""
EPOCHS_BEFORE_THE_NEXT_PRODUCER = 32_760
"""Epochs are 16 bits: a producer id is replaced when they run out, and not long before."""


@dataclass(frozen=True, slots=True)
class Term:
    """The right to write under one transactional id: producer id and epoch."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}/{self.epoch}"


def of_the_same_id(former: Term, renewed: Term) -> Term | Refused:
    """Return a renewed term, or that the id had been forgotten.

    A coordinator that knows nothing of an id gives a new producer id and compares nothing, so that
    a run that was replaced long ago would take the id back.
    """
    replaced = former.producer_id != renewed.producer_id
    if replaced and former.epoch < EPOCHS_BEFORE_THE_NEXT_PRODUCER:
        return Refused(FORGOTTEN, f"the coordinator has forgotten the term {former}")
    return renewed


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not done, or nobody knows: `error` is Kafka's number, or NO_ANSWER."""

    error: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the coordinator of an id knows of it: its term, and whether something is open."""

    term: Term
    is_open: bool
    state: str


class Terms(Protocol):
    """Takes, renews and ends terms; on the driver, in one thread.

    `protocol`: PROTOCOL_2; PROTOCOL_1, where a term is taken for each transaction, and nothing is
    renewed; NO_TRANSACTIONS, where what is written counts at once.
    """

    protocol: int

    def check(self) -> None:
        """Check that the cluster has what these terms rest on.

        Raises InvalidError (P282), UnavailableError (P280), or as connecting does.
        """

    def remembered(self, transactional_id: str) -> Remembered | None:
        """Return what the coordinator knows of an id, or None; a term that is taken erases it.

        Raises as `take` does.
        """

    def take(self, transactional_id: str) -> Term:
        """Fence whoever has an id, abort what is open under it, and return a term of our own.

        Raises InvalidError: not allowed (P281), a timeout above the cluster's (P283);
        UnavailableError when no coordinator answers in time (P280).
        """

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Return the next term after ours, and abort what is open under it.

        Under protocol 2 this compares and sets: it succeeds unless another took the id since, or
        the coordinator forgot it. After an end without an answer it returns the term that the end
        gave. Raises InvalidError (P281), UnavailableError (P280).
        """

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit the open transaction and return the next term; under protocol 1 the same one.

        The same request is repeated for a while when no answer comes. Any refusal leaves in doubt
        whether the transaction ended: renew, then look. Raises InvalidError (P281).
        """

    def close(self) -> None:
        """Let go of connections; what is open stays open."""


Entry = tuple[bytes, bytes | None]
"""Key and value as they are in the topic; no value: a tombstone."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a ledger holds: the last committed value of each key.

    `undecided` are keys in transactions that have not ended: of others that write, or of ours if
    one hangs.
    """

    entries: Mapping[bytes, bytes]
    undecided: frozenset[bytes] = frozenset()


class Ledger(Protocol):
    """The offsets topic of a publication; on the driver, in one thread."""

    def prepare(self) -> None:
        """Create the topic if it is missing, and check that it is compacted, and nothing else.

        Raises InvalidError (P204, P800).
        """

    def check(self) -> None:
        """Check the same of a topic that is there; create none. Raises as `prepare` does."""

    def exists(self) -> bool:
        """Return whether the topic is there. Raises UnavailableError (P280)."""

    def look(self) -> Look:
        """Read from the beginning up to the high watermark of now, whoever's transactions are open.

        A fence that was answered before lets nothing appear behind it. Raises UnavailableError
        (P280), InvalidError (P204).
        """

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Write entries into the term's transaction, which begins with them if none is open.

        Called once for a term. Raises InvalidError (P204, P281), and UnavailableError (P280) before
        anything was sent.
        """

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Records of one target partition, encoded and compressed; no term and no place yet.

    `records` are as the cluster wants them, compressed by `codec`, Kafka's number of it.
    """

    records: bytes
    count: int
    codec: int
    first_ms: int
    last_ms: int


class Packer(Protocol):
    """Encodes rows, on a worker, before their transaction begins; again where that is needed."""

    def partitions_of(self, keys: pa.BinaryArray, count: int) -> pa.Int32Array:
        """Return where clients of the cluster put each key, of `count` partitions.

        The same key always goes to the same one; null where a key is null.
        """

    def pack(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Mapping[int, Sequence[PackedBatch]]:
        """Return batches by partition, `partitions` being that of each row.

        `rows` have the columns of `ports.log.Fetched` without `offset`. Those of a partition keep
        their order. A null timestamp is a record without one; a null list of headers has none.
        """


@dataclass(frozen=True, slots=True)
class RecordsRefused:
    """Records that a partition does not take, whoever sends them: `error` is Kafka's number.

    They are numbered from 0, as the partition's records were given.
    """

    at: TopicPartition
    error: int
    reason: str
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchTooLarge:
    """A batch of several records is larger than its topic allows: `bytes_max` of a whole batch."""

    at: TopicPartition
    error: int
    reason: str
    bytes_max: int


NotSent = Refused | RecordsRefused | BatchTooLarge
"""Why a sender gave up: what was sent meanwhile is for the transaction's end to be aborted with."""


class Sender(Protocol):
    """Writes packed batches into an open transaction; on one worker, in one thread.

    It never ends a transaction, and never decides what is to become of it.
    """

    def send(
        self,
        transactional_id: str,
        term: Term,
        batches: Mapping[TopicPartition, Iterable[PackedBatch]],
    ) -> Mapping[TopicPartition, Batches] | NotSent:
        """Send all batches, each partition's in order, and return what stands where.

        The transaction begins with the first one, if it is not open. A partition is written by one
        call under a term: its records are numbered from 0. A partition without a batch is not in
        the answer. A topic that was created again is not written. Raises InvalidError for a
        permission that is missing (P281) or a broker that is too old (P282), BugError for a batch
        that the broker finds damaged twice (P285).
        """

    def close(self) -> None:
        """Let go of connections; what is open stays open."""


@dataclass(frozen=True, slots=True)
class BatchHead:
    """A committed batch of a transaction, without its records; offsets are inclusive.

    `codec` is the name of its compression; `is_stamped`: it has the time of the broker.
    """

    term: Term
    first: int
    last: int
    records: int
    crc: int | None
    size_bytes: int
    codec: str = "none"
    is_stamped: bool = False


class Heads(Protocol):
    """Reads the heads of batches in the topics that are written; on the driver."""

    def committed(self, at: TopicPartition, begin: int) -> Iterator[BatchHead]:
        """Yield the committed batches of transactions from an offset on, up to the high watermark.

        In the order of their markers, whoever's transactions are open. Raises InvalidError (P204,
        P205), UnavailableError (P280).
        """

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a topic is created with; without a number of partitions it has the brokers' default."""

    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


class Topics(Protocol):
    """Creates topics, and says what they are; on the driver."""

    def exists(self, topic: str) -> bool:
        """Return whether a topic is there. Raises UnavailableError, InvalidError (P204)."""

    def is_compacted(self, topic: str) -> bool:
        """Return whether brokers compact a topic that is there.

        Raises as `exists` does, and InvalidError where its settings may not be read (P868).
        """

    def prepare(self, topic: str, new: NewTopic) -> None:
        """Create a topic unless it is there: then it stays as it is. Raises as `exists` does."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class ProducerNeeds:
    """What a publication asks of the cluster that it writes, besides the topics of its settings.

    `created` are the topics that it creates where they are missing, `mirrored` those that it reads.
    """

    ids: tuple[str, ...]
    offsets_topic: str
    created: frozenset[str]
    timeout_ms: int
    mirrored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Producers:
    """What the driver of a publication needs of the cluster that is written."""

    terms: Terms
    ledger: Ledger
    heads: Heads
    topics: Topics

    def close(self) -> None:
        """Let go of connections; what is open stays open."""
        for each in (self.terms, self.ledger, self.heads, self.topics):
            each.close()
